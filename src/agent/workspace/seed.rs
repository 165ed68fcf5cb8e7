//! Making the files of a workspace.
//!
//! Promises: what is there stays; `BOOTSTRAP.md` is made once in the life of a
//! workspace, also when the process dies in the middle; what was made survives
//! power loss. `.openclaw/workspace-state.json` says how far it is, as in the
//! original.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{BootstrapFile, files};
use crate::store::atomic::{self, FileError};

/// Files that a new workspace gets and an older one keeps, or not.
const OPTIONAL: [BootstrapFile; 4] =
    [BootstrapFile::Soul, BootstrapFile::Identity, BootstrapFile::User, BootstrapFile::Heartbeat];
/// Without these a workspace is not one.
const REQUIRED: [BootstrapFile; 2] = [BootstrapFile::Agents, BootstrapFile::Tools];
/// What only a workspace that is in use has.
const TRACES_OF_USE: [&str; 4] = ["MEMORY.md", "memory", "skills", ".git"];
/// Where the state is, below the workspace.
const STATE: &str = ".openclaw/workspace-state.json";
/// A state file is a few lines.
const STATE_MAX_BYTES: u64 = 64 * 1024;

/// How far the setting up of a workspace is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    #[serde(default)]
    version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bootstrap_seeded_at: Option<String>,
    #[serde(default, alias = "onboardingCompletedAt", skip_serializing_if = "Option::is_none")]
    setup_completed_at: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Makes what is missing in `dir`; whether the first conversation is over.
///
/// # Errors
/// When the folder or a file cannot be made.
pub fn ensure(dir: &Path, now_ms: u64) -> Result<bool, FileError> {
    atomic::create_private_dir(dir)?;
    let is_new = is_new(dir);
    let bootstrap = dir.join(BootstrapFile::Bootstrap.name());
    let before = read_state(dir);
    let mut state = before.clone();
    if is_new && before.bootstrap_seeded_at.is_none() && before.setup_completed_at.is_none() {
        make_all(dir, [&BootstrapFile::Bootstrap])?;
        state.bootstrap_seeded_at = Some(iso(now_ms));
    } else if before.setup_completed_at.is_none() && !exists(&bootstrap) {
        state.setup_completed_at = Some(iso(now_ms));
    } else if before.bootstrap_seeded_at.is_none() && exists(&bootstrap) {
        state.bootstrap_seeded_at = Some(iso(now_ms));
    }
    // Before the other files: they are what tells an old workspace from a new
    // one.
    if state != before {
        write_state(dir, state.clone())?;
    }
    let optional = if is_new || before.setup_completed_at.is_none() { &OPTIONAL[..] } else { &[] };
    let memory = is_new.then_some(&BootstrapFile::Memory);
    make_all(dir, REQUIRED.iter().chain(optional).chain(memory))?;
    Ok(state.setup_completed_at.is_some())
}

/// Whether the first conversation in `dir` is over, by what was noted.
pub fn is_set_up(dir: &Path) -> bool {
    read_state(dir).setup_completed_at.is_some()
}

fn is_new(dir: &Path) -> bool {
    let files = REQUIRED.iter().chain(&OPTIONAL).map(|file| file.name());
    !files.chain(TRACES_OF_USE).any(|name| exists(&dir.join(name)))
}

/// Whether there is something, be it a link that leads nowhere.
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Makes those files that are missing.
fn make_all<'a>(
    dir: &Path,
    files: impl IntoIterator<Item = &'a BootstrapFile>,
) -> Result<(), FileError> {
    let is_missing = |file: &&BootstrapFile| !exists(&dir.join(file.name()));
    let missing = files.into_iter().filter(is_missing);
    atomic::create_all_private(dir, missing.map(|file| (file.name(), file.template().as_bytes())))
}

fn state_path(dir: &Path) -> PathBuf {
    dir.join(STATE)
}

/// An unreadable state counts as one of a workspace that is set up, so that
/// nobody is asked who he is a second time. So does one that leads out of the
/// workspace or is a pipe: commands of the agent can make it that.
fn read_state(dir: &Path) -> State {
    let read = || -> Result<State, Box<dyn std::error::Error>> {
        let Some(opened) = files::open_any_size(dir, STATE)? else { return Ok(State::default()) };
        let mut text = String::new();
        opened.file.take(STATE_MAX_BYTES).read_to_string(&mut text)?;
        Ok(serde_json::from_str(&text)?)
    };
    match read() {
        Ok(state) => state,
        Err(error) => {
            tracing::warn!(workspace = %dir.display(), %error, "state of the workspace not readable");
            State { setup_completed_at: Some(String::new()), ..State::default() }
        }
    }
}

fn write_state(dir: &Path, state: State) -> Result<(), FileError> {
    let state = State { version: 1, ..state };
    // A struct of texts always becomes JSON.
    let text = serde_json::to_string_pretty(&state).unwrap_or_default();
    atomic::write_private(&state_path(dir), format!("{text}\n").as_bytes())
}

