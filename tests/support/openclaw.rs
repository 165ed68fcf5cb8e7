//! OpenClaw itself: its command line and its node host, as npm has them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

use super::config::SECRET;
use super::gateway::Gateway;
use super::installed::{self, Installed};

/// A release, and one of the line of Node that it is made for.
#[derive(Debug, Clone, Copy)]
pub struct Release {
    pub version: &'static str,
    node: &'static str,
}

/// How long one of its programs may take, on a machine that does other things as well.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The last one that speaks protocol 3.
pub const OF_PROTOCOL_3: Release =
    Release { version: installed::OF_PROTOCOL_3.0, node: installed::OF_PROTOCOL_3.1 };
/// One that speaks protocol 4 alone.
pub const OF_PROTOCOL_4: Release = Release { version: "2026.9.6", node: "24.21.0" };

impl Release {
    /// Its programs, which are installed first where they are not there yet.
    pub fn installed(self) -> Installed {
        installed::install(&self.folder(), self.version, self.node).unwrap()
    }

    fn folder(self) -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("openclaw-{self}"))
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.version)
    }
}

/// An installation of a user: with a home of its own, and a config that names a gateway.
pub struct OpenClaw {
    node: PathBuf,
    script: PathBuf,
    /// What Node makes of its scripts, for all installations.
    cache: PathBuf,
    home: TempDir,
}

impl OpenClaw {
    /// One that uses this gateway as the one of its machine.
    pub async fn of(release: Release, gateway: &Gateway) -> Self {
        let installed = tokio::task::spawn_blocking(move || release.installed()).await.unwrap();
        let home = TempDir::with_prefix("clawgate-test-").unwrap();
        let state = home.path().join(".openclaw");
        fs::create_dir(&state).unwrap();
        let config = json!({
            "gateway": {"mode": "local", "port": gateway.port(),
                "auth": {"mode": "token", "token": SECRET}},
            "update": {"checkOnStart": false},
        });
        fs::write(state.join("openclaw.json"), config.to_string()).unwrap();
        Self {
            cache: release.folder().join("cache"),
            node: installed.node,
            script: installed.script,
            home,
        }
    }

    /// A command of it, which asks nobody for news.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.node);
        command
            .arg(&self.script)
            .args(args)
            .current_dir(self.home.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.path())
            .env("NODE_COMPILE_CACHE", &self.cache)
            .env("NO_COLOR", "1")
            .env("OPENCLAW_NO_AUTO_UPDATE", "1")
            .env("OPENCLAW_DISABLE_BONJOUR", "1")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// What a command prints that has to succeed.
    pub async fn says(&self, args: &[&str]) -> String {
        let ended = timeout(PATIENCE, self.command(args).output()).await;
        let output = ended.unwrap_or_else(|_| panic!("openclaw {args:?} does not end")).unwrap();
        assert!(output.status.success(), "openclaw {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same as JSON.
    pub async fn tells(&self, args: &[&str]) -> Value {
        let said = self.says(args).await;
        let json = &said[said.find(['{', '[']).unwrap_or_default()..];
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{args:?}: {error}: {said}"))
    }

    /// A node of this name on this gateway, for as long as it is kept.
    pub fn into_node(self, gateway: &Gateway, name: &str) -> NodeHost {
        let port = gateway.port().to_string();
        let args = ["node", "run", "--host", "127.0.0.1", "--port", &port, "--display-name", name];
        let mut command = self.command(&args);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        NodeHost { process, _openclaw: self }
    }
}

/// A node that runs, and where it has its identity.
pub struct NodeHost {
    process: Child,
    _openclaw: OpenClaw,
}

impl Drop for NodeHost {
    /// What was started has started itself once more, and ends that when it is asked to end.
    fn drop(&mut self) {
        let id = self.process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let Some(id) = id else { return };
        let _ = kill_process(id, Signal::TERM);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
