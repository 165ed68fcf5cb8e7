//! Starting the gateway, or the original, on a state directory.

use std::env;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::json;
use tempfile::TempDir;

use super::client::SECRET;
use super::original::{self, Original};
use super::server::{Server, free_port};
use super::stats::float;

/// Builds the program as its users do, in the place of the one that came with the
/// benchmark: that has what tests switch on in the crates that both have.
pub fn build() -> anyhow::Result<()> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    // What is said of this package while it runs: some crates are built anew where it is there.
    for (name, _) in env::vars_os() {
        let is_of_package =
            |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|it| name.starts_with(it));
        if name.to_str().is_some_and(is_of_package) {
            cargo.env_remove(&name);
        }
    }
    let built = cargo.args(["build", "--locked", "--release", "--bin", "clawgate"]).status();
    ensure!(built.context("cargo does not start")?.success(), "the program cannot be built");
    Ok(())
}

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_clawgate");

/// How large it is, in MB (a million bytes).
pub fn size() -> anyhow::Result<f64> {
    Ok(float(fs::metadata(PROGRAM)?.len().try_into()?) / 1e6)
}

/// A home with a state directory and a configuration.
pub struct Home {
    folder: TempDir,
    /// Whose home it is, where it is not the gateway's.
    original: Option<Original>,
}

impl Home {
    /// A fresh one; its model is served by `provider`.
    pub fn new(provider: SocketAddr, original: Option<&Original>) -> anyhow::Result<Self> {
        let folder = TempDir::with_prefix("clawgate-bench-")?;
        let home = Self { folder, original: original.cloned() };
        fs::create_dir_all(home.state())?;
        let mut config = json!({
            "gateway": {"mode": "local", "bind": "loopback", "auth": {"mode": "token", "token": SECRET}},
            "agents": {
                "defaults": {
                    "model": {"primary": "bench/stream"},
                    "maxConcurrent": 64,
                },
                "list": [{"id": "main"}],
            },
            "models": {
                "mode": "replace",
                "providers": {"bench": {
                    "baseUrl": format!("http://{provider}/v1"),
                    "apiKey": "bench-key",
                    "api": "openai-completions",
                    "models": [{
                        "id": "stream", "name": "Stream", "reasoning": false, "input": ["text"],
                        "cost": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0.2},
                        "contextWindow": 200_000, "maxTokens": 8192,
                    }],
                }},
            },
        });
        if home.original.is_some() {
            original::adapt(&mut config, home.path());
        }
        fs::write(home.state().join("openclaw.json"), config.to_string())?;
        Ok(home)
    }

    /// The state directory.
    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// Whether it is the original's, which finds sessions by its own index.
    pub fn is_original(&self) -> bool {
        self.original.is_some()
    }

    /// Removes the database, so that the next start knows only files.
    pub fn forget_index(&self) -> anyhow::Result<()> {
        for name in ["clawgate.sqlite", "clawgate.sqlite-wal", "clawgate.sqlite-shm"] {
            match fs::remove_file(self.state().join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a gateway here. Its log goes to a file, as it would with a
    /// supervisor, and is shown when the start fails.
    pub async fn start(&self) -> anyhow::Result<Server> {
        self.start_as(self.command()).await
    }

    /// The same, where it is not started by its name alone.
    pub async fn start_as(&self, mut command: Command) -> anyhow::Result<Server> {
        let port = free_port()?;
        let log = self.path().join("log");
        command
            .args(["gateway", "--port", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        let started = Server::start(command, port).await;
        started.with_context(|| fs::read_to_string(&log).unwrap_or_default())
    }

    /// The program, on this state.
    pub fn command(&self) -> Command {
        if let Some(original) = &self.original {
            return original.command(self.path(), &self.state());
        }
        self.on_this_state(Command::new(PROGRAM))
    }

    /// A command that has this state, and no other variables than that takes.
    pub fn on_this_state(&self, mut command: Command) -> Command {
        command
            .env_clear()
            .env("HOME", self.path())
            .env("OPENCLAW_STATE_DIR", self.state())
            .stdin(Stdio::null());
        command
    }
}
