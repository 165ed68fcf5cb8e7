//! What a handler gets to work with.

use std::any::Any;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::agent::{Models, Runs};
use crate::auth::{Owner, Principal};
use crate::bus::{Bus, Presence, Subscriber};
use crate::config::{Env, Settings};
use crate::nodes::Nodes;
use crate::protocol::methods::chat::SESSION_KEY_MAX;
use crate::protocol::{Profile, Response};
use crate::push::Push;
use crate::sessions::usage::UsageReports;
use crate::sessions::{AgentId, KeyRules, SessionKey, Sessions};
use crate::support::{Clock, Ids, Live, Tasks, millis};
use crate::voice::Voice;
use crate::wizard::Wizards;

use super::exchange::Exchange;
use super::lanes::Lanes;
use super::reload::Reload;
use super::repair::Repair;
use super::restart::Restart;
use super::table::Registry;

/// Everything the gateway is made of, below the wire.
pub struct Services {
    /// The effective configuration.
    pub settings: Live<Settings>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Identifiers.
    pub ids: Arc<dyn Ids>,
    /// Background tasks.
    pub tasks: Tasks,
    /// Where events go.
    pub bus: Bus,
    /// Who is there.
    pub presence: Arc<Presence>,
    /// Conversations.
    pub sessions: Sessions,
    /// What they used.
    pub usage: UsageReports,
    /// Models and their providers.
    pub models: Models,
    /// Runs of the agent.
    pub runs: Arc<Runs>,
    /// Machines that offer commands.
    pub nodes: Arc<Nodes>,
    /// Wake words, and what is spoken.
    pub voice: Arc<Voice>,
    /// Notifications of browsers.
    pub push: Arc<Push>,
    /// The order of requests to one session.
    pub lanes: Lanes,
    /// The surroundings of the process.
    pub env: Env,
    /// The methods, for what is called in the name of somebody.
    pub registry: Arc<Registry>,
    /// How session keys are read.
    pub keys: Live<KeyRules>,
    /// The gateway's own key pair.
    pub identity: Arc<crate::auth::DeviceIdentity>,
    /// Which devices are paired.
    pub pairing: Arc<crate::auth::pairing::Pairing>,
    /// The last health snapshot.
    pub health: crate::handlers::HealthCache,
    /// Reads that several ask for at the same time.
    pub reads: crate::handlers::Reads,
    /// How the configuration is, and the way to take it up.
    pub reload: Reload,
    /// Why it only helps to mend the config file, when it does.
    pub repair: Option<Repair>,
    /// Whether it is to begin again.
    pub restart: Restart,
    /// Setups that clients are asked about.
    pub wizards: Wizards,
    /// When the gateway started.
    pub started: tokio::time::Instant,
    /// The same in milliseconds since the epoch, by the clock of that time.
    pub started_ms: u64,
}

impl Services {
    /// Milliseconds since the gateway started.
    pub fn uptime_ms(&self) -> u64 {
        millis(self.started.elapsed())
    }
}

/// Session keys as a connection of the simple profile, or a dashboard, wrote them, so
/// that it gets them back in its own spelling.
#[derive(Debug, Default)]
pub struct KeyNames(Mutex<HashMap<SessionKey, String>>);

/// A connection that names more sessions than this sees the canonical keys, and so does
/// one for keys that are longer than `chat.send` takes.
const MAX_KEY_NAMES: usize = 1000;

impl KeyNames {
    fn learn(&self, key: &SessionKey, written: &str) {
        if written.chars().nth(SESSION_KEY_MAX).is_some() {
            return;
        }
        let mut names = self.0.lock();
        if names.len() < MAX_KEY_NAMES || names.contains_key(key) {
            names.insert(key.clone(), written.to_owned());
        }
    }

    /// The client's own spelling, where it has one.
    pub fn name(&self, key: &str) -> Option<String> {
        self.0.lock().get(&SessionKey::from_canonical(key)).cloned()
    }

