//! Groups that have another id than they had: on Telegram, those that have become
//! supergroups.
//!
//! Promises: what the configuration says of a group holds on, also after a restart, until
//! it names the id that the group has now; an operator is told which that is.

use super::inbound::Chat;
use super::service::Channels;
use super::state::Account;
use crate::sessions::PeerKind;
use crate::store::StoreError;

impl Channels {
    /// The service tells that a group has another id. What nothing is set for needs no
    /// note.
    pub(super) async fn note_move(
        &self,
        account: &Account,
        former: &str,
        now: &str,
    ) -> Result<(), StoreError> {
        let (store, name) = (&self.0.parts.store, note_name(account, now));
        if !self.names(account, former) || store.channel_note(&name).await?.is_some() {
            return Ok(());
        }
        store.keep_channel_note(name, former.to_owned()).await?;
        let config = &account.config;
        tracing::warn!(
            channel = config.kind.as_str(),
            account = config.id,
            former,
            now,
            "a group has another id; what was set for it holds on until channels.{}.groups (and \
            bindings) name the new one",
            config.kind.as_str()
        );
        Ok(())
    }

    /// The id that a group had before it was given the one that it has.
    pub(super) async fn former_of(
        &self,
        account: &Account,
        chat: &Chat,
    ) -> Result<Option<String>, StoreError> {
        if chat.kind == PeerKind::Direct {
            return Ok(None);
        }
        self.0.parts.store.channel_note(&note_name(account, &chat.id)).await
    }

    /// Whether the configuration says anything of a group.
    fn names(&self, account: &Account, id: &str) -> bool {
        let (config, settings) = (&account.config, self.0.parts.settings.now());
        let mut bound = settings.channels.bindings.iter().filter_map(|it| it.peer.as_ref());
        config.access.groups.contains_key(id) || bound.any(|peer| peer.id.is(id))
    }
}

fn note_name(account: &Account, id: &str) -> String {
    format!("{}:{}:moved:{id}", account.config.kind.as_str(), account.config.id)
}
