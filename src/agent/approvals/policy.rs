//! The strictest of all that was said about commands.
//!
//! Owns: putting config, session, approvals file and call together. Promises:
//! nobody's word makes it less strict than another's; a word that nobody knows
//! counts as the strictest. Must not: read anything itself.

use serde_json::Value;

use super::allowlist::Entry;
use super::request::ExecRequest;
use crate::config::{ExecAsk, ExecRules, ExecSecurity};
use crate::sessions::SessionEntry;

/// What one session of a line is bound by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound<'a> {
    /// Id of its agent.
    pub agent: &'a str,
    /// What the config says of that.
    pub config: ExecRules,
    /// What the session says.
    pub session: &'a SessionEntry,
}

impl Bound<'_> {
    fn security(&self, file: &Value) -> ExecSecurity {
        let words = [
            self.config.security,
            self.session.exec_security.as_deref().map(security),
            file_word(file, self.agent, "security").map(security_of),
        ];
        words.into_iter().flatten().min().unwrap_or(ExecSecurity::Full)
    }

    fn ask(&self, file: &Value) -> ExecAsk {
        let words = [
            self.config.ask,
            self.session.exec_ask.as_deref().map(ask),
            file_word(file, self.agent, "ask").map(|word| ask(text(word))),
        ];
        words.into_iter().flatten().max().unwrap_or(ExecAsk::Off)
    }

    fn fallback(&self, file: &Value) -> ExecSecurity {
        file_word(file, self.agent, "askFallback").map_or(ExecSecurity::Deny, security_of)
    }
}

/// What holds for one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    /// Which commands run.
    pub security: ExecSecurity,
    /// Whether a person is asked.
    pub ask: ExecAsk,
    /// What holds when nobody is there to be asked; never more than the
    /// allowlist.
    pub fallback: ExecSecurity,
    /// The entries for this agent.
    pub entries: Vec<Entry>,
}

impl Policy {
    /// The policy for a request of a session that is bound like this, by itself and
    /// by those that spawned it. `file` is the approvals file.
    pub fn of(request: &ExecRequest, bounds: &[Bound<'_>], file: &Value) -> Self {
        let securities = bounds.iter().map(|bound| bound.security(file)).chain(request.security);
        let asks = bounds.iter().map(|bound| bound.ask(file)).chain(request.ask);
        let fallbacks = bounds.iter().map(|bound| bound.fallback(file));
        Self {
            security: securities.min().unwrap_or(ExecSecurity::Deny),
            ask: asks.max().unwrap_or(ExecAsk::Always),
            fallback: fallbacks.min().unwrap_or(ExecSecurity::Deny).min(ExecSecurity::Allowlist),
            entries: common_entries(&request.agent, bounds, file),
        }
    }

    /// Whether every command runs, so that nothing has to be known of it.
    pub fn lets_all(&self) -> bool {
        self.security == ExecSecurity::Full && !self.asks(false)
    }

    /// Whether a person has to be asked about a command.
    pub fn asks(&self, is_covered: bool) -> bool {
        match self.ask {
            ExecAsk::Always => true,
            ExecAsk::OnMiss => self.security == ExecSecurity::Allowlist && !is_covered,
            ExecAsk::Off => false,
        }
    }
}

pub(super) fn security(word: &str) -> ExecSecurity {
    ExecSecurity::parse(word).unwrap_or(ExecSecurity::Deny)
}

pub(super) fn ask(word: &str) -> ExecAsk {
    ExecAsk::parse(word).unwrap_or(ExecAsk::Always)
}

fn security_of(word: &Value) -> ExecSecurity {
    security(text(word))
}

/// What is no text is no word either.
fn text(word: &Value) -> &str {
    word.as_str().unwrap_or_default()
}

/// What the file says for this agent, else for all, else in general; `null` says nothing.
fn file_word<'a>(file: &'a Value, agent: &str, name: &str) -> Option<&'a Value> {
    let of_agent = |id: &str| file.get("agents").and_then(|agents| agents.get(id));
    let said_in = |rules: Option<&'a Value>| rules?.get(name).filter(|word| !word.is_null());
    said_in(of_agent(agent))
        .or_else(|| said_in(of_agent("*")))
        .or_else(|| said_in(file.get("defaults")))
}

