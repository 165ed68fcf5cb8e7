//! A gateway that was started with a config file that it cannot use.
//!
//! Owns: what it still does, and what it says of the rest. Promises: nothing is
//! done that the file might forbid.

use std::path::PathBuf;

use crate::config::document::ConfigIssue;
use crate::protocol::ErrorShape;
use crate::support::json;

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
    /// Whether a text itself is wrong: then no command finds a key in it.
    pub is_of_text: bool,
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
        let how = if self.is_of_text { "by hand" } else { "by hand or with `clawgate config set`" };
        write!(
            f,
            "{message}. Mend it {how}; the gateway goes on by itself then. \
             `clawgate config validate` and `clawgate doctor` tell more"
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::config::ConfigError;

    use super::*;

    #[test]
    fn the_refusal_names_the_file_the_key_and_the_command() {
        let issue = ConfigIssue { path: "gateway.port".into(), message: "must be …".into() };
        let repair = Repair { path: "/c/openclaw.json".into(), issue, is_of_text: false };
        let refusal = repair.refusal();
        assert!(refusal.message.contains("/c/openclaw.json cannot be used: gateway.port: must"));
        assert!(refusal.message.contains("`clawgate config validate`"));
        assert!(refusal.message.contains("Mend it by hand or with `clawgate config set`;"));
        assert!(repair.serves("config.patch") && !repair.serves("chat.send"));
    }

    #[test]
    fn no_command_is_named_that_cannot_mend_the_syntax() {
        let path = PathBuf::from("/c/openclaw.json");
        let told_of = |error: &ConfigError| {
            let (path, issue) = (path.clone(), ConfigIssue::from(error));
            Repair { path, issue, is_of_text: error.is_of_text() }.to_string()
        };
        for text in ["{oops", "{gateway: {port: 1 2}}"] {
            let told = told_of(&crate::config::parse(text, &path).unwrap_err());
            assert!(told.contains("/c/openclaw.json:1:") && told.contains(". Mend it by hand;"));
            assert!(!told.contains("config set"), "{told}");
        }
        let told = told_of(&ConfigError::Blank { path: path.clone() });
        assert!(told.contains("without settings. Mend it by hand;"), "{told}");
    }
}
