//! The session that a channel's message belongs to.

use super::{AgentId, KeyRules, SessionKey};
use crate::config::DmScope;

/// Account of a channel that has only one.
const ONLY_ACCOUNT: &str = "default";

/// What kind of place a message was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerKind {
    /// To the agent alone.
    Direct,
    /// In a group.
    Group,
    /// In a room that people join.
    Channel,
}

/// Where a channel's message comes from; the ids are the channel's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer<'a> {
    /// Name of the channel, such as `telegram`.
    pub channel: &'a str,
    /// Which of our accounts there was written to.
    pub account: Option<&'a str>,
    /// What kind of place it is.
    pub kind: PeerKind,
    /// Person, group or room.
    pub id: &'a str,
    /// Thread in it.
    pub thread: Option<&'a str>,
}

impl SessionKey {
    /// The session of `agent` that a message from `peer` belongs to. Groups and
    /// rooms have one each; direct messages go by `session.dmScope`.
    pub fn of_peer(agent: &AgentId, peer: &Peer<'_>, rules: &KeyRules) -> Self {
        if rules.global_scope {
            return Self::main(agent, rules);
        }
        let channel = word(peer.channel);
        let key = match peer.kind {
            PeerKind::Direct => match direct(&channel, peer, rules) {
                Some(rest) => format!("agent:{agent}:{rest}"),
                None => return Self::main(agent, rules),
            },
            PeerKind::Group => format!("agent:{agent}:{channel}:group:{}", word(peer.id)),
            PeerKind::Channel => format!("agent:{agent}:{channel}:channel:{}", word(peer.id)),
        };
        match peer.thread.map(str::trim).filter(|thread| !thread.is_empty()) {
            Some(thread) if channel == "telegram" => Self(format!("{key}:topic:{}", word(thread))),
            Some(thread) => Self(format!("{key}:thread:{}", word(thread))),
            None => Self(key),
        }
    }
}

/// What follows the agent for a direct message; `None` for its main session.
fn direct(channel: &str, peer: &Peer<'_>, rules: &KeyRules) -> Option<String> {
    if peer.id.trim().is_empty() {
        return None;
    }
    let person = linked(channel, peer.id, rules).map_or_else(|| word(peer.id), word);
    match rules.dm_scope {
        DmScope::Main => None,
        DmScope::PerPeer => Some(format!("direct:{person}")),
        DmScope::PerChannelPeer => Some(format!("{channel}:direct:{person}")),
        DmScope::PerAccountChannelPeer => {
            let account = peer.account.map(str::trim).filter(|account| !account.is_empty());
            let account = word(account.unwrap_or(ONLY_ACCOUNT));
            Some(format!("{channel}:{account}:direct:{person}"))
        }
    }
}

/// The name of a person who writes from several places.
fn linked<'a>(channel: &str, id: &str, rules: &'a KeyRules) -> Option<&'a str> {
    let (bare, full) = (word(id), format!("{channel}:{}", word(id)));
    let is_here = |place: &String| {
        let place = word(place);
        place == bare || place == full
    };
    let mut links = rules.identity_links.iter();
    links.find(|(_, places)| places.iter().any(is_here)).map(|(name, _)| name.as_str())
}

/// A part of a key: never empty, lower case.
fn word(text: &str) -> String {
    let word = text.trim().to_lowercase();
    if word.is_empty() { "unknown".into() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DmScope::{Main, PerAccountChannelPeer, PerChannelPeer, PerPeer};

    fn rules(dm_scope: DmScope) -> KeyRules {
        let places = vec!["telegram:42".to_owned(), "+491234".into()];
        let identity_links = [("Alice".to_owned(), places)].into();
        KeyRules { dm_scope, identity_links, ..KeyRules::default() }
    }

    fn peer(channel: &'static str, kind: PeerKind, id: &'static str) -> Peer<'static> {
        Peer { channel, account: None, kind, id, thread: None }
    }

    fn key(peer: Peer<'_>, scope: DmScope) -> String {
        SessionKey::of_peer(&AgentId::normalize("ops"), &peer, &rules(scope)).to_string()
    }

    #[test]
    fn direct_messages_are_kept_apart_as_the_scope_says() {
        let person = peer("WhatsApp", PeerKind::Direct, " +1234567890 ");
        let account = Peer { account: Some("Work"), ..person };
        for (message, scope, expected) in [
            (person, Main, "agent:ops:main"),
            (person, PerPeer, "agent:ops:direct:+1234567890"),
            (person, PerChannelPeer, "agent:ops:whatsapp:direct:+1234567890"),
            (person, PerAccountChannelPeer, "agent:ops:whatsapp:default:direct:+1234567890"),
            (account, PerAccountChannelPeer, "agent:ops:whatsapp:work:direct:+1234567890"),
            (account, PerChannelPeer, "agent:ops:whatsapp:direct:+1234567890"),
            (peer("irc", PeerKind::Direct, " "), PerPeer, "agent:ops:main"),
        ] {
            assert_eq!(key(message, scope), expected);
        }
    }

    #[test]
    fn a_person_with_several_places_has_one_session() {
        let telegram = peer("telegram", PeerKind::Direct, "42");
        let signal = peer("signal", PeerKind::Direct, "+491234");
        let stranger = peer("discord", PeerKind::Direct, "42");
        assert_eq!(key(telegram, PerPeer), "agent:ops:direct:alice");
        assert_eq!(key(signal, PerPeer), "agent:ops:direct:alice");
        assert_eq!(key(signal, PerChannelPeer), "agent:ops:signal:direct:alice");
        assert_eq!(key(stranger, PerPeer), "agent:ops:direct:42");
        assert_eq!(key(telegram, Main), "agent:ops:main");
    }

    #[test]
    fn groups_rooms_and_threads_have_sessions_of_their_own_in_every_scope() {
        let group = peer("telegram", PeerKind::Group, "-100123");
        let topic = Peer { thread: Some("7"), ..group };
        let room = peer("slack", PeerKind::Channel, "C1");
        let thread = Peer { thread: Some("1.5"), ..room };
        for scope in [Main, PerPeer, PerChannelPeer, PerAccountChannelPeer] {
            assert_eq!(key(group, scope), "agent:ops:telegram:group:-100123");
            assert_eq!(key(topic, scope), "agent:ops:telegram:group:-100123:topic:7");
            assert_eq!(key(room, scope), "agent:ops:slack:channel:c1");
            assert_eq!(key(thread, scope), "agent:ops:slack:channel:c1:thread:1.5");
        }
    }

    #[test]
    fn in_the_global_scope_everybody_shares_one_session() {
        let rules = KeyRules { global_scope: true, ..rules(PerPeer) };
        for kind in [PeerKind::Direct, PeerKind::Group] {
            let agent = AgentId::normalize("ops");
            let key = SessionKey::of_peer(&agent, &peer("irc", kind, "x"), &rules);
            assert_eq!(key.as_str(), "global");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_key_of_a_peer_is_canonical(
            id in "\\PC{0,20}",
            thread in proptest::option::of("\\PC{0,9}"),
            kind in proptest::sample::select(vec![
                PeerKind::Direct, PeerKind::Group, PeerKind::Channel,
            ]),
        ) {
            let rules = rules(PerAccountChannelPeer);
            let peer = Peer { channel: "irc", account: Some("a"), kind, id: &id,
                thread: thread.as_deref() };
            let key = SessionKey::of_peer(&AgentId::normalize("ops"), &peer, &rules);
            proptest::prop_assert_eq!(SessionKey::parse(key.as_str(), &rules), key);
        }
    }
}
