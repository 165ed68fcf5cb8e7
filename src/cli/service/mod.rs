//! `clawgate gateway status|start|stop|restart|install|uninstall`.
//!
//! Owns: the gateway as a service of this user, under systemd or launchd, and the one
//! that somebody has started by hand. Promises: only the gateway of this state directory
//! is touched; nothing secret is written into a service. Must not: know what a gateway
//! does.

mod definition;
mod error;
mod holder;
mod install;
mod lifecycle;
mod manager;
mod place;
mod status;

use clap::Subcommand;
use serde_json::{Map, Value};

use crate::config::Env;
use crate::support::json;

use self::error::ServiceError;
use self::place::{Installed, Place};
use super::args::JsonArgs;
use super::{CliError, Screen, Surroundings, format};

pub use install::{InstallArgs, install};
pub use lifecycle::make_way;
pub use status::StatusArgs;

/// What can be done with the service, and with the gateway that runs.
#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Show whether the service is installed, and the gateway runs and answers
    Status(StatusArgs),
    /// Start the service
    Start(JsonArgs),
    /// Stop the gateway, and the service until it is started again
    Stop(JsonArgs),
    /// Have the gateway begin again, with the configuration as it is then
    Restart(JsonArgs),
    /// Have the gateway run as a service of this user (systemd or launchd)
    Install(InstallArgs),
    /// Stop and remove that service; the state stays
    Uninstall(JsonArgs),
}

/// What became of it.
pub struct Done {
    /// In a word, for programs.
    result: &'static str,
    /// For people, in lines.
    text: String,
    /// More for programs.
    more: Map<String, Value>,
}

impl Done {
    fn new(result: &'static str, text: String) -> Self {
        Self { result, text, more: Map::new() }
    }
}

/// Where the service of this state directory looks for programs, if there is one that says so.
pub fn search_path(env: &Env) -> Option<String> {
    let place = Place::of(env).ok()?;
    match place.installed() {
        Ok(Installed::Yes(definition)) => place.search_path(&definition),
        _ => None,
    }
}

/// Runs one of them.
pub async fn run(
    command: ServiceCommand,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let (action, as_json, done) = match command {
        ServiceCommand::Status(args) => return status::run(&args, around, screen).await,
        ServiceCommand::Start(args) => ("start", args.json, lifecycle::start(around)),
        ServiceCommand::Stop(args) => ("stop", args.json, lifecycle::stop(around, screen).await),
        ServiceCommand::Restart(args) => {
            ("restart", args.json, lifecycle::restart(around, screen).await)
        }
        ServiceCommand::Install(args) => {
            let done = install(&around.env, &args).map(Done::from);
            ("install", args.json, done)
        }
        ServiceCommand::Uninstall(args) => {
            ("uninstall", args.json, install::uninstall(&around.env))
        }
    };
    match done {
        Ok(done) if as_json => {
            let mut told = json!({"ok": true, "action": action, "result": done.result,
                "message": done.text.trim_end()});
            if let Some(told) = told.as_object_mut() {
                told.extend(done.more);
            }
            screen.line(&format::compact(&told))?;
            Ok(0)
        }
        Ok(done) => {
            screen.text(&done.text)?;
            Ok(0)
        }
        Err(error) => {
            let text = error.to_string();
            if as_json {
                let told = json!({"ok": false, "action": action, "error": text});
                screen.line(&format::compact(&told))?;
            }
            screen.error(&text)?;
            Ok(1)
        }
    }
}
