//! Who may write to an agent.
//!
//! Promises: only the platform's immutable id counts, compared whole
//! (CVE-2026-28480 and those alike); unknown means no.

use super::inbound::{Chat, Inbound};
use super::service::Channels;
use super::state::Account;
use crate::config::channels::{
    AccessSettings, ChannelAccount, DmPolicy, GroupPolicy, GroupSettings, PeerId,
};
use crate::sessions::{PeerKind, SessionEntry};
use crate::store::StoreError;

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is taken.
    Allowed,
    /// It is not, for this reason.
    Denied(&'static str),
    /// Its sender may ask to be let in.
    Unknown,
}

/// Whether a message is taken.
pub(super) async fn judge(
    channels: &Channels,
    account: &Account,
    inbound: &Inbound,
) -> Result<Verdict, StoreError> {
    let config = &account.config;
    if inbound.chat.kind != PeerKind::Direct {
        return Ok(in_group(config, inbound));
    }
    let is_listed = || is_in(&config.access.allow_from, &inbound.sender.id);
    let denied = Verdict::Denied("its sender is not in allowFrom");
    Ok(match config.access.dm_policy {
        DmPolicy::Disabled => Verdict::Denied("direct messages are turned off"),
        DmPolicy::Open | DmPolicy::Allowlist | DmPolicy::Pairing if is_listed() => Verdict::Allowed,
        DmPolicy::Open | DmPolicy::Allowlist => denied,
        DmPolicy::Pairing => {
            let (channel, id) = (config.kind.as_str().to_owned(), config.id.clone());
            let store = &channels.0.parts.store;
            let is_paired = store.is_paired(channel, id, inbound.sender.id.clone()).await?;
            if is_paired { Verdict::Allowed } else { Verdict::Unknown }
        }
    })
}

fn in_group(config: &ChannelAccount, inbound: &Inbound) -> Verdict {
    let access = &config.access;
    let Some(group) = group_of(access, &inbound.chat) else {
        return Verdict::Denied("its group is not among groups");
    };
    if group.enabled == Some(false) {
        return Verdict::Denied("its group is turned off");
    }
    // People who were let in for direct messages are not so for groups.
    let everywhere = access.group_allow_from.as_ref().unwrap_or(&access.allow_from);
    let allowed = group.allow_from.as_ref().unwrap_or(everywhere);
    match group.group_policy.unwrap_or(access.group_policy) {
        GroupPolicy::Disabled => Verdict::Denied("groups are turned off"),
        GroupPolicy::Open => Verdict::Allowed,
        GroupPolicy::Allowlist if is_in(allowed, &inbound.sender.id) => Verdict::Allowed,
        GroupPolicy::Allowlist => Verdict::Denied("its sender is not in groupAllowFrom"),
    }
}

/// What is set for a group. One that has another id now is meant by its former one until
/// the one that it has is named.
fn group_of(access: &AccessSettings, chat: &Chat) -> Option<GroupSettings> {
    let is_named = access.groups.contains_key(&chat.id);
    let former = chat.former.as_deref().filter(|_| !is_named);
    access.group(former.unwrap_or(&chat.id))
}

/// Whether a direct message is of somebody else than the only person in `allowFrom`.
pub(super) fn is_guest(config: &ChannelAccount, inbound: &Inbound) -> bool {
    let named = || config.access.allow_from.iter().filter(|peer| !peer.as_str().is_empty());
    let Some(owner) = named().next() else { return false };
    let is_alone = !owner.is_everybody() && named().all(|peer| peer == owner);
    inbound.chat.kind == PeerKind::Direct && is_alone && !owner.is(&inbound.sender.id)
}

fn is_in(list: &[PeerId], id: &str) -> bool {
    !id.is_empty() && list.iter().any(|peer| peer.is_everybody() || peer.is(id))
}

/// Whether a message is to the agent. In a group, only one that says so is,
/// unless the group or the session wants all of them; a command always is, and so is what
/// names a skill (`is_as_written`).
pub(super) fn is_addressed(
    config: &ChannelAccount,
    inbound: &Inbound,
    entry: Option<&SessionEntry>,
    is_as_written: bool,
) -> bool {
    inbound.chat.kind == PeerKind::Direct
        || inbound.is_mention
        || is_as_written
        || !needs_mention(config, inbound, entry)
}

