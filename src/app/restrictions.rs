//! Keys of the config that have no effect here, above all those that forbid
//! something.
//!
//! Owns: the list of OpenClaw's restrictions that hold nobody here. Promises: what
//! is enforced is not on it. Must not: change what is allowed.

use serde_json::Value;

use crate::agent::tools::misnamed;
use crate::config::channels::ChannelKind;
use crate::config::document::ConfigIssue;
use crate::config::edit::{Step, ValuePath};
use crate::config::{Settings, keys};

/// Places of one restriction that are told; more say nothing new.
const MOST: usize = 50;
/// Keys in the line of the log.
const LOGGED: usize = 40;
/// In a pattern, the channels that there are: nobody writes by another one.
const CHANNEL: &str = "<channel>";

/// A restriction that stands in the config and is not enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unenforced {
    /// Where it is written.
    pub paths: Vec<String>,
    /// What comes nearest to it here.
    pub nearest: &'static str,
}

/// What OpenClaw forbids by some keys.
struct Restriction {
    /// The keys: `*` is any name or item, `a|b` is one of these.
    patterns: &'static [&'static str],
    /// Words that forbid nothing more than what holds here anyway.
    free: &'static [&'static str],
    nearest: &'static str,
}

const RESTRICTIONS: [Restriction; 7] = [
    Restriction {
        patterns: &["session.sendPolicy"],
        free: &[],
        nearest: "dmPolicy, groupPolicy and allowFrom of the channel, or /send off in a session",
    },
    Restriction {
        patterns: &["tools.sandbox.tools", "agents.list.*.tools.sandbox.tools"],
        free: &[],
        nearest: "tools.deny, or agents.list[].tools.deny, which hold outside of the sandbox too",
    },
    Restriction {
        patterns: &[
            "tools.toolsBySender",
            "agents.list.*.tools.toolsBySender",
            "channels.<channel>.groups|direct.*.tools|toolsBySender|skills",
            "channels.<channel>.accounts.*.groups|direct.*.tools|toolsBySender|skills",
        ],
        free: &[],
        nearest: "an agent of its own for these chats (bindings), with agents.list[].tools and \
                  agents.list[].skills",
    },
    Restriction {
        patterns: &["commands.allowFrom"],
        free: &[],
        nearest: "allowFrom of the channel; only commands.ownerAllowFrom may what an admin may",
    },
    Restriction {
        patterns: &[
            "agents.defaults.sandbox.docker.network|memory|memorySwap|cpus|pidsLimit|ulimits|\
             readOnlyRoot|capDrop|user|seccompProfile|apparmorProfile",
            "agents.list.*.sandbox.docker.network|memory|memorySwap|cpus|pidsLimit|ulimits|\
             readOnlyRoot|capDrop|user|seccompProfile|apparmorProfile",
        ],
        free: &["bridge", "host", "unconfined"],
        nearest: "sandbox.mode confines what commands write to; the network and other limits are \
                  those of the gateway's own service",
    },
    Restriction {
        patterns: &["channels.defaults.groupPolicy"],
        free: &["open", "allowlist"],
        nearest: "groupPolicy of each channel",
    },
    Restriction {
        patterns: &[
            "channels.<channel>.groups.*.topics.*.enabled|groupPolicy|allowFrom|requireMention",
            "channels.<channel>.accounts.*.groups.*.topics.*.enabled|groupPolicy|allowFrom|\
             requireMention",
            "channels.<channel>.direct.*.enabled|dmPolicy|allowFrom|requireTopic",
            "channels.<channel>.accounts.*.direct.*.enabled|dmPolicy|allowFrom|requireTopic",
        ],
        free: &["open"],
        nearest: "the same keys of the group, or dmPolicy and allowFrom of the channel",
    },
];

/// The restrictions of the config that hold nobody here.
pub fn unenforced(settings: &Settings) -> Vec<Unenforced> {
    let found = RESTRICTIONS.iter().map(|restriction| Unenforced {
        paths: restriction.places(&settings.raw),
        nearest: restriction.nearest,
    });
    found.filter(|it| !it.paths.is_empty()).collect()
}

/// Tells the log which keys have no effect, those that forbid something first. What
/// is only about something of OpenClaw that is not offered here is no reason to warn.
pub(super) fn note(settings: &Settings) {
    for ConfigIssue { path, message } in misnamed(&settings.raw) {
        tracing::warn!("{path}: {message}");
    }
    let mut told: Vec<_> = unenforced(settings).into_iter().flat_map(|it| it.paths).collect();
    let unknown = keys::unknown(&settings.raw);
    let unknown = unknown.iter().map(ToString::to_string).filter(|place| !told.contains(place));
    let (sections, others): (Vec<_>, Vec<_>) = unknown.partition(|place| keys::is_section(place));
    told.extend(others);
    let is_usual = told.is_empty();
    told.extend(sections);
    let keys = shown(&told);
    match (told.is_empty(), is_usual) {
        (true, _) => {}
        (_, true) => tracing::info!(%keys, "keys of the config have no effect here"),
        (_, false) => {
            tracing::warn!(%keys, "keys of the config have no effect here; see clawgate doctor");
        }
    }
}

fn shown(places: &[String]) -> String {
    let some: Vec<_> = places.iter().take(LOGGED).map(String::as_str).collect();
    let rest = if places.len() > LOGGED { ", and more" } else { "" };
    format!("{}{rest}", some.join(", "))
}

