//! A gateway that was started with a config file that it cannot use.
//!
//! Owns: what it still does, and what it says of the rest. Promises: nothing is
//! done that the file might forbid.

use std::path::PathBuf;

use serde_json::json;

use crate::config::document::ConfigIssue;
use crate::protocol::ErrorShape;

/// What helps to mend the file, and nothing else.
const METHODS: [&str; 8] = [
    "health",
    "config.get",
    "config.set",
    "config.patch",
    "config.apply",
    "config.schema",
    "config.schema.lookup",
    "logs.tail",
];

/// Why the gateway runs without its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub issue: ConfigIssue,
}

impl Repair {
    /// Whether a method is served.
    pub fn serves(&self, method: &str) -> bool {
        METHODS.contains(&method)
    }

    /// What is said of the others.
    pub fn refusal(&self) -> ErrorShape {
        ErrorShape::unavailable(self.to_string()).details(json!({
            "code": "CONFIG_INVALID",
            "path": self.path,
            "issues": [{"path": self.issue.path, "message": self.issue.message}],
            "fix": "clawgate config validate",
        }))
    }
}

/// For people: what is wrong and what to do.
impl std::fmt::Display for Repair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (file, ConfigIssue { path, message }) = (self.path.display(), &self.issue);
        write!(f, "the config file {file} cannot be used: ")?;
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        write!(
            f,
            "{message}. Mend it, by hand or with `clawgate config set`; the gateway goes on by \
             itself then. `clawgate config validate` and `clawgate doctor` tell more"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_names_the_file_the_key_and_the_command() {
        let issue = ConfigIssue { path: "gateway.port".into(), message: "must be …".into() };
        let repair = Repair { path: "/c/openclaw.json".into(), issue };
        let refusal = repair.refusal();
        assert!(refusal.message.contains("/c/openclaw.json cannot be used: gateway.port: must"));
        assert!(refusal.message.contains("`clawgate config validate`"));
        assert!(repair.serves("config.patch") && !repair.serves("chat.send"));
    }
}
