//! The original gateway: npm's `openclaw`, of the release whose wire was recorded.
//!
//! It is installed once, below the build folder, and runs where nothing but
//! loopback is to be reached: the whole benchmark starts itself again in a
//! network of its own, so that all servers are measured in the same place.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::installed::{self, Installed};

const VERSION: &str = installed::OF_PROTOCOL_3.0;
const NODE: &str = installed::OF_PROTOCOL_3.1;
/// Raises loopback in a new network, then is the program that follows.
const ALONE: &str = "ip link set lo up && exec \"$@\"";

/// The installed program.
#[derive(Debug, Clone)]
pub struct Original(Installed);

impl Original {
    /// Installs it where it is not there yet.
    pub fn install() -> anyhow::Result<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("openclaw-{VERSION}"));
        installed::install(&folder, VERSION, NODE).map(Self)
    }

    /// The program, with a home of its own and without what looks for others: it starts
    /// no channel, announces nothing and asks nobody for news.
    pub fn command(&self, home: &Path, state: &Path) -> Command {
        let mut command = Command::new(&self.0.node);
        command
            .arg(&self.0.script)
            .current_dir(home)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", home)
            .env("TMPDIR", home)
            .env("OPENCLAW_STATE_DIR", state)
            // One process: what it starts would not be counted.
            .env("OPENCLAW_NO_RESPAWN", "1")
            .env("OPENCLAW_NO_AUTO_UPDATE", "1")
            .env("OPENCLAW_SKIP_CHANNELS", "1")
            .env("OPENCLAW_DISABLE_BONJOUR", "1")
            .stdin(Stdio::null());
        command
    }
}

/// Which one it is, in words.
pub fn describe() -> String {
    format!("npm `openclaw@{VERSION}` on Node {NODE}")
}

/// What its config has besides that of the gateway: no files of a workspace, no runs by
/// the clock, no question for updates.
pub fn adapt(config: &mut Value, home: &Path) {
    let defaults = &mut config["agents"]["defaults"];
    defaults["workspace"] = json!(home.join("workspace"));
    defaults["skipBootstrap"] = json!(true);
    defaults["heartbeat"] = json!({"every": "0m"});
    config["update"] = json!({"checkOnStart": false});
    config["logging"] = json!({"file": home.join("openclaw.log")});
}

/// Runs this program again, with `--alone`, in a network with nothing but loopback.
/// Nothing comes back where this machine does not allow it.
pub fn alone() -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe()?;
    // Whoever is root needs no other user to be it in.
    let ways: [&[&str]; 2] = [&["--net"], &["--net", "--map-root-user"]];
    let works = |way: &&&[&str]| {
        let mut tried = Command::new("unshare");
        tried.args(**way).args(["--", "sh", "-c", ALONE, "sh", "true"]);
        tried.stdout(Stdio::null()).stderr(Stdio::null());
        tried.status().is_ok_and(|status| status.success())
    };
    let way = ways.iter().find(works).context(
        "`unshare --net` and `ip link set lo up` do not work here (util-linux, iproute2, and the \
         right to make a network)",
    )?;
    let status = Command::new("unshare")
        .args(*way)
        .args(["--", "sh", "-c", ALONE, "sh"])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .arg("--alone")
        .status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
