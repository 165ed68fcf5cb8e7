//! The way of a channel's message to an agent: that of `chat.send`, with the
//! rights of the person who wrote it.

use std::sync::{Arc, Weak};

use super::chat::{self, Handed};
use crate::agent::SendError;
use crate::auth::Principal;
use crate::bus::Subscriber;
use crate::channels::{Inlet, InletError, Said, Taken};
use crate::commands;
use crate::protocol::methods::chat::ChatSendParams;
use crate::protocol::{ErrorCode, ErrorShape, Profile, Version};
use crate::registry::{Caller, Ctx, Person, Services};
use crate::sessions::SessionKey;
use crate::support::BoxFuture;

/// What programs are called that speak for people of channels.
const CLIENT: &str = "channel";

/// What a person hears who says to stop what others have asked for.
const NOT_YOURS: &str =
    "What runs here was asked for by somebody else. Only they or an owner can stop it.";

/// Accepts messages of channels.
pub struct ChannelInlet {
    /// They hold the channels, which hold this.
    services: Weak<Services>,
}

impl ChannelInlet {
    /// One for this gateway.
    pub fn new(services: &Arc<Services>) -> Self {
        Self { services: Arc::downgrade(services) }
    }

    fn services(&self) -> Result<Arc<Services>, InletError> {
        let gone = || InletError::Later("the gateway is stopping".into());
        self.services.upgrade().ok_or_else(gone)
    }
}

impl Inlet for ChannelInlet {
    fn is_command<'a>(
        &'a self,
        key: &'a SessionKey,
        text: &'a str,
    ) -> BoxFuture<'a, Result<bool, InletError>> {
        Box::pin(async move {
            let services = self.services()?;
            Ok(commands::is_command(text, services.runs.parts(), key).await)
        })
    }

    fn is_stop(&self, text: &str) -> bool {
        commands::is_stop_word(text)
    }

    fn commands(&self) -> Vec<(&'static str, &'static str)> {
        let Ok(services) = self.services() else { return Vec::new() };
        let offered = commands::offered(services.settings.now().commands.config);
        offered.map(|spec| (spec.name, spec.description)).collect()
    }

    fn accept(&self, said: Said) -> BoxFuture<'_, Result<Taken, InletError>> {
        Box::pin(async move { accept(self.services()?, said).await })
    }
}

async fn accept(services: Arc<Services>, mut said: Said) -> Result<Taken, InletError> {
    said.before = said.before.as_deref().map(chat::clean).transpose().map_err(refused)?;
    let (cx, key) = (Ctx::new(services, caller(&said)), said.key.clone());
    cx.enter_lane(&key).await;
    let params = ChatSendParams {
        session_key: key.to_string(),
        message: said.text,
        thinking: None,
        attachments: said.attachments,
        timeout_ms: None,
        deliver: false,
        route: None,
        provenance: None,
        provenance_receipt: None,
        idempotency_key: said.run_id,
    };
    let checked = chat::check(&cx, key, params, Some(said.channel)).await.map_err(refused)?;
    let checked = checked.answered_in(said.place);
    match chat::hand_in(&cx, checked).await.map_err(refused)? {
        Handed::Stopped(runs) => Ok(Taken::Stopped(runs.len())),
        Handed::NotYours => Err(InletError::Refused(NOT_YOURS.into())),
        // One that was accepted before the last stop has its end told all the same.
        Handed::Sent(Ok(_)) => Ok(Taken::Run),
        Handed::Sent(Err(error)) => Err(unsent(&error)),
    }
}

/// What another try may mend is tried again, as nothing else of the chat is taken
/// meanwhile; the rest is told to the person, who knows best what to do.
fn unsent(error: &SendError) -> InletError {
    let text = error.to_string();
    match error {
        SendError::Stopping | SendError::Store(_) | SendError::Broken => InletError::Later(text),
        SendError::TooMany
        | SendError::IdTaken
        | SendError::Session(_)
        | SendError::Media(_)
        | SendError::Unwritable(_) => InletError::Refused(text),
    }
}

/// What cannot be served now may be later; everything else is told.
fn refused(error: ErrorShape) -> InletError {
    match error.code {
        ErrorCode::Unavailable => InletError::Later(error.message),
        _ => InletError::Refused(error.message),
    }
}

fn caller(said: &Said) -> Caller {
    let Said { channel, account, person, before, is_owner, .. } = said;
    let principal = Arc::new(Principal::of_channel(channel, account, person, *is_owner));
    let of_channel = Person {
        channel: said.channel,
        account: account.clone(),
        id: person.clone(),
        before: before.clone(),
    };
    let id: Arc<str> = format!("{CLIENT}:{channel}:{account}:{person}").into();
    Caller {
        subscriber: Arc::new(Subscriber::new(Arc::clone(&id), Arc::clone(&principal), &[])),
        principal,
        profile: Profile::Standard(Version::V3),
        client_id: CLIENT.into(),
        person: Some(of_channel.into()),
        name: id,
        place: None,
        is_webchat: false,
        is_dashboard: false,
        is_retrying: false,
        key_names: Arc::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_served_now_is_asked_again_and_the_rest_is_told() {
        let later = refused(ErrorShape::unavailable("Error: x"));
        assert_eq!(later, InletError::Later("Error: x".into()));
        let told = refused(ErrorShape::invalid("no"));
        assert_eq!(told, InletError::Refused("no".into()));
        let later = unsent(&SendError::Stopping);
        assert_eq!(later, InletError::Later(SendError::Stopping.to_string()));
        for error in [SendError::TooMany, SendError::Unwritable("no space".into())] {
            assert_eq!(unsent(&error), InletError::Refused(error.to_string()));
        }
    }
}
