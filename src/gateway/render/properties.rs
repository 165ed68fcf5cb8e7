//! What connections see, in any order of what happens: each counts from one without a
//! hole, and hears of all that its scopes are good for and of nothing else.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use super::View;
use super::tests::rendered;
use crate::auth::Principal;
use crate::bus::{
    Audience, Batch, ChatMark, Closing, Event, EventKind, Gate, Hub, Item, SLOW, Subscriber,
};
use crate::protocol::hello::MAX_BUFFERED_BYTES;
use crate::protocol::{Profile, Role, Scope, Version};
use crate::sessions::SessionKey;
use crate::support::json;

const CONNECTIONS: usize = 4;
const SESSIONS: usize = 3;

/// More than a connection holds.
static FLOOD: LazyLock<Arc<Event>> = LazyLock::new(|| {
    let payload = json!({"flood": "x".repeat(MAX_BUFFERED_BYTES)});
    Arc::new(Event::new(EventKind::Tick, &payload))
});

#[derive(Debug, Clone)]
enum Step {
    /// An event of a kind, for everybody, watchers, or one connection.
    Publish {
        kind: usize,
        to: To,
    },
    /// A delta of a run, with its whole text so far; `None` is its end.
    Chat {
        run: u8,
        text: Option<u8>,
    },
    /// An answer to a request of a connection.
    Answer(usize),
    /// A connection sends what waits for it.
    Send(usize),
    WatchAll(usize, bool),
    WatchOne(usize, usize, bool),
    /// More than a connection holds comes, and it does not read.
    Flood(usize),
    /// It goes and comes again.
    Reconnect(usize),
}

#[derive(Debug, Clone, Copy)]
enum To {
    Everyone,
    SessionWatchers,
    MessageWatchers(usize),
    One(usize),
    Others(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let conn = 0..CONNECTIONS;
    let to = prop_oneof![
        3 => Just(To::Everyone),
        1 => Just(To::SessionWatchers),
        2 => (0..SESSIONS).prop_map(To::MessageWatchers),
        1 => conn.clone().prop_map(To::One),
        1 => conn.clone().prop_map(To::Others),
    ];
    prop_oneof![
        8 => (0..EventKind::ALL.len(), to).prop_map(|(kind, to)| Step::Publish { kind, to }),
        4 => (0..2_u8, prop::option::weighted(0.8, 0..9_u8))
            .prop_map(|(run, text)| Step::Chat { run, text }),
        2 => conn.clone().prop_map(Step::Answer),
        4 => conn.clone().prop_map(Step::Send),
        1 => (conn.clone(), any::<bool>()).prop_map(|(conn, on)| Step::WatchAll(conn, on)),
        2 => (conn.clone(), 0..SESSIONS, any::<bool>())
            .prop_map(|(conn, session, on)| Step::WatchOne(conn, session, on)),
        1 => conn.clone().prop_map(Step::Flood),
        1 => conn.prop_map(Step::Reconnect),
    ]
}

/// Who connects: a role, scopes, and how it sees events.
fn person() -> impl Strategy<Value = (bool, Vec<Scope>, u8)> {
    let scopes = prop::sample::subsequence(Scope::ALL.to_vec(), 0..=Scope::ALL.len());
    (prop::bool::weighted(0.2), scopes, 0..4_u8)
}

fn session(index: usize) -> SessionKey {
    SessionKey::from_canonical(format!("agent:main:{index}"))
}

/// A connection, and what is to come to it by the rules.
#[allow(clippy::struct_excessive_bools)] // each is a rule of its own
struct Client {
    is_node: bool,
    scopes: Vec<Scope>,
    style: u8,
    subscriber: Arc<Subscriber>,
    view: View,
    watches_all: bool,
    watches: HashSet<usize>,
    /// Numbers of the events that are to come, but for deltas.
    due: Vec<u64>,
    got: Vec<u64>,
    seqs: Vec<u64>,
    answers: (u64, u64),
    is_flooded: bool,
    is_closed: bool,
}

impl Client {
    fn new((is_node, scopes, style): &(bool, Vec<Scope>, u8), hub: &Hub, name: &str) -> Self {
        let role = if *is_node { Role::Node } else { Role::Operator };
        let principal = Principal::for_tests(role, scopes);
        let subscriber = Arc::new(Subscriber::new(name.into(), Arc::new(principal), &[]));
        hub.join(Arc::clone(&subscriber));
        let (profile, agent) = match style {
            0 => (Profile::Standard(Version::V3), ""),
            1 => (Profile::Standard(Version::V4), ""),
            2 => (Profile::Standard(Version::V3), "openclaw-dashboard/1.0"),
            _ => (Profile::Simple, ""),
        };
        Self {
            is_node: *is_node,
            scopes: scopes.clone(),
            style: *style,
            subscriber,
            view: View::new(profile, agent, Arc::default()),
            watches_all: false,
            watches: HashSet::new(),
            due: Vec::new(),
            got: Vec::new(),
            seqs: Vec::new(),
            answers: (0, 0),
            is_flooded: false,
            is_closed: false,
        }
    }

    /// An admin may all, who writes may read; a node has no scopes.
    fn may(&self, gate: Gate) -> bool {
        let holds = |scope: Scope| {
            let is_reader = scope == Scope::Read && self.scopes.contains(&Scope::Write);
            let is_good = self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin);
            !self.is_node && (is_good || is_reader)
        };
        match gate {
            Gate::Open => true,
            Gate::Scope(scope) => holds(scope),
            Gate::Node => self.is_node,
            Gate::NodeOr(scope) => self.is_node || holds(scope),
        }
    }

