//! `clawgate ui`: puts the Control UI of OpenClaw where the gateway serves it.
//!
//! Promises: the folder is the old one or the new one, never a mix; a running
//! gateway needs no restart; nothing of a package is run. Must not: talk to the
//! gateway.

mod archive;
mod folder;
mod install;
mod npm;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::args::JsonArgs;
use super::banner::reachable;
use super::format::{count, size};
use super::output::say;
use super::surroundings;
use crate::config::{Env, Overrides, Settings};
use crate::handlers::SERVER_VERSION;
use crate::support::json;

/// The file that says what was installed; hidden, so it is not served.
const MARK: &str = ".clawgate.json";
/// The page that has to be there.
const PAGE: &str = "index.html";

/// Arguments of `clawgate ui`.
#[derive(Debug, Clone, Args)]
pub struct UiArgs {
    #[command(subcommand)]
    command: UiCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum UiCommand {
    /// Fetch the Control UI with npm, or take it from a place, and serve it
    Install {
        /// Version of OpenClaw whose UI it is [default: the one that fits this gateway]
        #[arg(long, value_name = "VERSION", value_parser = npm::version, conflicts_with = "from")]
        version: Option<String>,
        /// A package folder, a control-ui folder or an npm package file (.tgz)
        #[arg(long, value_name = "PATH")]
        from: Option<PathBuf>,
        #[command(flatten)]
        json: JsonArgs,
    },
    /// Show what is installed and where it is served
    Status {
        #[command(flatten)]
        json: JsonArgs,
    },
    /// Remove what was installed
    Remove {
        #[command(flatten)]
        json: JsonArgs,
    },
}

/// What was installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mark {
    /// The version of its package, if it was known.
    version: Option<String>,
    /// When, in milliseconds since the epoch.
    installed_at_ms: u64,
}

/// Runs the command.
pub fn run(args: &UiArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let looking = Overrides { read_only: true, ..Overrides::default() };
    let settings = surroundings::settings(env, &looking)?;
    match &args.command {
        UiCommand::Install { version, from, json } => {
            let version = version.as_deref().unwrap_or_else(|| fitting());
            install::run(&settings, version, from.as_deref())?;
            report(&settings, &installed_in(&settings), "Installed", json.json)
        }
        UiCommand::Status { json } => report(&settings, &settings.gateway.ui.root, "", json.json),
        UiCommand::Remove { json } => {
            let was_there = install::remove(&settings)?;
            if json.json {
                say(&format!("{:#}\n", json!({"removed": was_there})))?;
            } else {
                let told = if was_there { "Removed the Control UI" } else { "There was none" };
                say(&format!("{told}: {}\n", installed_in(&settings).display()))?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The version of OpenClaw that this gateway speaks like.
fn fitting() -> &'static str {
    SERVER_VERSION.split('+').next().unwrap_or(SERVER_VERSION)
}

fn installed_in(settings: &Settings) -> PathBuf {
    settings.paths.control_ui_dir()
}

/// The mark of a folder.
fn mark(folder: &Path) -> Option<Mark> {
    serde_json::from_str(&std::fs::read_to_string(folder.join(MARK)).ok()?).ok()
}

/// What is in a folder, and whether it is served.
fn state(settings: &Settings, place: &Path) -> anyhow::Result<Value> {
    let ui = &settings.gateway.ui;
    let is_installed = place.join(PAGE).is_file();
    let (files, bytes) = if is_installed {
        folder::measure(place).context("cannot look at the Control UI")?
    } else {
        (0, 0)
    };
    let mark = mark(place);
    let is_served = is_installed && ui.enabled && place == ui.root;
    Ok(json!({
        "installed": is_installed,
        "version": mark.as_ref().and_then(|mark| mark.version.clone()),
        "installedAtMs": mark.as_ref().map(|mark| mark.installed_at_ms),
        "fits": fitting(),
        "path": place.to_string_lossy(),
        "files": files,
        "bytes": bytes,
        "enabled": ui.enabled,
        "root": ui.root.to_string_lossy(),
        "url": is_served.then(|| address(settings)),
    }))
}

/// Where a browser of this machine finds the page.
fn address(settings: &Settings) -> String {
    let gateway = &settings.gateway;
    let scheme = if gateway.tls.enabled { "https" } else { "http" };
    let (address, _) = reachable(SocketAddr::new(gateway.bind.host(), gateway.port));
    format!("{scheme}://{address}{}/", gateway.ui.base_path)
}

fn report(
    settings: &Settings,
    place: &Path,
    verb: &str,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let state = state(settings, place)?;
    if as_json {
        say(&format!("{state:#}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let ui = &settings.gateway.ui;
    let path = place.display();
    let is_elsewhere = ui.root != installed_in(settings);
    if state["installed"] == false {
        let help = if is_elsewhere {
            "Put one there, or serve the one that clawgate ui install fetches: \
             clawgate config unset gateway.controlUi.root"
        } else {
            "Get it: clawgate ui install"
        };
        say(&format!("There is no Control UI in {path}.\n{help}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let version = state["version"].as_str().unwrap_or("of an unknown version");
    let number = |name: &str| state[name].as_u64().unwrap_or_default();
    let (files, bytes) = (count(number("files")), size(number("bytes")));
    let verb = if verb.is_empty() { String::new() } else { format!("{verb}: ") };
    let mut text = format!("{verb}Control UI {version} in {path} ({files} files, {bytes})\n");
    match state["url"].as_str() {
        Some(url) => text.extend(["The gateway serves it at ", url, "\n"]),
        None if !ui.enabled => {
            text.push_str("It is not served: gateway.controlUi.enabled is false\n");
        }
        None => text.extend([
            "It is not served: the gateway serves ",
            &ui.root.to_string_lossy(),
            ", the folder of gateway.controlUi.root.\n",
            "Serve it: clawgate config unset gateway.controlUi.root\n",
        ]),
    }
    if is_elsewhere && place == ui.root {
        text.push_str("This is the folder of gateway.controlUi.root, not the one that clawgate ui install fills.\n");
    }
    say(&text)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn the_page_is_where_the_gateway_listens() {
        let at = |bind: Value| {
            let mut gateway = json!({"port": 7, "auth": {"token": "0123456789abcdef"}});
            if let (Some(gateway), Value::Object(bind)) = (gateway.as_object_mut(), bind) {
                gateway.extend(bind);
            }
            let text = json!({"gateway": gateway}).to_string();
            let looking = Overrides { read_only: true, ..Overrides::default() };
            address(&config::load_text(&text, &Env::fixed([], "/h"), &looking).unwrap())
        };
        assert_eq!(at(json!({})), "http://127.0.0.1:7/");
        assert_eq!(at(json!({"bind": "lan"})), "http://127.0.0.1:7/");
        let custom = json!({"bind": "custom", "customBindHost": "192.0.2.7"});
        assert_eq!(at(custom), "http://192.0.2.7:7/");
    }
}
