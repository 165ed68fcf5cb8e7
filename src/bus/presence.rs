//! Who is there.
//!
//! Owns: the presence list and the counters `stateVersion` shows. Promises:
//! entries expire, the list is bounded, newest first.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use crate::protocol::connect::ClientInfo;
use crate::protocol::hello::StateVersion;
use crate::protocol::methods::system::SystemEventParams;

/// An entry that nobody renews goes after this time.
const EXPIRES_AFTER_MS: u64 = 5 * 60 * 1000;
/// Most entries.
const MAX_ENTRIES: usize = 200;

/// One who is there; `PresenceEntry` on the wire.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
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

    /// What is worth telling when it changes. That it is still there is not.
    fn headline(&self) -> [Option<String>; 5] {
        let reason = self.reason.clone();
        let reason = reason.filter(|reason| !["periodic", "heartbeat"].contains(&reason.as_str()));
        [self.host.clone(), self.ip.clone(), self.version.clone(), self.mode.clone(), reason]
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
        for role in newer.roles {
            if !self.roles.contains(&role) {
                self.roles.push(role);
            }
        }
        for scope in newer.scopes {
            if !self.scopes.contains(&scope) {
                self.scopes.push(scope);
            }
        }
        if !newer.tags.is_empty() {
            self.tags = newer.tags;
        }
        self.ts = newer.ts;
    }
}

#[derive(Debug, Default)]
struct State {
    /// Shared with the lists that were made of them: each connect has one.
    entries: BTreeMap<String, Arc<Beacon>>,
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
    pub fn announce(&self, key: &str, mut beacon: Beacon, now_ms: u64) -> bool {
        let mut state = self.state.lock();
        beacon.ts = now_ms;
        let is_news = if let Some(entry) = state.entries.get_mut(key) {
            let entry = Arc::make_mut(entry);
            let before = entry.headline();
            entry.merge(beacon);
            before != entry.headline()
        } else {
            state.entries.insert(key.to_owned(), Arc::new(beacon));
            true
        };
        state.version.presence += 1;
        state.expire(now_ms);
        is_news
    }

    /// Marks an entry as gone; it stays until it expires. `false` when there
    /// is none.
    pub fn depart(&self, key: &str, now_ms: u64) -> bool {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(key) else { return false };
        let entry = Arc::make_mut(entry);
        entry.reason = Some("disconnect".into());
        entry.ts = now_ms;
        state.version.presence += 1;
        true
    }

    /// The gateway itself, then the others, newest first.
    pub fn list(&self, now_ms: u64) -> Vec<Arc<Beacon>> {
        let mut state = self.state.lock();
        state.expire(now_ms);
        let mut entries: Vec<_> = state.entries.values().cloned().collect();
        drop(state);
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.ts));
        let own = Beacon { ts: now_ms, ..self.own.clone() };
        std::iter::once(Arc::new(own)).chain(entries).collect()
    }

    /// The counters now.
    pub fn version(&self) -> StateVersion {
        self.state.lock().version
    }

    /// Counts a new health snapshot.
    pub fn bump_health(&self) -> StateVersion {
        let mut state = self.state.lock();
        state.version.health += 1;
        state.version
    }
}

impl State {
    fn expire(&mut self, now_ms: u64) {
        self.entries.retain(|_, entry| entry.ts + EXPIRES_AFTER_MS > now_ms);
        while self.entries.len() > MAX_ENTRIES {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.ts);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beacon(host: &str, scopes: &[&str]) -> Beacon {
        Beacon {
            host: Some(host.into()),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            ..Beacon::default()
        }
    }

    fn hosts(presence: &Presence, now: u64) -> Vec<String> {
        presence.list(now).iter().filter_map(|entry| entry.host.clone()).collect()
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
    fn scopes_only_grow_and_departed_entries_stay() {
        let presence = Presence::new(Beacon::default());
        presence.announce("a", beacon("a", &["x"]), 1);
        presence.announce("a", beacon("a", &["y"]), 2);
        assert!(presence.depart("a", 3));
        assert!(!presence.depart("nobody", 3));
        let entry = presence.list(3).pop().unwrap();
        assert_eq!(entry.scopes, ["x", "y"]);
        assert_eq!(entry.reason.as_deref(), Some("disconnect"));
        assert_eq!(presence.version().presence, 3);
    }

    #[test]
    fn the_list_is_bounded() {
        let presence = Presence::new(Beacon::default());
        for index in 0..500_u64 {
            presence.announce(&index.to_string(), beacon("x", &[]), index);
        }
        assert_eq!(presence.list(500).len(), MAX_ENTRIES + 1);
    }
}
