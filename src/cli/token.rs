//! `clawgate token`: prints the gateway token, because it was asked for.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::output::say;
use crate::config::{self, AuthMode, Env, Overrides};

/// Arguments of `clawgate token`; it takes none.
#[derive(Debug, Clone, Args)]
pub struct TokenArgs {}

/// Prints the token that clients of this state directory need.
pub fn run(_args: &TokenArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let mut settings = config::load(env, &Overrides::default())?;
    super::follow_secrets(&mut settings, env)?;
    let auth = &settings.gateway.auth;
    match &auth.token {
        Some(token) if auth.mode == AuthMode::Token => say(&format!("{}\n", token.expose()))?,
        _ => bail!("there is no token: gateway.auth.mode is {}", auth.mode),
    }
    Ok(ExitCode::SUCCESS)
}
