//! A session and those that spawned it, and what they say of commands.
//!
//! Promises: what comes from a session is bound by all that binds the session; a
//! line that is too long or cannot be read is an error, never a shorter line.
//! Must not: decide.

use serde::{Deserialize, Serialize};

use super::policy::{Bound, ask, security};
use crate::config::{ExecAsk, ExecSandbox, ExecSecurity, Settings};
use crate::sessions::{LINE_MAX, SessionEntry, SessionError, SessionKey, Sessions};

/// Where commands of a session are confined.
const SANDBOX: &str = "sandbox";

/// Why nothing is known of a line.
#[derive(Debug, thiserror::Error)]
pub enum LineageError {
    /// One of its sessions cannot be read.
    #[error("the session cannot be read: {0}")]
    Session(#[from] SessionError),
    /// Nobody spawns so deep.
    #[error("more than {LINE_MAX} sessions spawned each other; begin a new session")]
    TooLong,
}

/// One session of a line.
#[derive(Debug, Clone)]
pub struct Link {
    /// Id of its agent.
    pub agent: String,
    /// Whether it is the main session of that.
    pub is_main: bool,
    /// What is known of it.
    pub entry: SessionEntry,
}

/// A session, the one that spawned it, and so on.
#[derive(Debug, Clone)]
pub struct Lineage {
    own: Box<Link>,
    above: Vec<Link>,
}

impl Lineage {
    /// The line of a session.
    ///
    /// # Errors
    /// When it cannot be read to its end.
    pub async fn of(sessions: &Sessions, key: &SessionKey) -> Result<Self, LineageError> {
        let entry = sessions.entry(key).await?.unwrap_or_default();
        Self::of_entry(sessions, key, &entry).await
    }

    /// The same for a session that has been read.
    ///
    /// # Errors
    /// When those above it cannot be.
    pub async fn of_entry(
        sessions: &Sessions,
        key: &SessionKey,
        entry: &SessionEntry,
    ) -> Result<Self, LineageError> {
        let rules = sessions.rules();
        let link = |key: &SessionKey, entry: SessionEntry| {
            let agent = key.agent(&rules);
            let is_main = *key == SessionKey::main(&agent, &rules);
            Link { agent: agent.to_string(), is_main, entry }
        };
        let above = sessions.spawners(Some(entry)).await?;
        if above.len() >= LINE_MAX {
            return Err(LineageError::TooLong);
        }
        let above = above.into_iter().map(|(key, entry)| link(&key, entry.unwrap_or_default()));
        let above = above.collect();
        Ok(Self { own: Box::new(link(key, entry.clone())), above })
    }

    /// The session itself.
    pub fn own(&self) -> &SessionEntry {
        &self.own.entry
    }

    /// What binds commands of the session, which are those of this agent. Of an agent that
    /// is gone that is what is said of the default one as well.
    pub(super) fn bounds<'a>(&'a self, agent: &'a str, settings: &'a Settings) -> Vec<Bound<'a>> {
        let above = self.above.iter().map(|link| (link.agent.as_str(), &link.entry));
        let all = std::iter::once((agent, self.own())).chain(above);
        let bounds = all.flat_map(|(agent, session)| {
            let ruling = settings.agents.ruling_id(agent);
            let config = settings.exec_policy.rules(ruling);
            let bound = |agent| Bound { agent, config, session };
            let of_default = (ruling != agent).then(|| bound(ruling));
            std::iter::once(bound(agent)).chain(of_default)
        });
        bounds.collect()
    }

    /// What a command of the session may write to, as the config has it: what it says of where
    /// commands of an agent run binds those that come from it as well.
    pub fn confinement(&self, settings: &Settings) -> ExecSandbox {
        self.strictest(|link| {
            let agent = settings.agents.ruling_id(&link.agent);
            settings.exec.sandbox.usual(agent, link.is_main, None)
        })
    }

    /// The same of a command that says nothing of its place itself.
    pub fn usual(&self, settings: &Settings) -> ExecSandbox {
        self.strictest(|link| {
            let agent = settings.agents.ruling_id(&link.agent);
            let host = link.entry.exec_host.as_deref();
            settings.exec.sandbox.usual(agent, link.is_main, host)
        })
    }

    /// Where its sessions say that commands run.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.links().filter_map(|link| link.entry.exec_host.as_deref())
    }

    /// The node that they are bound to.
    pub fn node(&self) -> Option<&str> {
        self.links().find_map(|link| link.entry.exec_node.as_deref())
    }

    /// What its sessions say together, for a session of this agent: with what the
    /// config says of the others.
    pub fn words_for(&self, agent: &str, settings: &Settings) -> ExecWords {
        let words = self.links().map(|link| {
            let said = ExecWords::of(&link.entry);
            if link.agent == agent {
                return said;
            }
            said.and(ExecWords::of_agent(settings, &link.agent))
        });
        words.reduce(ExecWords::and).unwrap_or_default()
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        std::iter::once(&*self.own).chain(&self.above)
    }

    fn strictest(&self, of: impl Fn(&Link) -> ExecSandbox) -> ExecSandbox {
        self.links().map(of).max().unwrap_or(ExecSandbox::ReadOnly)
    }
}

/// What binds the commands of a session, for what comes from it and may outlive
/// it. Words that bind nobody are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecWords {
    /// Which commands run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<String>,
    /// Whether a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
    /// Where they run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// On which node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

impl ExecWords {
    /// Those of one session.
    pub fn of(entry: &SessionEntry) -> Self {
        let but = |word: &Option<String>, lax: &str| word.clone().filter(|word| word != lax);
        Self {
            security: but(&entry.exec_security, ExecSecurity::Full.as_str()),
            ask: but(&entry.exec_ask, ExecAsk::Off.as_str()),
            host: but(&entry.exec_host, "auto"),
            node: entry.exec_node.clone(),
        }
    }

