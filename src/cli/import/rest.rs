//! What a state directory of OpenClaw has that no import takes over.
//!
//! Promises: each file and folder that stays behind is named, with what helps. Must not: look
//! into a file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sessions::import::LeftOut;
use crate::support::sort;

/// What is said of the rest, by how its name begins below the state directory.
const WHY: &[(&str, &str)] = &[
    ("openclaw.json.", "an earlier state of the settings"),
    (
        "openclaw.json",
        "the settings, which name workspaces as well; to have them, copy it beside the new \
         sessions, or name it with OPENCLAW_CONFIG_PATH",
    ),
    (".env", "variables of the settings; to have them, copy it beside the new config"),
    ("workspace", "where an agent works; copy it, or name it as the agent's workspace"),
    ("media", "files that came with messages; copy it where they are still wanted"),
    ("exec-approvals.json", "which commands run without asking; allow them again when asked"),
    ("credentials", "logins of channels and providers; log in again"),
    ("devices", "devices that wait to be approved; they ask again"),
    ("nodes", "nodes that were approved; approve them again"),
    ("identity", "the key of that gateway; this one has its own"),
    ("push", "who gets notifications; they subscribe again"),
    ("settings", "settings of voices and wake words; set them again"),
    ("memory", "an index of the memory in the workspaces, which is built anew"),
    ("cron", "an earlier state of the jobs"),
    ("logs", "logs of OpenClaw"),
    ("tasks", "a list of runs that have ended"),
];
/// The same of anything else.
const OTHER: &str = "no part of an import; copy it if it is needed";

/// What stays behind in the state directory `from`, in the order of the names; `used` is a file
/// that is used where it is.
pub(super) fn of(from: &Path, used: &Path) -> Vec<LeftOut> {
    let used = fs::canonicalize(used).ok();
    let mut found = Vec::new();
    for (name, path) in children(from) {
        let why = why(&name);
        match name.as_str() {
            "agents" => {
                for (_, agent) in children(&path) {
                    of_agent(&agent, &mut found);
                }
            }
            "cron" | "devices" | "credentials" => {
                let rest = children(&path).into_iter().filter(|(part, _)| !is_taken(&name, part));
                found.extend(rest.map(|(_, path)| left(&path, why)));
            }
            _ if used.is_some() && fs::canonicalize(&path).ok() == used => {}
            _ => found.push(left(&path, why)),
        }
    }
    found
}

/// Whether what has this name in a folder of it is taken over.
fn is_taken(folder: &str, name: &str) -> bool {
    match folder {
        "cron" => ["jobs.json", "jobs-state.json", "runs"].contains(&name),
        "devices" => name == "paired.json",
        _ => ["-allowFrom.json", "-pairing.json"].iter().any(|end| name.ends_with(end)),
    }
}

fn of_agent(folder: &Path, found: &mut Vec<LeftOut>) {
    for (name, path) in children(folder) {
        match name.as_str() {
            "sessions" => {
                let notes = children(&path);
                if notes.iter().any(|(name, _)| name.contains(".trajectory")) {
                    let notes = path.join("*.trajectory*");
                    found.push(left(&notes, "notes of OpenClaw on its runs, which nothing reads"));
                }
            }
            "agent" => found.push(left(
                &path,
                "its keys and models; copy auth-profiles.json and auth-state.json, or give the \
                 keys to `clawgate configure`",
            )),
            _ => found.push(left(&path, OTHER)),
        }
    }
}

fn why(name: &str) -> &'static str {
    WHY.iter().find(|(begin, _)| name.starts_with(begin)).map_or(OTHER, |(_, why)| why)
}

fn left(path: &Path, why: &str) -> LeftOut {
    LeftOut { what: path.display().to_string(), why: why.to_owned() }
}

/// What is in a folder, by its name; nothing where it is none or a link.
fn children(folder: &Path) -> Vec<(String, PathBuf)> {
    if !fs::symlink_metadata(folder).is_ok_and(|about| about.is_dir()) {
        return Vec::new();
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = entries.map(|it| (it.file_name().to_string_lossy().into_owned(), it.path()));
    let mut entries: Vec<_> = entries.collect();
    sort::plain(&mut entries);
    entries
}
