//! `clawgate token`: prints the gateway token, because it was asked for.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::output::{note, say};
use super::surroundings::mending;
use crate::config::{self, AuthMode, ConfigError, Env, GatewayMode, Overrides, Settings};

/// Arguments of `clawgate token`; it takes none.
#[derive(Debug, Clone, Args)]
pub struct TokenArgs {}

/// Prints the token that clients of this state directory need; that of the other gateway
/// where this machine is only its client.
pub fn run(_args: &TokenArgs, env: &Env) -> anyhow::Result<ExitCode> {
    // The first look makes no token: where the gateway is elsewhere, it would let nobody in.
    let looking = Overrides { read_only: true, ..Overrides::default() };
    let seen = config::load(env, &looking).ok();
    if let Some(settings) = seen.filter(|it| it.gateway.mode == GatewayMode::Remote) {
        return of_remote(&settings, env);
    }
    let loaded = config::load(env, &Overrides::default());
    let mut settings = loaded.or_else(|error| salvaged(env, error))?;
    if let Some(used) = mending(&settings, env) {
        note("this is what the gateway goes by that waits for its config file to be mended");
        settings = used;
    }
    super::follow_secrets(&mut settings, env)?;
    let auth = &settings.gateway.auth;
    match &auth.token {
        Some(token) if auth.mode == AuthMode::Token => say(&format!("{}\n", token.expose()))?,
        _ => bail!("there is no token: gateway.auth.mode is {}", auth.mode),
    }
    Ok(ExitCode::SUCCESS)
}

fn of_remote(settings: &Settings, env: &Env) -> anyhow::Result<ExitCode> {
    let [token, _] = super::remote_credentials(settings, env)?;
    let Some(token) = token else {
        bail!("there is no token: gateway.mode is remote, and gateway.remote.token is not set");
    };
    say(&format!("{}\n", token.expose()))?;
    Ok(ExitCode::SUCCESS)
}

/// What a gateway goes by that waits for its config file to be mended; the error
/// when none would.
fn salvaged(env: &Env, error: ConfigError) -> Result<Settings, ConfigError> {
    let looking = Overrides { read_only: true, ..Overrides::default() };
    let Some(settings) = config::salvage(env, &looking).filter(|_| !error.is_of_disk()) else {
        return Err(error);
    };
    note(&format!("{error}; this is what a gateway goes by that waits for that to be mended"));
    Ok(settings)
}
