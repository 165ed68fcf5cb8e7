//! Commands of the original that need something this gateway does not have.
//!
//! Promises: who gives one is told so; the model is not asked what it may mean.
//! What gets built moves to the table of commands.

/// What they are called, whether words may follow, and what is missing.
const UNOFFERED: &[(&[&str], bool, &str)] = &[
    (&["/acp"], true, "there are no ACP harnesses"),
    (&["/agents"], false, "there are no threads to bind agents to"),
    (&["/bash"], true, "commands are run by the agent only"),
    (&["/crestodian"], true, "`clawgate config validate` and `clawgate status` check the setup"),
    (&["/debug"], true, "settings cannot be overridden at run time"),
    (&["/diagnostics"], true, "there is no diagnostics bundle"),
    (&["/export-session", "/export"], true, "the transcript of the session is a file"),
    (&["/export-trajectory", "/trajectory"], true, "the transcript of the session is a file"),
    (&["/focus"], true, "there are no threads to bind sessions to"),
    (&["/unfocus"], false, "there are no threads to bind sessions to"),
    (&["/kill"], true, "`/subagents kill` stops sub-agents"),
    (&["/mcp"], true, "MCP servers are set in the config"),
    (&["/plugins"], true, "there are no plugins"),
    (&["/session"], true, "there are no threads that could be bound to the session"),
    (&["/tts"], true, "answers are not spoken; `tts.convert` speaks a text"),
];

/// Changes who may write, in the original where the channel can do that.
pub const ALLOWLIST: &str = "/allowlist";

/// What is said to that in a channel. The webchat of the original says so, too.
pub fn no_allowlist(channel: &str) -> String {
    format!("⚠️ {channel} does not expose allowlist configuration.")
}

/// What they are all called, with their slashes.
pub fn names() -> impl Iterator<Item = &'static str> {
    UNOFFERED.iter().flat_map(|(names, ..)| *names).copied().chain([ALLOWLIST])
}

/// What is said to a command of this name, with or without words after it.
pub fn told(name: &str, has_args: bool) -> Option<String> {
    let name = name.to_lowercase();
    let is_it =
        |names: &[&str], takes_args| names.contains(&name.as_str()) && (takes_args || !has_args);
    UNOFFERED.iter().find_map(|(names, takes_args, why)| {
        let text = || format!("⚠️ {name} is not offered by this gateway: {why}.");
        is_it(names, *takes_args).then(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table;

    #[test]
    fn nothing_is_both_offered_and_not() {
        for name in UNOFFERED.iter().flat_map(|(names, ..)| *names) {
            assert!(table::find(name).is_none(), "{name}");
            assert!(told(name, false).unwrap().starts_with(&format!("⚠️ {name} is not offered")));
        }
        assert_eq!(told("/agents", true), None, "with words it is text");
        assert_eq!(told("/nothing", false), None);
    }
}