/// The entries of every agent.
pub(super) fn all_entries(file: &Value) -> Vec<Entry> {
    let agents = file.get("agents").and_then(Value::as_object).into_iter().flatten();
    agents.flat_map(|(id, _)| own_entries(file, id)).collect()
}

fn own_entries(file: &Value, id: &str) -> Vec<Entry> {
    let list = file.get("agents").and_then(|agents| agents.get(id)?.get("allowlist"));
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| Entry::read(id, item)).collect()
}

fn entries(file: &Value, agent: &str) -> Vec<Entry> {
    [own_entries(file, "*"), own_entries(file, agent)].concat()
}

/// The entries for an agent; where it works for one that has a list of its own, only
/// those that are on that as well.
fn common_entries(agent: &str, bounds: &[Bound<'_>], file: &Value) -> Vec<Entry> {
    let mut common = entries(file, agent);
    let has_list = |bound: &&Bound<'_>| bound.security(file) == ExecSecurity::Allowlist;
    for bound in bounds.iter().filter(|bound| bound.agent != agent).filter(has_list) {
        let listed = entries(file, bound.agent);
        common.retain(|own| listed.iter().any(|entry| entry.says_the_same_as(own)));
    }
    common
}

/// Whether the file is one that can be followed: an unreadable rule would be a
/// rule that is not kept.
pub(super) fn is_followable(file: &Value) -> bool {
    let is_object = |value: Option<&Value>| value.is_none_or(|it| it.is_null() || it.is_object());
    let agents = file.get("agents").and_then(Value::as_object);
    file.is_object()
        && file.get("version").is_none_or(|version| version.as_u64() == Some(1))
        && is_object(file.get("defaults"))
        && is_object(file.get("agents"))
        && agents.into_iter().flat_map(|agents| agents.values()).all(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::approvals::ExecHost;
    use crate::config::{ExecAsk as Ask, ExecSecurity as Security};
    use crate::support::json;

    fn request() -> ExecRequest {
        ExecRequest::example(ExecHost::Gateway)
    }

    /// Each place says one word, or nothing.
    fn policy(config: ExecRules, session: [Option<&str>; 2], file: &Value) -> Policy {
        let [security, ask] = session.map(|word| word.map(str::to_owned));
        let entry = SessionEntry { exec_security: security, exec_ask: ask, ..Default::default() };
        Policy::of(&request(), &[Bound { agent: "main", config, session: &entry }], file)
    }

    #[test]
    fn nothing_said_is_everything_allowed_and_nobody_asked() {
        let policy = policy(ExecRules::default(), [None, None], &json!({}));
        assert_eq!((policy.security, policy.ask), (Security::Full, Ask::Off));
        assert_eq!(policy.fallback, Security::Deny);
        assert!(policy.entries.is_empty());
    }

    #[test]
    fn the_strictest_word_holds_wherever_it_is_said() {
        for security in Security::ALL {
            for ask in Ask::ALL {
                let rules = ExecRules { security: Some(security), ask: Some(ask) };
                let words = [Some(security.as_str()), Some(ask.as_str())];
                let file =
                    json!({"defaults": {"security": security.as_str(), "ask": ask.as_str()}});
                let lax = ExecRules { security: Some(Security::Full), ask: Some(Ask::Off) };
                let lax_words = [Some("full"), Some("off")];
                let lax_file = json!({"defaults": {"security": "full", "ask": "off"}});
                for policy in [
                    policy(rules, lax_words, &lax_file),
                    policy(lax, words, &lax_file),
                    policy(lax, lax_words, &file),
                ] {
                    assert_eq!((policy.security, policy.ask), (security, ask));
                }
                let own = ExecRequest { security: Some(security), ask: Some(ask), ..request() };
                let session = &SessionEntry::default();
                let bound = Bound { agent: "main", config: lax, session };
                let policy = Policy::of(&own, &[bound], &lax_file);
                assert_eq!((policy.security, policy.ask), (security, ask), "the call's own");
            }
        }
    }

    #[test]
    fn an_unknown_word_is_the_strictest() {
        let rules = ExecRules::default();
        for policy in [
            policy(rules, [Some("all"), Some("no")], &json!({})),
            policy(rules, [None, None], &json!({"defaults": {"security": "", "ask": 1}})),
            policy(rules, [None, None], &json!({"agents": {"*": {"security": {}, "ask": "x"}}})),
        ] {
            assert_eq!((policy.security, policy.ask), (Security::Deny, Ask::Always));
        }
    }

    #[test]
    fn in_the_file_an_agent_says_its_own_and_has_the_entries_of_all() {
        let file = json!({
            "defaults": {"security": "deny", "askFallback": "full"},
            "agents": {
                "*": {"ask": "always", "allowlist": [{"pattern": "a"}]},
                "main": {"security": "allowlist", "allowlist": [{"pattern": "b"}, {}, 1]},
                "other": {"allowlist": [{"pattern": "c"}]},
            },
        });
        let policy = policy(ExecRules::default(), [None, None], &file);
        assert_eq!((policy.security, policy.ask), (Security::Allowlist, Ask::Always));
        assert_eq!(policy.fallback, Security::Allowlist, "never more than the allowlist");
        let patterns: Vec<_> = policy.entries.iter().map(|entry| entry.pattern.as_str()).collect();
        assert_eq!(patterns, ["a", "b"]);
    }

    #[test]
    fn in_the_file_null_is_no_word_and_hides_none() {
        let file = json!({
            "defaults": {"security": "allowlist", "ask": null, "askFallback": "allowlist"},
            "agents": {
                "*": {"security": null, "ask": "always", "askFallback": null},
                "main": {"security": null, "ask": null},
            },
        });
        let policy = policy(ExecRules::default(), [None, None], &file);
        assert_eq!((policy.security, policy.ask), (Security::Allowlist, Ask::Always));
        assert_eq!(policy.fallback, Security::Allowlist);
    }

    #[test]
    fn whoever_spawned_a_session_binds_it_and_nothing_runs_that_only_one_of_them_lists() {
        let file = json!({
            "agents": {
                "main": {"allowlist": [{"pattern": "a"}, {"pattern": "b", "argPattern": "x"}]},
                "ops": {"security": "allowlist", "ask": "on-miss", "askFallback": "full",
                    "allowlist": [{"pattern": "a"}, {"pattern": "b"}, {"pattern": "c"}]},
            },
        });
        let lax = SessionEntry::default();
        let strict = SessionEntry { exec_security: Some("deny".into()), ..lax.clone() };
        let bound = |agent, session| Bound { agent, config: ExecRules::default(), session };
        let policy = Policy::of(&request(), &[bound("main", &lax), bound("ops", &lax)], &file);
        assert_eq!((policy.security, policy.ask), (Security::Allowlist, Ask::OnMiss));
        assert_eq!(policy.fallback, Security::Deny, "main says nothing of it");
        let patterns: Vec<_> = policy.entries.iter().map(|entry| entry.pattern.as_str()).collect();
        assert_eq!(patterns, ["a"]);
        let bounds = [bound("main", &lax), bound("main", &lax), bound("main", &strict)];
        assert_eq!(Policy::of(&request(), &bounds, &file).security, Security::Deny);
        assert_eq!(Policy::of(&request(), &[], &file).security, Security::Deny);
    }

    #[test]
    fn a_person_is_asked_each_time_or_about_what_the_allowlist_does_not_have() {
        let with =
            |security, ask| Policy { security, ask, fallback: Security::Deny, entries: Vec::new() };
        for security in Security::ALL {
            for is_covered in [true, false] {
                assert!(with(security, Ask::Always).asks(is_covered));
                assert!(!with(security, Ask::Off).asks(is_covered));
            }
            for ask in Ask::ALL {
                let lets_all = security == Security::Full && ask != Ask::Always;
                assert_eq!(with(security, ask).lets_all(), lets_all);
            }
        }
        assert!(with(Security::Allowlist, Ask::OnMiss).asks(false));
        assert!(!with(Security::Allowlist, Ask::OnMiss).asks(true));
        assert!(!with(Security::Full, Ask::OnMiss).asks(false));
    }
}
