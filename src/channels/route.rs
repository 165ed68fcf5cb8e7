//! Which agent answers a message, and in which session.

use super::inbound::Chat;
use crate::config::channels::{Binding, BoundPeer, ChannelAccount, ChannelsSettings};
use crate::sessions::{AgentId, KeyRules, Peer, PeerKind, SessionKey};

/// The session that a message belongs to.
pub(super) fn session_of(
    settings: &ChannelsSettings,
    account: &ChannelAccount,
    chat: &Chat,
    rules: &KeyRules,
) -> SessionKey {
    let agent = agent_of(&settings.bindings, account, chat, rules);
    let peer = Peer {
        channel: account.kind.as_str(),
        account: Some(&account.id),
        kind: chat.kind,
        id: &chat.id,
        thread: chat.thread.as_deref(),
    };
    SessionKey::of_peer(&agent, &peer, rules)
}

/// The agent of the binding that fits best: one that names the person or group,
/// then one of the account, then one of the channel. A group that has another id now is
/// meant by its former one until the one that it has is named.
fn agent_of(
    bindings: &[Binding],
    account: &ChannelAccount,
    chat: &Chat,
    rules: &KeyRules,
) -> AgentId {
    let fitting = || bindings.iter().filter(|it| it.channel == account.kind.as_str());
    let is_any = |binding: &Binding| binding.account_id.as_deref() == Some("*");
    let is_account = |binding: &Binding| match binding.account_id.as_deref() {
        None => account.is_default,
        Some(id) => id == account.id,
    };
    let mut peers = fitting().filter_map(|it| it.peer.as_ref());
    let is_named = peers.any(|peer| peer.id.is(&chat.id));
    let former = chat.former.as_deref().filter(|_| !is_named);
    let by_peer = fitting().find(|binding| {
        let fits = binding.peer.as_ref().is_some_and(|peer| is_peer(peer, chat, former));
        fits && (is_account(binding) || is_any(binding))
    });
    let by_account = || fitting().find(|it| it.peer.is_none() && is_account(it));
    let by_channel = || fitting().find(|it| it.peer.is_none() && is_any(it));
    let found = by_peer.or_else(by_account).or_else(by_channel);
    found.map_or_else(|| rules.default_agent.clone(), |it| AgentId::normalize(&it.agent_id))
}

fn is_peer(peer: &BoundPeer, chat: &Chat, former: Option<&str>) -> bool {
    let kind = match peer.kind.as_str() {
        "direct" | "dm" => PeerKind::Direct,
        "group" => PeerKind::Group,
        "channel" => PeerKind::Channel,
        _ => return false,
    };
    let is_former = || former.is_some_and(|id| peer.id.is(id));
    kind == chat.kind && (peer.id.is_everybody() || peer.id.is(&chat.id) || is_former())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DmScope;
    use crate::config::channels::{AccessSettings, ChannelKind, ChunkMode, PeerId, ReplyToMode};

    fn account(id: &str) -> ChannelAccount {
        ChannelAccount {
            kind: ChannelKind::Telegram,
            id: id.into(),
            is_default: id == "default",
            is_listed: id != "default",
            name: None,
            enabled: true,
            access: AccessSettings::default(),
            chunk_limit: 100,
            chunk_mode: ChunkMode::Length,
            reply_to: ReplyToMode::Off,
            media_max_mb: 1,
            response_prefix: None,
            way: Err("test".into()),
        }
    }

    fn binding(agent: &str, account: Option<&str>, peer: Option<(&str, &str)>) -> Binding {
        Binding {
            agent_id: agent.into(),
            channel: "telegram".into(),
            account_id: account.map(Into::into),
            peer: peer.map(|(kind, id)| BoundPeer { kind: kind.into(), id: PeerId::new(id) }),
        }
    }

    #[test]
    fn the_binding_that_fits_best_decides() {
        let settings = ChannelsSettings {
            bindings: vec![
                binding("any", Some("*"), None),
                binding("usual", None, None),
                binding("work", Some("work"), None),
                binding("vip", Some("*"), Some(("dm", "7"))),
                binding("team", None, Some(("group", "-5"))),
                binding("odd", None, Some(("direct", "-5"))),
            ],
            ..ChannelsSettings::default()
        };
        let rules = KeyRules { dm_scope: DmScope::PerChannelPeer, ..KeyRules::default() };
        let chat = |kind, id: &str, thread: Option<&str>| Chat {
            kind,
            id: id.into(),
            title: None,
            thread: thread.map(Into::into),
            former: None,
        };
        let moved = Chat { former: Some("-5".into()), ..chat(PeerKind::Group, "-1005", None) };
        for (id, chat, key) in [
            ("default", chat(PeerKind::Direct, "7", None), "agent:vip:telegram:direct:7"),
            ("default", chat(PeerKind::Direct, "8", None), "agent:usual:telegram:direct:8"),
            ("work", chat(PeerKind::Direct, "8", None), "agent:work:telegram:direct:8"),
            ("other", chat(PeerKind::Direct, "8", None), "agent:any:telegram:direct:8"),
            (
                "default",
                chat(PeerKind::Group, "-5", Some("3")),
                "agent:team:telegram:group:-5:topic:3",
            ),
            ("default", moved, "agent:team:telegram:group:-1005"),
        ] {
            let found = session_of(&settings, &account(id), &chat, &rules);
            assert_eq!(found.as_str(), key);
        }
    }
}
