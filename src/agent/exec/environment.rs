//! The environment of a command.
//!
//! Owns: what calls and skills may add to it. Promises: nothing of the gateway's
//! own gets in but what [`ExecSettings::env`] has; neither a call nor a skill can
//! choose which code a program loads. Must not: read any file of a workspace.

use std::collections::BTreeMap;

use crate::config::{ExecSettings, decides_code, is_variable};
use crate::support::Secret;

/// Variables that decide what programs start or where they are found, beside
/// those of [`decides_code`], which nobody may set: these ones the owner may, in his config.
const REFUSED: [&str; 47] = [
    "BROWSER",
    "CDPATH",
    "CURL_HOME",
    "DOTNET_STARTUP_HOOKS",
    "EDITOR",
    "GIT_ASKPASS",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_TEMPLATE_DIR",
    "GLIBC_TUNABLES",
    "HOME",
    "JDK_JAVA_OPTIONS",
    "LESSCLOSE",
    "LESSOPEN",
    "MANPAGER",
    "NPM_CONFIG_EDITOR",
    "NPM_CONFIG_GIT",
    "NPM_CONFIG_GLOBALCONFIG",
    "NPM_CONFIG_NODE_OPTIONS",
    "NPM_CONFIG_SCRIPT_SHELL",
    "NPM_CONFIG_SHELL",
    "NPM_CONFIG_USERCONFIG",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PAGER",
    "PATH",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PYTHONUSERBASE",
    "RIPGREP_CONFIG_PATH",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "SSH_ASKPASS",
    "SSLKEYLOGFILE",
    "TAR_OPTIONS",
    "VISUAL",
    "WGETRC",
    // Where programs look for settings, as they do in `HOME`.
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
];
/// The same for whole families.
const REFUSED_BEGINNINGS: [&str; 2] = ["GIT_CONFIG", "OPENCLAW_"];

/// Whether neither a call nor a skill may set this variable.
pub fn is_refused(name: &str) -> bool {
    let upper = name.to_uppercase();
    decides_code(name)
        || REFUSED.contains(&upper.as_str())
        || REFUSED_BEGINNINGS.iter().any(|beginning| upper.starts_with(beginning))
}

/// Everything that a command gets: what every command gets, what is set for
/// skills where nothing is there yet, and what the call adds.
///
/// # Errors
/// For a variable that no call may set, in words for the model.
pub fn merge(
    settings: &ExecSettings,
    of_skills: &BTreeMap<String, Secret>,
    asked: &BTreeMap<String, String>,
    has_terminal: bool,
) -> Result<BTreeMap<String, String>, String> {
    let mut env = settings.env.clone();
    for (name, value) in of_skills {
        env.entry(name.clone()).or_insert_with(|| value.expose().to_owned());
    }
    if has_terminal && env.get("TERM").is_none_or(|term| term == "dumb") {
        env.insert("TERM".into(), "xterm-256color".into());
    }
    // Shell profiles look at it, as with the original.
    env.insert("OPENCLAW_SHELL".into(), "exec".into());
    check(asked)?;
    env.extend(asked.clone());
    Ok(env)
}

/// Whether a call may set all of these variables.
///
/// # Errors
/// For one that it may not, in words for the model.
pub fn check(asked: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in asked {
        if is_refused(name) {
            return Err(format!(
                "Security Violation: Environment variable '{name}' is forbidden during host execution."
            ));
        }
        if !is_variable(name) || value.contains('\0') {
            return Err(format!("Environment variable '{name}' is not valid."));
        }
    }
    Ok(())
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
