//! Who is there.
//!
//! Owns: the presence list and the counters `stateVersion` shows. Promises: who is
//! connected is there until its last connection ends; other entries expire; the list is
//! bounded, newest first.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::protocol::connect::ClientInfo;
use crate::protocol::hello::StateVersion;
use crate::protocol::methods::system::SystemEventParams;
use crate::support::{Few, reading, sort};

/// An entry that nobody renews goes after this time.
const EXPIRES_AFTER_MS: u64 = 5 * 60 * 1000;
/// Most entries, that of the gateway itself among them.
const MAX_ENTRIES: usize = 200;
/// Most roles and scopes to which an entry grows; there are far fewer, but an admin may ask
/// for any, and for other ones each time. All who connect are sent them.
const MAX_NAMES: usize = 64;

/// One who is there; `PresenceEntry` on the wire.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Beacon {
    /// Name of the machine or client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Version of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Such as `Mac`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_family: Option<String>,
    /// Such as `Mac14,2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_identifier: Option<String>,
    /// Such as `backend`, `ui`, `gateway`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Id of its device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// All roles it has had; only grows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// All scopes it has had; only grows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Id of its installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// Why it spoke up last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Milliseconds since the epoch of that.
    pub ts: u64,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Seconds since somebody touched the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_input_seconds: Option<u64>,
    /// Free marks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl Beacon {
    /// What a client that connects leaves; `None` for command-line clients,
    /// which come and go.
    pub fn of_client(
        client: &ClientInfo,
        device_id: Option<&str>,
        role: &str,
        scopes: &[String],
    ) -> Option<Self> {
        if client.mode == "cli" {
            return None;
        }
        let host = client.display_name.clone().unwrap_or_else(|| client.id.clone());
        Some(Self {
            text: Some(format!("Node: {host} · mode {}", client.mode)),
            host: Some(host),
            version: Some(client.version.clone()),
            platform: Some(client.platform.clone()),
            device_family: client.device_family.clone(),
            model_identifier: client.model_identifier.clone(),
            mode: Some(client.mode.clone()),
            device_id: device_id.map(str::to_owned),
            roles: vec![role.to_owned()],
            scopes: scopes.to_vec(),
            instance_id: device_id.map(str::to_owned).or_else(|| client.instance_id.clone()),
            reason: Some("connect".into()),
            ..Self::default()
        })
    }

    /// What a `system-event` says, and the key of its entry.
    pub fn of_system_event(event: &SystemEventParams) -> (String, Self) {
        let candidates = [&event.device_id, &event.instance_id, &event.host, &event.ip];
        let key =
            candidates.into_iter().find_map(Clone::clone).unwrap_or_else(|| event.text.clone());
        let beacon = Self {
            host: event.host.clone(),
            ip: event.ip.clone(),
            version: event.version.clone(),
            platform: event.platform.clone(),
            device_family: event.device_family.clone(),
            model_identifier: event.model_identifier.clone(),
            mode: event.mode.clone(),
            device_id: event.device_id.clone(),
            roles: event.roles.clone(),
            scopes: event.scopes.clone(),
            instance_id: event.instance_id.clone(),
            reason: event.reason.clone(),
            ts: 0,
            text: Some(event.text.clone()),
            last_input_seconds: event.last_input_seconds,
            tags: event.tags.clone(),
        };
        (key, beacon)
    }

    /// Whether something changed since `before` that is worth telling. That it is still there
    /// is not.
    fn is_news_after(&self, before: &Self) -> bool {
        fn facts(it: &Beacon) -> [&Option<String>; 4] {
            [&it.host, &it.ip, &it.version, &it.mode]
        }
        let is_still_there = self.reason.as_deref().is_some_and(|reason| {
            let reason = reason.to_lowercase();
            reason == "heartbeat" || reason.starts_with("periodic")
        });
        facts(self) != facts(before) || !is_still_there && self.reason != before.reason
    }

    /// Takes over what `newer` says; what it does not say stays.
    fn merge(&mut self, newer: Self) {
        let keep = |old: &mut Option<String>, new: Option<String>| {
            if new.is_some() {
                *old = new;
            }
        };
        keep(&mut self.host, newer.host);
        keep(&mut self.ip, newer.ip);
        keep(&mut self.version, newer.version);
        keep(&mut self.platform, newer.platform);
        keep(&mut self.device_family, newer.device_family);
        keep(&mut self.model_identifier, newer.model_identifier);
        keep(&mut self.mode, newer.mode);
        keep(&mut self.device_id, newer.device_id);
        keep(&mut self.instance_id, newer.instance_id);
        keep(&mut self.reason, newer.reason);
        keep(&mut self.text, newer.text);
        self.last_input_seconds = newer.last_input_seconds.or(self.last_input_seconds);
        for (known, more) in [(&mut self.roles, newer.roles), (&mut self.scopes, newer.scopes)] {
            for name in more {
                if known.len() < MAX_NAMES && !known.contains(&name) {
                    known.push(name);
                }
            }
        }
        if !newer.tags.is_empty() {
            self.tags = newer.tags;
        }
        self.ts = newer.ts;
    }
}