fn iso(now_ms: u64) -> String {
    let now = i64::try_from(now_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    format!("{:.3}", now.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_318_532_277;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_workspace_gets_every_file_and_a_second_time_changes_none() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/workspace");
        assert!(!ensure(&dir, NOW).unwrap());
        let mut expected = BootstrapFile::ALL.map(|file| file.name().to_owned()).to_vec();
        expected.sort();
        assert_eq!(names(&dir), expected);
        fs::write(dir.join("SOUL.md"), "mine").unwrap();
        assert!(!ensure(&dir, NOW + 1).unwrap());
        assert_eq!(fs::read_to_string(dir.join("SOUL.md")).unwrap(), "mine");
        let state = fs::read_to_string(state_path(&dir)).unwrap();
        assert!(state.contains("\"bootstrapSeededAt\": \"2026-11-22T03:35:32.277Z\""), "{state}");
    }

    #[test]
    fn bootstrap_is_gone_for_good_once_it_was_deleted() {
        let root = tempfile::tempdir().unwrap();
        ensure(root.path(), NOW).unwrap();
        fs::remove_file(root.path().join("BOOTSTRAP.md")).unwrap();
        for name in ["AGENTS.md", "USER.md", "MEMORY.md"] {
            fs::remove_file(root.path().join(name)).unwrap();
        }
        assert!(ensure(root.path(), NOW + 1).unwrap());
        let left = names(root.path());
        // What belongs to the rules comes back, what is the user's choice not.
        assert!(left.contains(&"AGENTS.md".into()), "{left:?}");
        for name in ["BOOTSTRAP.md", "MEMORY.md"] {
            assert!(!left.contains(&name.into()), "{left:?}");
        }
        fs::remove_file(root.path().join("SOUL.md")).unwrap();
        assert!(ensure(root.path(), NOW + 2).unwrap());
        assert!(!names(root.path()).contains(&"SOUL.md".into()));
    }

    #[test]
    fn a_workspace_in_use_gets_no_bootstrap() {
        for trace in ["AGENTS.md", "memory", "skills", ".git", "MEMORY.md"] {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir(root.path().join(trace)).unwrap();
            assert!(ensure(root.path(), NOW).unwrap());
            assert!(!root.path().join("BOOTSTRAP.md").exists(), "{trace}");
            assert!(root.path().join("TOOLS.md").is_file(), "{trace}");
        }
    }

    #[test]
    fn a_stop_in_the_middle_neither_loses_nor_doubles_the_beginning() {
        let root = tempfile::tempdir().unwrap();
        // Only the first file was made.
        fs::write(root.path().join("BOOTSTRAP.md"), "theirs").unwrap();
        assert!(!ensure(root.path(), NOW).unwrap());
        assert_eq!(fs::read_to_string(root.path().join("BOOTSTRAP.md")).unwrap(), "theirs");
        assert_eq!(names(root.path()).len(), 8);
        // Only file and state were made.
        let root = tempfile::tempdir().unwrap();
        make_all(root.path(), [&BootstrapFile::Bootstrap]).unwrap();
        let state = State { bootstrap_seeded_at: Some(iso(NOW)), ..State::default() };
        write_state(root.path(), state).unwrap();
        assert!(!ensure(root.path(), NOW).unwrap());
        assert_eq!(names(root.path()).len(), 8);
    }

    #[test]
    fn a_state_that_leads_elsewhere_or_never_ends_is_neither_read_nor_written() {
        use std::os::unix::fs::symlink;
        type Spoil = fn(&Path, &Path);
        let spoils: [Spoil; 4] = [
            |dir, outside| symlink(outside, dir.join(".openclaw")).unwrap(),
            |dir, outside| symlink(outside.join("new"), dir.join(".openclaw")).unwrap(),
            |dir, outside| {
                fs::create_dir(dir.join(".openclaw")).unwrap();
                symlink(outside.join("other.json"), state_path(dir)).unwrap();
            },
            |dir, _| {
                fs::create_dir(dir.join(".openclaw")).unwrap();
                let made = std::process::Command::new("mkfifo").arg(state_path(dir)).status();
                assert!(made.unwrap().success());
            },
        ];
        for spoil in spoils {
            let root = tempfile::tempdir().unwrap();
            let (dir, outside) = (root.path().join("w"), root.path().join("outside"));
            fs::create_dir(&dir).unwrap();
            fs::create_dir(&outside).unwrap();
            fs::write(outside.join("other.json"), "{}").unwrap();
            spoil(&dir, &outside);
            assert!(ensure(&dir, NOW).unwrap());
            assert_eq!(names(&outside), ["other.json"]);
            assert_eq!(fs::read_to_string(outside.join("other.json")).unwrap(), "{}");
        }
    }

    #[test]
    fn the_originals_state_is_understood_and_a_broken_one_starts_nothing_anew() {
        for state in [
            "{\"version\":1,\"setupCompletedAt\":\"2026-01-01T00:00:00.000Z\",\"x\":1}",
            "{\"onboardingCompletedAt\":\"2026-01-01T00:00:00.000Z\"}",
            "{ not json",
        ] {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir(root.path().join(".openclaw")).unwrap();
            fs::write(state_path(root.path()), state).unwrap();
            assert!(ensure(root.path(), NOW).unwrap(), "{state}");
            assert!(!root.path().join("BOOTSTRAP.md").exists(), "{state}");
            assert_eq!(fs::read_to_string(state_path(root.path())).unwrap(), state);
        }
    }
}