    fn is_meant(&self, own: usize, to: To) -> bool {
        match to {
            To::Everyone => true,
            To::SessionWatchers => self.watches_all,
            To::MessageWatchers(session) => self.watches_all || self.watches.contains(&session),
            To::One(conn) => conn == own,
            To::Others(conn) => conn != own,
        }
    }

    /// Sends what waits; every frame that it sends is looked at.
    fn send(&mut self) {
        loop {
            match self.subscriber.outbox.take() {
                Batch::Items(items) => items.iter().for_each(|item| self.take(item)),
                Batch::Empty => return,
                Batch::Close(closing) => {
                    assert!(self.is_flooded && closing.reason == SLOW, "{closing:?}");
                    self.is_closed = true;
                    return;
                }
            }
        }
    }

    fn take(&mut self, item: &Item) {
        let Item::Event(event) = item else {
            self.answers.1 += 1;
            return;
        };
        let frame = rendered(&mut self.view, event);
        self.seqs.push(frame["seq"].as_u64().unwrap());
        assert!(self.may(event.kind.gate()), "{:?} came to {:?}", event.kind, self.scopes);
        if event.chat.as_ref().is_none_or(|mark| mark.text.is_none()) {
            let payload: Value = serde_json::from_str(event.payload()).unwrap();
            self.got.push(payload["number"].as_u64().unwrap());
        }
    }

    /// What it was sent so far fits what was due.
    fn check(&self) {
        let numbers: Vec<u64> = (1..).take(self.seqs.len()).collect();
        assert_eq!(self.seqs, numbers, "seq has a hole");
        assert!(self.due.starts_with(&self.got), "{:?} of {:?}", self.got, self.due);
        if !self.is_flooded {
            assert_eq!(self.got, self.due, "something entitled did not come");
            assert_eq!(self.answers.0, self.answers.1, "an answer did not come");
        }
    }
}

fn name(conn: usize) -> String {
    format!("c{conn}")
}

fn publish(hub: &Hub, clients: &mut [Client], event: Event, to: To, is_delta: bool) {
    let audience = match to {
        To::Everyone => Audience::Everyone,
        To::SessionWatchers => Audience::SessionWatchers,
        To::MessageWatchers(of) => Audience::MessageWatchers(session(of)),
        To::One(conn) => Audience::Connection(name(conn).into()),
        To::Others(conn) => Audience::Others(name(conn).into()),
    };
    let payload: Value = serde_json::from_str(event.payload()).unwrap();
    for (own, client) in clients.iter_mut().enumerate() {
        let gets = client.may(event.kind.gate()) && client.is_meant(own, to);
        if gets && !is_delta && !client.is_flooded {
            client.due.push(payload["number"].as_u64().unwrap());
        }
    }
    hub.deliver(&Arc::new(event), &audience);
}

fn apply(hub: &Hub, clients: &mut [Client], number: u64, step: &Step) {
    let payload = json!({"number": number, "state": "delta"});
    match *step {
        Step::Publish { kind, to } => {
            publish(hub, clients, Event::new(EventKind::ALL[kind], &payload), to, false);
        }
        Step::Chat { run, text } => {
            let mark = ChatMark {
                run_id: format!("r{run}").into(),
                text: text.map(|text| "x".repeat(usize::from(text)).into()),
                begins: false,
            };
            let event = Event::new(EventKind::Chat, &payload).chat(mark);
            publish(hub, clients, event, To::Everyone, text.is_some());
        }
        Step::Answer(conn) => {
            let is_taken = clients[conn].subscriber.outbox.answer("{}".into());
            assert_eq!(is_taken, !clients[conn].is_flooded, "an answer to who is cut off");
            clients[conn].answers.0 += u64::from(is_taken);
        }
        Step::Send(conn) => clients[conn].send(),
        Step::WatchAll(conn, on) => {
            clients[conn].subscriber.watch_sessions(on);
            clients[conn].watches_all = on;
        }
        Step::WatchOne(conn, of, on) => {
            assert!(clients[conn].subscriber.watch_messages(session(of), on));
            let watches = &mut clients[conn].watches;
            let _ = if on { watches.insert(of) } else { watches.remove(&of) };
        }
        Step::Flood(conn) => {
            let outbox = &clients[conn].subscriber.outbox;
            outbox.event(&FLOOD);
            assert_eq!(outbox.bytes(), 0);
            clients[conn].is_flooded = true;
        }
        Step::Reconnect(conn) => {
            let old = &mut clients[conn];
            hub.leave(&name(conn));
            old.subscriber.outbox.close(Closing::auth_changed());
            let person = (old.is_node, old.scopes.clone(), old.style);
            // What it had been sent until then was right, whatever was waiting.
            old.is_flooded = true;
            old.check();
            *old = Client::new(&person, hub, &name(conn));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn each_connection_counts_without_a_hole_and_hears_what_it_is_entitled_to(
        people in vec(person(), CONNECTIONS),
        steps in vec(step(), 0..80),
    ) {
        let hub = Hub::default();
        let mut clients: Vec<Client> = people
            .iter()
            .enumerate()
            .map(|(conn, person)| Client::new(person, &hub, &name(conn)))
            .collect();
        for (number, step) in (0..).zip(&steps) {
            apply(&hub, &mut clients, number, step);
        }
        for client in &mut clients {
            client.send();
            client.check();
            assert_eq!(client.is_closed, client.is_flooded);
        }
    }
}