#[derive(Debug)]
struct Entry {
    /// Its [`Beacon`] as it is told: written once, and read by each who connects. Shared
    /// with the lists that were made of it.
    told: Arc<RawValue>,
    /// When it spoke up last, in milliseconds since the epoch.
    ts: u64,
    /// How many connections it has.
    connections: u32,
}

impl Entry {
    fn new(beacon: &Beacon, connections: u32) -> Self {
        Self { told: told(beacon), ts: beacon.ts, connections }
    }

    fn beacon(&self) -> Beacon {
        reading::text(self.told.get()).unwrap_or_default()
    }

    fn tell(&mut self, beacon: &Beacon) {
        (self.told, self.ts) = (told(beacon), beacon.ts);
    }
}

fn told(beacon: &Beacon) -> Arc<RawValue> {
    to_raw_value(beacon).unwrap_or_default().into()
}

#[derive(Debug, Default)]
struct State {
    entries: Few<String, Entry>,
    version: StateVersion,
}

/// The presence list.
#[derive(Debug)]
pub struct Presence {
    own: Beacon,
    state: Mutex<State>,
}

impl Presence {
    /// A list that holds only the gateway itself.
    pub fn new(own: Beacon) -> Self {
        Self { own, state: Mutex::default() }
    }

    /// Adds or renews an entry; `true` when it says something new beside that
    /// it is still there.
    pub fn announce(&self, key: &str, beacon: Beacon, now_ms: u64) -> bool {
        self.state.lock().renew(key, beacon, 0, now_ms)
    }

    /// The same for a connection, which stays until it departs.
    pub fn arrive(&self, key: &str, beacon: Beacon, now_ms: u64) {
        self.state.lock().renew(key, beacon, 1, now_ms);
    }

    /// Ends a connection. With its last one an entry is marked as gone; it stays until
    /// it expires. Whether it was the last.
    pub fn depart(&self, key: &str, now_ms: u64) -> bool {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(key) else { return false };
        entry.connections = entry.connections.saturating_sub(1);
        if entry.connections > 0 {
            return false;
        }
        let reason = Some("disconnect".into());
        let beacon = Beacon { reason, ts: now_ms, ..entry.beacon() };
        entry.tell(&beacon);
        state.version.presence += 1;
        true
    }

    /// The [`Beacon`] of the gateway itself, then those of the others, newest first.
    pub fn list(&self, now_ms: u64) -> Vec<Arc<RawValue>> {
        self.snapshot(now_ms).0
    }