    /// Puts that in the places of keys of an answer or an event.
    pub fn put<'a>(&self, places: impl IntoIterator<Item = &'a mut Value>) {
        for place in places {
            if let Value::String(key) = place
                && let Some(name) = self.name(key)
            {
                *key = name;
            }
        }
    }

    /// Puts them in a row of a session: its own, and those of the sessions around it.
    pub fn put_in_row(&self, row: &mut Map<String, Value>) {
        for member in ["key", "spawnedBy", "parentSessionKey"] {
            self.put(row.get_mut(member));
        }
        let children = row.get_mut("childSessions").and_then(Value::as_array_mut);
        self.put(children.into_iter().flatten());
    }
}

/// The program whose connections are told of no answers but their own.
pub const ACTION_CHAT: &str = "action-chat";

/// Somebody who writes by a channel.
#[derive(Debug)]
pub struct Person {
    /// Id of the channel.
    pub channel: &'static str,
    /// Which of our accounts there.
    pub account: String,
    /// The channel's id of the person.
    pub id: String,
    /// What the model is to read before what the person says.
    pub before: Option<String>,
}

/// Who makes a request.
#[derive(Clone)]
pub struct Caller {
    /// What it may do.
    pub principal: Arc<Principal>,
    /// How it speaks.
    pub profile: Profile,
    /// Which program it is.
    pub client_id: Arc<str>,
    /// Its connection.
    pub subscriber: Arc<Subscriber>,
    /// Who it is, when it is a person of a channel.
    pub person: Option<Arc<Person>>,
    /// What it calls itself; others see that it decided something.
    pub name: Arc<str>,
    /// Where limits see it, when it is a connection from another machine.
    pub place: Option<IpAddr>,
    /// Whether it is a chat on the web, and not the control UI.
    pub is_webchat: bool,
    /// Whether it is a dashboard that appends deltas and reads some answers in a
    /// form of its own.
    pub is_dashboard: bool,
    /// Whether it says a message again of which it does not know what became: the same
    /// words are the same message then, while they are being answered.
    pub is_retrying: bool,
    /// Its spelling of session keys.
    pub key_names: Arc<KeyNames>,
}

impl Caller {
    /// Who pays for what may be done only now and then: its device, else all without one at
    /// the same place, so that nobody has more by connecting anew. On this machine each
    /// connection pays for itself, as in the original.
    pub(super) fn payer(&self) -> String {
        match (self.principal.owner(), self.place) {
            (Owner::Connection(_), Some(place)) => format!("place:{place}"),
            (owner, _) => owner.to_text(),
        }
    }

    /// What the model is to read before what the caller says.
    pub fn before(&self) -> Option<&str> {
        self.person.as_deref()?.before.as_deref()
    }
}

/// What a handler gets to work with.
#[derive(Clone)]
pub struct Ctx {
    /// The gateway.
    pub services: Arc<Services>,
    /// Who asks; shared, since each request has a context.
    pub caller: Arc<Caller>,
    pub(super) exchange: Arc<Exchange>,
    /// The session whose lane the request is in that this one is a part of.
    pub(super) lane: Option<SessionKey>,
}

impl Ctx {
    /// What requests of this caller work with.
    pub fn new(services: Arc<Services>, caller: impl Into<Arc<Caller>>) -> Self {
        let caller = caller.into();
        Self { services, caller, exchange: Arc::default(), lane: None }
    }

    /// The same for one request. The exchange is for whoever answers it.
    pub fn for_request(&self, id: Arc<str>) -> (Self, Arc<Exchange>) {
        let exchange = Arc::new(Exchange::new(id));
        let cx = Self {
            services: Arc::clone(&self.services),
            caller: Arc::clone(&self.caller),
            exchange: Arc::clone(&exchange),
            lane: self.lane.clone(),
        };
        (cx, exchange)
    }

    /// Drops `guard` after the first answer, so that its events come after it
    /// too. With the answer given already it is dropped at once.
    pub fn after_answer(&self, guard: impl Any + Send) {
        self.exchange.hold(guard);
    }

    /// The same, before everything else that waits for the answer.
    pub fn first_after_answer(&self, guard: impl Any + Send) {
        self.exchange.hold_first(guard);
    }

