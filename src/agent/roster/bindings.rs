//! `bindings`: which agent answers an account of a channel.
//!
//! Promises: one account of a channel has one agent; a binding of one person or
//! group is never changed.

use serde_json::{Map, Value};

use super::error::RosterError;
use super::{Roster, entries};
use crate::sessions::AgentId;
use crate::support::json;

/// What a binding is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingPlace {
    /// The channel.
    pub channel: String,
    /// Its account; the default one when absent, `*` for all.
    pub account: Option<String>,
}

impl std::fmt::Display for BindingPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.account {
            Some(account) => write!(f, "{}:{account}", self.channel),
            None => f.write_str(&self.channel),
        }
    }
}

/// What became of bindings that were to be made.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Made.
    pub added: Vec<BindingPlace>,
    /// The agent's own, for the default account before, for this one now.
    pub updated: Vec<BindingPlace>,
    /// There before.
    pub skipped: Vec<BindingPlace>,
    /// Of another agent, which keeps it.
    pub conflicts: Vec<(BindingPlace, AgentId)>,
}

/// What became of bindings that were to be removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unbound {
    /// Removed.
    pub removed: Vec<BindingPlace>,
    /// Not there.
    pub missing: Vec<BindingPlace>,
    /// Of another agent, which keeps it.
    pub conflicts: Vec<(BindingPlace, AgentId)>,
}

impl Roster {
    /// Gives accounts of channels to an agent.
    ///
    /// # Errors
    /// See [`RosterError`]; nothing is changed then.
    pub fn bind(&self, id: &AgentId, places: &[BindingPlace]) -> Result<Bound, RosterError> {
        let mut bound = Bound::default();
        self.write(
            |config| {
                bound = Bound::default();
                known(config, id)?;
                let mut config = config.clone();
                let list = entries::list(&mut config, &["bindings"])?;
                for place in places {
                    bind(list, id, place, &mut bound);
                }
                Ok(config)
            },
            |_| Ok(()),
        )?;
        Ok(bound)
    }

    /// Takes accounts of channels away from an agent; all of them without
    /// `places`.
    ///
    /// # Errors
    /// See [`RosterError`]; nothing is changed then.
    pub fn unbind(
        &self,
        id: &AgentId,
        places: Option<&[BindingPlace]>,
    ) -> Result<Unbound, RosterError> {
        let mut unbound = Unbound::default();
        self.write(
            |config| {
                unbound = Unbound::default();
                known(config, id)?;
                if config.get("bindings").is_none() {
                    unbound.missing = places.unwrap_or_default().to_vec();
                    return Ok(config.clone());
                }
                let mut config = config.clone();
                let list = entries::list(&mut config, &["bindings"])?;
                if let Some(places) = places {
                    for place in places {
                        unbind(list, id, place, &mut unbound);
                    }
                } else {
                    let own = list.iter().filter(|it| entries::names(it, id));
                    unbound.removed = own.filter_map(place_of).collect();
                    list.retain(|it| !(entries::names(it, id) && place_of(it).is_some()));
                }
                Ok(config)
            },
            |_| Ok(()),
        )?;
        Ok(unbound)
    }
}

fn known(config: &Value, id: &AgentId) -> Result<(), RosterError> {
    if entries::has(config, id) { Ok(()) } else { Err(RosterError::NotFound(id.clone())) }
}

/// What a binding is for; `None` for one of a person or group, or of something
/// else that is not known here.
fn place_of(binding: &Value) -> Option<BindingPlace> {
    let rule = binding.get("match")?.as_object()?;
    if rule.iter().any(|(name, it)| !["channel", "accountId"].contains(&&**name) && !it.is_null()) {
        return None;
    }
    let text = |name: &str| Some(rule.get(name)?.as_str()?.trim().to_owned());
    Some(BindingPlace {
        channel: text("channel")?.to_lowercase(),
        account: text("accountId").filter(|account| !account.is_empty()),
    })
}

