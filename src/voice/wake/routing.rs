//! Whom the wake words wake.

use serde::Serialize;
use serde_json::Value;

use crate::support::json;

use super::rules;

/// `{mode: "current"}`, `{agentId}` or `{sessionKey}`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RouteTarget {
    /// The session that is open where the word was said.
    #[default]
    Current,
    /// The main session of this agent, by its normalized id.
    Agent(String),
    /// This session, by its canonical key.
    Session(String),
}

impl Serialize for RouteTarget {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Current => json!({"mode": "current"}),
            Self::Agent(id) => json!({"agentId": id}),
            Self::Session(key) => json!({"sessionKey": key}),
        }
        .serialize(serializer)
    }
}

/// Whom one word wakes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The word as it is compared: see [`spoken`].
    pub trigger: String,
    /// Whom it wakes.
    pub target: RouteTarget,
}

/// The table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Routing {
    version: u8,
    /// Whom a word wakes that is in no route.
    pub default_target: RouteTarget,
    /// The words with targets of their own.
    pub routes: Vec<Route>,
    /// When it was changed last, in milliseconds since the epoch; 0 for never.
    pub updated_at_ms: u64,
}

impl Default for Routing {
    fn default() -> Self {
        Self {
            version: 1,
            default_target: RouteTarget::Current,
            routes: Vec::new(),
            updated_at_ms: 0,
        }
    }
}

impl Routing {
    /// Reads a table as a client writes it.
    ///
    /// # Errors
    /// What is wrong, with the path of the member.
    pub fn read(written: &Value) -> Result<Self, String> {
        let (default_target, routes) = rules::read(written)?;
        Ok(Self { default_target, routes, ..Self::default() })
    }

    /// The table in its file.
    pub(in crate::voice) fn kept(file: &Value) -> Result<Self, String> {
        let updated_at_ms = file.get("updatedAtMs").and_then(Value::as_u64).unwrap_or_default();
        Ok(Self { updated_at_ms, ..Self::read(file)? })
    }

    /// Whom this word wakes, as it was heard.
    pub fn target(&self, heard: &str) -> &RouteTarget {
        let heard = spoken(heard);
        let route = self.routes.iter().find(|route| route.trigger == heard);
        route.map_or(&self.default_target, |route| &route.target)
    }
}

/// A word without what is not said: lower case, one space between its parts,
/// no punctuation around them.
pub(super) fn spoken(text: &str) -> String {
    let is_said =
        |c: char| c.is_alphanumeric() || unicode_normalization::char::is_combining_mark(c);
    let parts = text.split_whitespace().map(|part| part.trim_matches(|c| !is_said(c)));
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_compared_as_it_is_said() {
        assert_eq!(spoken(" Hey,  Molty! "), "hey molty");
        assert_eq!(spoken("«Ça» — va?"), "ça va");
        assert_eq!(spoken("don't"), "don't");
        assert_eq!(spoken("नमस्ते!"), "नमस्ते");
        assert_eq!(spoken("?! …"), "");
    }

    #[test]
    fn a_word_wakes_whom_its_route_names_and_else_whom_the_table_does() {
        let table = json!({"defaultTarget": {"agentId": "Main"}, "routes": [
            {"trigger": "Hey Work!", "target": {"agentId": "work"}},
            {"trigger": "home", "target": {"sessionKey": "agent:main:home"}},
            {"trigger": "here", "target": {"mode": "current"}}]});
        let table = Routing::read(&table).unwrap();
        assert_eq!(table.target("hey, work"), &RouteTarget::Agent("work".into()));
        assert_eq!(table.target("HOME"), &RouteTarget::Session("agent:main:home".into()));
        assert_eq!(table.target("here"), &RouteTarget::Current);
        assert_eq!(table.target("else"), &RouteTarget::Agent("main".into()));
        let again = Routing::kept(&json!(table)).unwrap();
        assert_eq!(again, table);
    }
}