    /// The same, and the counters that belong to it.
    pub fn snapshot(&self, now_ms: u64) -> (Vec<Arc<RawValue>>, StateVersion) {
        let mut state = self.state.lock();
        if state.expire(now_ms) {
            state.version.presence += 1;
        }
        let entries = state.entries.values().map(|entry| (entry.ts, Arc::clone(&entry.told)));
        let (mut others, version): (Vec<_>, _) = (entries.collect(), state.version);
        drop(state);
        sort::by_key(&mut others, |(ts, _)| std::cmp::Reverse(*ts));
        let others = others.into_iter().map(|(_, told)| told);
        let own = Beacon { ts: now_ms, ..self.own.clone() };
        (std::iter::once(told(&own)).chain(others).collect(), version)
    }

    /// Counts a new health snapshot.
    pub fn bump_health(&self) -> StateVersion {
        let mut state = self.state.lock();
        state.version.health += 1;
        state.version
    }
}

impl State {
    fn renew(&mut self, key: &str, mut beacon: Beacon, arrives: u32, now_ms: u64) -> bool {
        beacon.ts = now_ms;
        let is_news = if let Some(entry) = self.entries.get_mut(key) {
            entry.connections += arrives;
            let mut known = entry.beacon();
            let before = known.clone();
            known.merge(beacon);
            entry.tell(&known);
            known.is_news_after(&before)
        } else {
            self.entries.insert(key.to_owned(), Entry::new(&beacon, arrives));
            true
        };
        self.version.presence += 1;
        self.expire(now_ms);
        is_news
    }

