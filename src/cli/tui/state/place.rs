//! Which session is shown, and how its key is written.

use serde_json::Value;

use crate::sessions::AgentId;

/// Agents, sessions and the names of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The agent that is talked with.
    pub agent: String,
    /// The whole key of the session.
    pub session: String,
    main_key: String,
    is_global: bool,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            agent: "main".to_owned(),
            session: "agent:main:main".to_owned(),
            main_key: "main".to_owned(),
            is_global: false,
        }
    }
}

impl Place {
    /// What `hello-ok` says of the defaults, and which session and agent were asked for.
    pub fn first(hello: &Value, session: Option<&str>, agent: Option<&str>) -> Self {
        let defaults = &hello["snapshot"]["sessionDefaults"];
        let text = |name: &str, usual: &str| defaults[name].as_str().unwrap_or(usual).to_owned();
        let mut place = Self {
            agent: agent.map_or_else(|| text("defaultAgentId", "main"), id_of),
            session: String::new(),
            main_key: text("mainKey", "main"),
            is_global: defaults["scope"] == "global",
        };
        place.go(session.unwrap_or("main"));
        place
    }

    /// Goes to a session of this agent, or of another one if the key says so.
    pub fn go(&mut self, key: &str) {
        let key = key.trim().to_lowercase();
        let is_main = key.is_empty() || key == "main" || key == self.main_key;
        self.session = if key == "global" || (is_main && self.is_global) {
            "global".to_owned()
        } else if let Some((agent, _)) =
            key.strip_prefix("agent:").and_then(|rest| rest.split_once(':'))
        {
            agent.clone_into(&mut self.agent);
            key
        } else if is_main {
            format!("agent:{}:{}", self.agent, self.main_key)
        } else {
            format!("agent:{}:{key}", self.agent)
        };
    }

    /// Goes to the main session of an agent.
    pub fn go_to_agent(&mut self, agent: &str) {
        self.agent = id_of(agent);
        self.go("main");
    }

    /// The key as people write it.
    pub fn name(&self) -> &str {
        short(&self.session, &self.agent)
    }
}

/// The id of the agent that people call so.
fn id_of(agent: &str) -> String {
    AgentId::normalize(agent).to_string()
}

/// A key without its agent, if that is this one.
pub fn short<'a>(key: &'a str, agent: &str) -> &'a str {
    let of_agent = key.strip_prefix("agent:").and_then(|rest| rest.strip_prefix(agent));
    of_agent.and_then(|rest| rest.strip_prefix(':')).unwrap_or(key)
}

/// What to say when `agents.list` does not have this agent.
pub fn no_agent(list: &Value, wanted: &str) -> Option<String> {
    let agents = list["agents"].as_array().map_or(&[][..], Vec::as_slice);
    let ids: Vec<_> = agents.iter().filter_map(|agent| agent["id"].as_str()).collect();
    let is_there = ids.iter().any(|id| id_of(id) == id_of(wanted));
    (!is_there).then(|| format!("there is no agent \"{wanted}\"; there are {}", ids.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    #[test]
    fn keys_are_read_as_people_write_them() {
        let mut place = Place::first(&json!({}), None, None);
        for (written, session, name) in [
            ("main", "agent:main:main", "main"),
            ("Trip", "agent:main:trip", "trip"),
            ("global", "global", "global"),
            ("agent:ops:x:y", "agent:ops:x:y", "x:y"),
            ("notes", "agent:ops:notes", "notes"),
        ] {
            place.go(written);
            assert_eq!((place.session.as_str(), place.name()), (session, name), "{written}");
        }
        assert_eq!(place.agent, "ops");
        place.go_to_agent("Main");
        assert_eq!(place, Place::default());
    }

    #[test]
    fn an_agent_is_found_by_every_way_to_write_its_id() {
        let list = json!({"agents": [{"id": "main"}, {"id": "the-ops"}]});
        for written in ["the-ops", " The Ops ", "THE-OPS"] {
            assert_eq!(no_agent(&list, written), None, "{written}");
            let mut place = Place::first(&json!({}), None, Some(written));
            assert_eq!(place.session, "agent:the-ops:main", "{written}");
            place.go("agent:main:main");
            place.go_to_agent(written);
            assert_eq!(place.session, "agent:the-ops:main", "{written}");
        }
        assert!(no_agent(&list, "the-op").is_some());
    }

    #[test]
    fn the_gateway_says_what_is_usual() {
        let hello = json!({"snapshot": {"sessionDefaults": {"defaultAgentId": "ops", "mainKey": "home", "scope": "per-sender"}}});
        assert_eq!(Place::first(&hello, None, None).session, "agent:ops:home");
        assert_eq!(Place::first(&hello, Some("main"), Some("a")).session, "agent:a:home");
        let hello = json!({"snapshot": {"sessionDefaults": {"scope": "global"}}});
        assert_eq!(Place::first(&hello, None, None).session, "global");
    }
}