impl Restriction {
    /// Where the config has it.
    fn places(&self, raw: &Value) -> Vec<String> {
        let mut places = Vec::new();
        for pattern in self.patterns {
            let names: Vec<_> = pattern.split('.').collect();
            self.collect(raw, &names, &mut Vec::new(), &mut places);
        }
        places
    }

    fn collect(
        &self,
        value: &Value,
        names: &[&str],
        path: &mut Vec<Step>,
        places: &mut Vec<String>,
    ) {
        let Some((name, rest)) = names.split_first() else { return };
        for (step, member) in members(value) {
            if places.len() == MOST || !is_meant(name, &step) {
                continue;
            }
            let is_there = rest.is_empty() && self.forbids(&step, member);
            path.push(step);
            if is_there {
                places.push(ValuePath::from(path.clone()).to_string());
            }
            self.collect(member, rest, path, places);
            path.pop();
        }
    }

    /// Whether the value forbids anything.
    fn forbids(&self, step: &Step, value: &Value) -> bool {
        match value {
            Value::Null => false,
            // Any other switch forbids something when it is on.
            Value::Bool(is_on) => *is_on != (*step == Step::Key("enabled".into())),
            Value::String(word) => !self.free.contains(&word.as_str()),
            Value::Object(members) => !members.is_empty(),
            Value::Number(_) | Value::Array(_) => true,
        }
    }
}

/// The members or items of a value.
fn members(value: &Value) -> Vec<(Step, &Value)> {
    match value {
        Value::Object(members) => {
            members.iter().map(|(name, member)| (Step::Key(name.clone()), member)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| (Step::Index(index), item)).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a part of a pattern means this step.
fn is_meant(name: &str, step: &Step) -> bool {
    match (name, step) {
        ("*", _) => true,
        (CHANNEL, Step::Key(key)) => ChannelKind::ALL.iter().any(|kind| kind.as_str() == key),
        (name, Step::Key(key)) => name.split('|').any(|one| one == key),
        (_, Step::Index(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Env, preview};
    use crate::support::json;

    fn found(config: &Value) -> Vec<String> {
        let settings = preview(&config.to_string(), &Env::fixed([], "/h")).unwrap();
        unenforced(&settings).into_iter().flat_map(|it| it.paths).collect()
    }

    /// Every path that a pattern stands for.
    fn spelled(pattern: &str) -> Vec<Vec<Step>> {
        pattern.split('.').fold(vec![Vec::new()], |paths, name| {
            let names: Vec<&str> = match name {
                CHANNEL => ChannelKind::ALL.iter().map(|kind| kind.as_str()).collect(),
                name => name.split('|').collect(),
            };
            let mut longer = Vec::new();
            for path in &paths {
                for name in &names {
                    longer.push([path.as_slice(), &[Step::Key((*name).to_owned())]].concat());
                }
            }
            longer
        })
    }

    #[test]
    fn what_is_enforced_is_not_on_the_list() {
        for pattern in RESTRICTIONS.iter().flat_map(|restriction| restriction.patterns) {
            for path in spelled(pattern) {
                assert_eq!(keys::find(&path), None, "{}", ValuePath::from(path.clone()));
            }
        }
    }

    #[test]
    fn restrictions_are_found_where_they_forbid_something() {
        let tools = json!({"deny": ["exec"]});
        let config = json!({
            "session": {"sendPolicy": {"default": "deny"}, "scope": "global"},
            "tools": {"sandbox": {"tools": tools}, "toolsBySender": null, "deny": ["exec"]},
            "commands": {"allowFrom": {"*": ["1"]}, "restart": false},
            "agents": {
                "defaults": {"sandbox": {"mode": "all",
                    "docker": {"network": "none", "image": "x", "memory": "1g"}}},
                "list": [{"id": "main",
                    "sandbox": {"docker": {"network": "bridge", "readOnlyRoot": false}}}],
            },
            "channels": {
                "defaults": {"groupPolicy": "allowlist"},
                "whatsapp": {"groups": {"*": {"tools": tools}}},
                "telegram": {
                    "botToken": "1:a",
                    "groups": {"-1": {"tools": tools, "requireMention": true, "topics": {
                        "7": {"enabled": false, "requireMention": false}, "8": {"enabled": true}}}},
                    "direct": {"5": {"dmPolicy": "disabled"}},
                },
            },
        });
        assert_eq!(
            found(&config),
            [
                "session.sendPolicy",
                "tools.sandbox.tools",
                "channels.telegram.groups.-1.tools",
                "commands.allowFrom",
                "agents.defaults.sandbox.docker.network",
                "agents.defaults.sandbox.docker.memory",
                "channels.telegram.groups.-1.topics.7.enabled",
                "channels.telegram.direct.5.dmPolicy",
            ]
        );
        assert_eq!(found(&json!({"channels": {"defaults": {"groupPolicy": "disabled"}}})).len(), 1);
        assert_eq!(found(&json!({"session": {"sendPolicy": {}}})), [""; 0]);
    }

    #[test]
    fn no_line_of_the_log_is_longer_than_it_has_to_be() {
        let places: Vec<_> = (0..LOGGED + 5).map(|index| format!("k{index}")).collect();
        let text = shown(&places);
        assert!(text.starts_with("k0, k1, ") && text.ends_with(", k39, and more"), "{text}");
        assert_eq!(shown(&places[..1]), "k0");
    }
}
