//! The environment of a command.
//!
//! Owns: what a call may add to it. Promises: nothing of the gateway's own gets
//! in but what [`ExecSettings::env`] has and what is set for skills; a call cannot choose which code a
//! program loads. Must not: read any file of a workspace.

use std::collections::BTreeMap;

use crate::config::{ExecSettings, is_variable};
use crate::support::Secret;

/// Variables that decide which code a program runs, or where it is found.
const REFUSED: [&str; 31] = [
    "BASH_ENV",
    "BROWSER",
    "CDPATH",
    "EDITOR",
    "ENV",
    "GCONV_PATH",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "HOME",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "LESSOPEN",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PAGER",
    "PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "PS4",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
    "SHELLOPTS",
    "SSLKEYLOGFILE",
];
/// The same for whole families.
const REFUSED_BEGINNINGS: [&str; 5] = ["LD_", "DYLD_", "BASH_FUNC_", "GIT_CONFIG", "OPENCLAW_"];

/// Everything that a command gets: what the config has, then what is set for
/// skills and has no value yet, then what the call adds.
///
/// # Errors
/// For a variable that no call may set, in words for the model.
pub fn merge(
    settings: &ExecSettings,
    skills: &BTreeMap<String, Secret>,
    asked: &BTreeMap<String, String>,
    has_terminal: bool,
) -> Result<BTreeMap<String, String>, String> {
    let mut env = settings.env.clone();
    if has_terminal && env.get("TERM").is_none_or(|term| term == "dumb") {
        env.insert("TERM".into(), "xterm-256color".into());
    }
    // Shell profiles look at it, as with the original.
    env.insert("OPENCLAW_SHELL".into(), "exec".into());
    for (name, value) in skills {
        env.entry(name.clone()).or_insert_with(|| value.expose().to_owned());
    }
    for (name, value) in asked {
        let upper = name.to_uppercase();
        let is_refused = REFUSED.contains(&upper.as_str())
            || REFUSED_BEGINNINGS.iter().any(|beginning| upper.starts_with(beginning));
        if is_refused {
            return Err(format!(
                "Security Violation: Environment variable '{name}' is forbidden during host execution."
            ));
        }
        if !is_variable(name) || value.contains('\0') {
            return Err(format!("Environment variable '{name}' is not valid."));
        }
        env.insert(name.clone(), value.clone());
    }
    Ok(env)
}

/// The shell that runs commands: the user's, when it understands what models
/// write.
pub fn shell(settings: &ExecSettings) -> String {
    let own = settings.env.get("SHELL").filter(|path| {
        let name = path.rsplit('/').next().unwrap_or_default();
        path.starts_with('/') && ["bash", "dash", "ksh", "sh", "zsh"].contains(&name)
    });
    let candidates = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];
    own.map(String::as_str)
        .into_iter()
        .chain(candidates)
        .find(|path| std::path::Path::new(path).exists())
        .unwrap_or("/bin/sh")
        .to_owned()
}