/// Whether in the group of a message only what says so is to the agent.
pub(super) fn needs_mention(
    config: &ChannelAccount,
    inbound: &Inbound,
    entry: Option<&SessionEntry>,
) -> bool {
    let of_session = entry.and_then(|entry| entry.group_activation.as_deref());
    match of_session {
        Some("always") => false,
        Some("mention") => true,
        _ => {
            let group = group_of(&config.access, &inbound.chat).unwrap_or_default();
            group.require_mention != Some(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::inbound::Sender;
    use crate::config::channels::{ChannelKind, ChunkMode, ReplyToMode};
    use crate::support::json;
    use serde_json::Value;

    fn account(groups: &Value, group_allow_from: Option<&[&str]>) -> ChannelAccount {
        let ids = |ids: &[&str]| ids.iter().map(|id| PeerId::new(id)).collect::<Vec<_>>();
        ChannelAccount {
            kind: ChannelKind::Webhook,
            id: "default".into(),
            is_default: true,
            is_listed: false,
            name: None,
            enabled: true,
            access: AccessSettings {
                allow_from: ids(&["7"]),
                group_allow_from: group_allow_from.map(ids),
                groups: serde_json::from_value(groups.clone()).unwrap(),
                ..AccessSettings::default()
            },
            chunk_limit: 100,
            chunk_mode: ChunkMode::Length,
            reply_to: ReplyToMode::Off,
            media_max_mb: 1,
            response_prefix: None,
            way: Err("test".into()),
        }
    }

    fn said_by(id: &str, name: &str) -> Inbound {
        Inbound {
            message_id: "1".into(),
            source: None,
            chat: Chat {
                kind: PeerKind::Group,
                id: "g".into(),
                title: None,
                thread: None,
                former: None,
            },
            sender: Sender { id: id.into(), name: Some(name.into()) },
            text: "hi".into(),
            is_forwarded: false,
            attachments: vec![],
            files: vec![],
            is_mention: false,
            without_name: None,
            quoted: None,
        }
    }

    #[test]
    fn only_the_whole_id_lets_somebody_in_whatever_they_are_called() {
        let config = account(&json!({}), None);
        let verdict = |id, name| in_group(&config, &said_by(id, name));
        assert_eq!(verdict("7", "nobody"), Verdict::Allowed);
        for (id, name) in [("8", "7"), ("77", "7"), ("", "7"), ("7 ", "7"), ("tg:7", "7")] {
            assert!(matches!(verdict(id, name), Verdict::Denied(_)), "{id:?}");
        }
        let named = account(&json!({"other": {}}), Some(&["9"]));
        assert!(matches!(in_group(&named, &said_by("9", "")), Verdict::Denied(_)));
        let own = account(&json!({"g": {"allowFrom": ["5"]}}), Some(&["9"]));
        assert_eq!(in_group(&own, &said_by("5", "")), Verdict::Allowed);
        assert!(matches!(in_group(&own, &said_by("9", "")), Verdict::Denied(_)));
    }

    #[test]
    fn a_group_with_another_id_has_the_rules_of_its_former_one_until_it_is_named() {
        let mut inbound = said_by("7", "x");
        let groups = json!({"old": {"requireMention": false}});
        let verdict = |config: &ChannelAccount, inbound: &Inbound| {
            let is_addressed = is_addressed(config, inbound, None, false);
            (in_group(config, inbound) == Verdict::Allowed, is_addressed)
        };
        assert_eq!(verdict(&account(&groups, None), &inbound), (false, false));
        inbound.chat.former = Some("old".into());
        assert_eq!(verdict(&account(&groups, None), &inbound), (true, true));
        let named = json!({"old": {"enabled": false, "requireMention": false}, "g": {}});
        assert_eq!(verdict(&account(&named, None), &inbound), (true, false));
    }

    #[test]
    fn a_guest_is_who_is_not_the_only_person_named() {
        let mut config = account(&json!({}), None);
        let mut direct = said_by("8", "x");
        direct.chat.kind = PeerKind::Direct;
        for (allow_from, is_guest_of) in [
            (vec!["7"], true),
            (vec!["8"], false),
            (vec!["tg:7", " 7 ", ""], true),
            (vec!["7", "9"], false),
            (vec!["7", "*"], false),
            (vec!["*"], false),
            (vec![""], false),
            (vec![], false),
        ] {
            config.access.allow_from = allow_from.iter().map(|id| PeerId::new(id)).collect();
            assert_eq!(is_guest(&config, &direct), is_guest_of, "{allow_from:?}");
        }
        config.access.allow_from = vec![PeerId::new("7")];
        assert!(!is_guest(&config, &said_by("8", "x")), "a group is no direct message");
    }

    #[test]
    fn in_a_group_only_what_is_to_the_agent_is_answered_unless_all_is_wanted() {
        let config = account(&json!({}), None);
        let plain = said_by("7", "x");
        assert!(!is_addressed(&config, &plain, None, false));
        let mentioned = Inbound { is_mention: true, ..plain.clone() };
        assert!(is_addressed(&config, &mentioned, None, false));
        assert!(is_addressed(&config, &plain, None, true), "a command, or a skill");
        let always = SessionEntry { group_activation: Some("always".into()), ..Default::default() };
        assert!(is_addressed(&config, &plain, Some(&always), false));
        let all = account(&json!({"*": {"requireMention": false}}), None);
        assert!(is_addressed(&all, &plain, None, false));
        let mention =
            SessionEntry { group_activation: Some("mention".into()), ..Default::default() };
        assert!(!is_addressed(&all, &plain, Some(&mention), false));
    }
}