fn owner(binding: &Value) -> AgentId {
    AgentId::normalize(binding.get("agentId").and_then(Value::as_str).unwrap_or_default())
}

/// Gives one account to an agent.
pub(super) fn bind(list: &mut Vec<Value>, id: &AgentId, place: &BindingPlace, bound: &mut Bound) {
    if let Some(there) = list.iter().find(|it| place_of(it).as_ref() == Some(place)) {
        match owner(there) {
            owner if owner == *id => bound.skipped.push(place.clone()),
            owner => bound.conflicts.push((place.clone(), owner)),
        }
        return;
    }
    let plain = BindingPlace { account: None, ..place.clone() };
    let own =
        list.iter_mut().find(|it| entries::names(it, id) && place_of(it) == Some(plain.clone()));
    let rule = own.and_then(|it| it.get_mut("match")).and_then(Value::as_object_mut);
    let mut written = Map::new();
    if let Some(account) = &place.account {
        if let Some(rule) = rule {
            rule.insert("accountId".into(), json!(account));
            bound.updated.push(place.clone());
            return;
        }
        written.insert("accountId".into(), json!(account));
    }
    written.insert("channel".into(), json!(place.channel));
    list.push(json!({"agentId": id.as_str(), "match": written}));
    bound.added.push(place.clone());
}

fn unbind(list: &mut Vec<Value>, id: &AgentId, place: &BindingPlace, unbound: &mut Unbound) {
    let Some(at) = list.iter().position(|it| place_of(it).as_ref() == Some(place)) else {
        unbound.missing.push(place.clone());
        return;
    };
    let owner = list.get(at).map_or_else(|| id.clone(), owner);
    if owner == *id {
        list.remove(at);
        unbound.removed.push(place.clone());
    } else {
        unbound.conflicts.push((place.clone(), owner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> BindingPlace {
        let (channel, account) = text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b)));
        BindingPlace { channel: channel.into(), account: account.map(str::to_owned) }
    }

    #[test]
    fn an_account_has_one_agent() {
        let (work, home) = (AgentId::normalize("work"), AgentId::normalize("home"));
        let (mut list, mut bound) = (Vec::new(), Bound::default());
        for text in ["telegram", "telegram:ops", "telegram:ops", "telegram"] {
            bind(&mut list, &work, &place(text), &mut bound);
        }
        bind(&mut list, &home, &place("telegram:ops"), &mut bound);
        let (t, ops) = (place("telegram"), place("telegram:ops"));
        assert_eq!(bound.added, [t.clone(), t.clone()]);
        assert_eq!((&bound.updated, &bound.skipped), (&vec![ops.clone()], &vec![ops.clone()]));
        assert_eq!(bound.conflicts, [(ops.clone(), work.clone())]);
        let mut unbound = Unbound::default();
        unbind(&mut list, &home, &ops, &mut unbound);
        unbind(&mut list, &work, &ops, &mut unbound);
        unbind(&mut list, &work, &ops, &mut unbound);
        assert_eq!((&unbound.removed, &unbound.missing), (&vec![ops.clone()], &vec![ops.clone()]));
        assert_eq!(unbound.conflicts, [(ops, work)]);
        assert_eq!(list, [json!({"agentId": "work", "match": {"channel": "telegram"}})]);
    }

    #[test]
    fn a_binding_of_a_person_is_another_one() {
        let work = AgentId::normalize("work");
        let peer = json!({"agentId": "work", "match": {"channel": "telegram", "peer": {"kind": "dm", "id": "1"}}});
        let (mut list, mut unbound) = (vec![peer.clone()], Unbound::default());
        unbind(&mut list, &work, &place("telegram"), &mut unbound);
        assert_eq!((&list, unbound.missing.len()), (&vec![peer], 1));
        assert_eq!(
            place_of(&json!({"match": {"channel": "Telegram ", "accountId": ""}})),
            Some(place("telegram"))
        );
    }
}