    /// What the config says of an agent, for sessions of another one.
    pub fn of_agent(settings: &Settings, agent: &str) -> Self {
        let agent = settings.agents.ruling_id(agent);
        let rules = settings.exec_policy.rules(agent);
        let is_confined = settings.exec.sandbox.usual(agent, false, None) != ExecSandbox::Off;
        Self {
            security: rules
                .security
                .filter(|word| *word != ExecSecurity::Full)
                .map(|word| word.as_str().to_owned()),
            ask: rules
                .ask
                .filter(|word| *word != ExecAsk::Off)
                .map(|word| word.as_str().to_owned()),
            host: is_confined.then(|| SANDBOX.to_owned()),
            node: None,
        }
    }

    /// Whether nothing is bound.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The stricter of two; of places, confinement, then the first.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let both = [&self, &other];
        let securities = both.iter().filter_map(|it| it.security.as_deref());
        let asks = both.iter().filter_map(|it| it.ask.as_deref());
        let is_confined = both.iter().any(|it| it.host.as_deref() == Some(SANDBOX));
        Self {
            security: securities.map(security).min().map(|word| word.as_str().to_owned()),
            ask: asks.map(ask).max().map(|word| word.as_str().to_owned()),
            host: if is_confined { Some(SANDBOX.to_owned()) } else { self.host.or(other.host) },
            node: self.node.or(other.node),
        }
    }

    /// Binds a new session.
    pub fn write(self, entry: &mut SessionEntry) {
        entry.exec_security = self.security;
        entry.exec_ask = self.ask;
        entry.exec_host = self.host;
        entry.exec_node = self.node;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::agent::approvals::policy::Policy;
    use crate::agent::approvals::{ExecHost, ExecRequest};
    use crate::config::{Env, preview};
    use crate::support::json;

    fn words(all: [Option<&str>; 4]) -> ExecWords {
        let [security, ask, host, node] = all.map(|word| word.map(str::to_owned));
        ExecWords { security, ask, host, node }
    }

    #[test]
    fn an_agent_that_is_gone_is_bound_by_what_the_file_says_of_the_default_one() {
        let settings = "{agents: {list: [{id: 'main', default: true}, {id: 'kid'}]}}";
        let settings = preview(settings, &Env::fixed([], Path::new("/home/u"))).unwrap();
        let link = |agent: &str| Link {
            agent: agent.to_owned(),
            is_main: false,
            entry: SessionEntry::default(),
        };
        let file = json!({"agents": {
            "main": {"security": "allowlist", "allowlist": [{"pattern": "/a"}]},
            "gone": {"security": "full", "allowlist": [{"pattern": "/a"}, {"pattern": "/b"}]},
            "kid": {"security": "full", "allowlist": [{"pattern": "/b"}]},
        }});
        let policy = |agent: &str, above: &[&str]| {
            let above = above.iter().map(|agent| link(agent)).collect();
            let lineage = Lineage { own: Box::new(link(agent)), above };
            let mut request = ExecRequest::example(ExecHost::Gateway);
            request.agent = agent.to_owned();
            Policy::of(&request, &lineage.bounds(agent, &settings), &file)
        };
        let gone = policy("gone", &[]);
        assert_eq!((gone.security, gone.entries.len()), (ExecSecurity::Allowlist, 1));
        let below = policy("kid", &["gone"]);
        assert_eq!((below.security, below.entries.len()), (ExecSecurity::Allowlist, 0));
        let kid = policy("kid", &[]);
        assert_eq!((kid.security, kid.entries.len()), (ExecSecurity::Full, 1));
    }

    #[test]
    fn a_session_is_confined_as_the_agent_that_spawned_it() {
        let settings =
            "{agents: {list: [{id: 'main'}, {id: 'ops', tools: {exec: {host: 'sandbox'}}}]}}";
        let settings = preview(settings, &Env::fixed([], Path::new("/home/u"))).unwrap();
        let link = |agent: &str| Link {
            agent: agent.to_owned(),
            is_main: false,
            entry: SessionEntry::default(),
        };
        let confinement = |above: Vec<Link>| {
            Lineage { own: Box::new(link("main")), above }.confinement(&settings)
        };
        assert_eq!(confinement(Vec::new()), ExecSandbox::Off);
        assert_eq!(confinement(vec![link("ops")]), ExecSandbox::WorkspaceWrite);
        let host = |agent: &str| ExecWords::of_agent(&settings, agent).host;
        assert_eq!((host("main"), host("ops")), (None, Some(SANDBOX.to_owned())));
    }

    #[test]
    fn of_two_words_the_stricter_is_inherited_and_one_that_binds_nobody_is_not() {
        let near = words([Some("allowlist"), Some("on-miss"), Some("node"), Some("own")]);
        for (far, both) in [
            (words([None; 4]), near.clone()),
            (
                words([Some("deny"), Some("always"), Some("sandbox"), Some("other")]),
                words([Some("deny"), Some("always"), Some("sandbox"), Some("own")]),
            ),
            (
                words([Some("no"), Some("no"), Some("gateway"), None]),
                words([Some("deny"), Some("always"), Some("node"), Some("own")]),
            ),
        ] {
            assert_eq!(near.clone().and(far), both);
        }
        let mut entry = SessionEntry::default();
        words([Some("full"), Some("off"), Some("auto"), None]).write(&mut entry);
        assert!(ExecWords::of(&entry).is_empty());
        near.clone().write(&mut entry);
        assert_eq!(ExecWords::of(&entry), near);
    }
}