    /// Takes out who is gone for long, and who is too many; whether there was one.
    fn expire(&mut self, now_ms: u64) -> bool {
        let before = self.entries.len();
        let is_there = |entry: &Entry| entry.ts + EXPIRES_AFTER_MS > now_ms;
        self.entries.retain(|_, entry| entry.connections > 0 || is_there(entry));
        while self.entries.len() >= MAX_ENTRIES {
            // Who is gone goes first, then the oldest.
            let age = |(_, entry): &(&String, &Entry)| (entry.connections > 0, entry.ts);
            let oldest = self.entries.iter().min_by_key(age).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            self.entries.remove(&oldest);
        }
        self.entries.len() < before
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn beacon(host: &str, scopes: &[&str]) -> Beacon {
        Beacon {
            host: Some(host.into()),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            ..Beacon::default()
        }
    }

    fn list(presence: &Presence, now: u64) -> Vec<Beacon> {
        let beacon = |told: &Arc<RawValue>| serde_json::from_str(told.get()).unwrap();
        presence.list(now).iter().map(beacon).collect()
    }

    fn hosts(presence: &Presence, now: u64) -> Vec<String> {
        list(presence, now).into_iter().filter_map(|entry| entry.host).collect()
    }

    #[test]
    fn the_gateway_comes_first_then_the_newest() {
        let presence = Presence::new(beacon("self", &[]));
        presence.announce("a", beacon("a", &[]), 1);
        presence.announce("b", beacon("b", &[]), 2);
        assert_eq!(hosts(&presence, 3), ["self", "b", "a"]);
        assert_eq!(hosts(&presence, 1 + EXPIRES_AFTER_MS), ["self", "b"]);
    }

    #[test]
    fn that_somebody_is_still_there_is_no_news() {
        let presence = Presence::new(Beacon::default());
        let says = |reason: &str, mode: &str| Beacon {
            reason: Some(reason.into()),
            mode: Some(mode.into()),
            ..beacon("a", &[])
        };
        for (reason, mode, is_news) in [
            ("connect", "ui", true),
            ("periodic", "ui", false),
            ("Periodic-beat", "ui", false),
            ("heartbeat", "ui", false),
            ("heartbeat", "node", true),
            ("wake", "node", true),
            ("wake", "node", false),
        ] {
            let found = presence.announce("a", says(reason, mode), 1);
            assert_eq!(found, is_news, "{reason} {mode}");
        }
    }

    #[test]
    fn scopes_only_grow_and_departed_entries_stay() {
        let presence = Presence::new(Beacon::default());
        presence.announce("a", beacon("a", &["x"]), 1);
        presence.announce("a", beacon("a", &["y"]), 2);
        assert!(presence.depart("a", 3));
        assert!(!presence.depart("nobody", 3));
        let (_, version) = presence.snapshot(3);
        let entry = list(&presence, 3).pop().unwrap();
        assert_eq!(entry.scopes, ["x", "y"]);
        assert_eq!(entry.reason.as_deref(), Some("disconnect"));
        assert_eq!(version.presence, 3);
    }

    #[test]
    fn an_entry_grows_to_so_many_scopes_and_no_further() {
        let presence = Presence::new(Beacon::default());
        for index in 0..3 * MAX_NAMES {
            presence.announce("a", beacon("a", &[index.to_string().as_str()]), 1);
        }
        let entry = list(&presence, 1).pop().unwrap();
        assert_eq!((entry.scopes.len(), entry.scopes[0].as_str()), (MAX_NAMES, "0"));
    }

    #[test]
    fn who_is_connected_stays_until_the_last_of_its_connections_ends() {
        let presence = Presence::new(Beacon::default());
        let client = || Beacon { reason: Some("connect".into()), ..beacon("a", &[]) };
        presence.arrive("a", client(), 1);
        presence.arrive("a", client(), 2);
        // A beacon of its own is no connection.
        presence.announce("a", beacon("a", &[]), 3);
        let reason = |now| list(&presence, now).get(1).and_then(|entry| entry.reason.clone());
        let long_after = 3 + 10 * EXPIRES_AFTER_MS;
        assert_eq!(reason(long_after).as_deref(), Some("connect"));
        assert!(!presence.depart("a", long_after));
        assert_eq!(reason(long_after).as_deref(), Some("connect"));
        assert!(presence.depart("a", long_after));
        assert_eq!(reason(long_after).as_deref(), Some("disconnect"));
        assert_eq!(reason(long_after + EXPIRES_AFTER_MS), None);
    }

    #[test]
    fn lists_of_one_version_are_one_list_whoever_comes_and_goes_meanwhile() {
        let presence = Presence::new(Beacon::default());
        let seen = std::thread::scope(|scope| {
            for client in 0..3_u32 {
                let presence = &presence;
                scope.spawn(move || {
                    for turn in 0..500 {
                        let key = format!("{client}-{}", turn % 20);
                        presence.arrive(&key, beacon(&key, &[]), turn);
                        presence.depart(&key, turn);
                    }
                });
            }
            let look = || {
                let look = |_| {
                    let (list, version) = presence.snapshot(500);
                    (list.iter().map(ToString::to_string).collect::<Vec<_>>(), version)
                };
                (0..1000).map(look).collect::<Vec<_>>()
            };
            let others = scope.spawn(look);
            let own = look();
            own.into_iter().chain(others.join().unwrap()).collect::<Vec<_>>()
        });
        let mut known = BTreeMap::new();
        for (list, version) in seen {
            assert_eq!(*known.entry(version.presence).or_insert_with(|| list.clone()), list);
        }
    }

    #[test]
    fn who_is_gone_makes_room_for_who_is_connected() {
        let presence = Presence::new(Beacon::default());
        presence.arrive("first", beacon("first", &[]), 1);
        for index in 2..500_u64 {
            presence.announce(&index.to_string(), beacon("x", &[]), index);
        }
        let hosts = hosts(&presence, 500);
        assert!(hosts.len() + 1 == MAX_ENTRIES && hosts.contains(&"first".to_owned()), "{hosts:?}");
    }

    #[test]
    fn the_list_is_bounded() {
        let presence = Presence::new(Beacon::default());
        for index in 0..500_u64 {
            presence.announce(&index.to_string(), beacon("x", &[]), index);
        }
        assert_eq!(presence.list(500).len(), MAX_ENTRIES);
    }
}