    /// Answers now, before what the handler returns is answered as well under
    /// the same id. A caller that takes one answer only never sees this one.
    pub fn answer_first(&self, payload: &Value) {
        if let Some(id) = &self.exchange.id {
            self.caller.subscriber.outbox.respond(Response::new(id, payload.to_string()));
        }
        self.exchange.answered();
    }

    /// Reads a session key as the caller wrote it.
    pub fn session_key(&self, written: &str) -> SessionKey {
        self.session_key_for(written, &self.services.keys.now().default_agent)
    }

    /// The same where the caller speaks of one agent.
    pub fn session_key_for(&self, written: &str, agent: &AgentId) -> SessionKey {
        let key = SessionKey::parse_for(written, agent, &self.services.keys.now());
        if self.is_simple() || self.caller.is_dashboard {
            self.caller.key_names.learn(&key, written);
        }
        key
    }

    /// Waits until the requests to this session that came before are answered;
    /// those that come after wait for this one. Who answers twice lets the next
    /// one in with the first. A request enters one lane only.
    pub async fn enter_lane(&self, key: &SessionKey) {
        if self.lane.as_ref() == Some(key) {
            return;
        }
        self.after_answer(self.services.lanes.enter(key.to_string()).await);
    }

    /// Reads a session key as the caller wrote it, and enters its lane.
    pub async fn enter_session(&self, written: &str) -> SessionKey {
        let key = self.session_key(written);
        self.enter_lane(&key).await;
        key
    }

    /// Whether the caller speaks the simple profile.
    pub fn is_simple(&self) -> bool {
        self.caller.profile == Profile::Simple
    }

    /// Milliseconds since the epoch.
    pub fn now_ms(&self) -> u64 {
        self.services.clock.now_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Role;
    use crate::support::json;

    #[test]
    fn without_a_device_a_place_pays_and_on_this_machine_a_connection() {
        let principal = Arc::new(Principal::for_tests(Role::Operator, &[]));
        let caller = |place: Option<&str>| Caller {
            subscriber: Arc::new(Subscriber::new("c".into(), Arc::clone(&principal), &[])),
            principal: Arc::clone(&principal),
            profile: Profile::Simple,
            client_id: "x".into(),
            person: None,
            name: "x".into(),
            place: place.map(|place| place.parse().unwrap()),
            is_webchat: false,
            is_dashboard: false,
            is_retrying: true,
            key_names: Arc::default(),
        };
        assert_eq!(caller(None).payer(), "connection:test");
        assert_eq!(caller(Some("203.0.113.7")).payer(), "place:203.0.113.7");
    }

    #[test]
    fn a_key_is_remembered_as_it_was_written_unless_it_is_too_long() {
        let names = KeyNames::default();
        for (length, is_kept) in [(SESSION_KEY_MAX, true), (SESSION_KEY_MAX + 1, false)] {
            let (key, written) = (format!("agent:main:{length}"), "é".repeat(length));
            names.learn(&SessionKey::from_canonical(key.as_str()), &written);
            assert_eq!(names.name(&key), is_kept.then_some(written));
        }
        let key = SessionKey::from_canonical("agent:main:trip");
        names.learn(&key, "trip");
        let mut told = json!({"key": "agent:main:trip", "other": "agent:main:else", "no": 1});
        for member in ["key", "other", "no", "none"] {
            names.put(told.get_mut(member));
        }
        assert_eq!(told, json!({"key": "trip", "other": "agent:main:else", "no": 1}));
        let mut row = json!({"key": "agent:main:else", "spawnedBy": "agent:main:trip",
            "parentSessionKey": "agent:main:trip", "sessionId": "agent:main:trip",
            "childSessions": ["agent:main:trip", "agent:main:other"]});
        names.put_in_row(row.as_object_mut().unwrap());
        let expected = json!({"key": "agent:main:else", "spawnedBy": "trip",
            "parentSessionKey": "trip", "sessionId": "agent:main:trip",
            "childSessions": ["trip", "agent:main:other"]});
        assert_eq!(row, expected);
    }
}
