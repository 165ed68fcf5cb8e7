//! `clawgate sessions`: the sessions of this machine's gateway.
//!
//! Promises: only reads them, beside a running gateway or without one.

mod export;
mod files;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::config::Env;

/// Arguments of `clawgate sessions`.
#[derive(Debug, Clone, Args)]
pub struct SessionsArgs {
    #[command(subcommand)]
    command: SessionsCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum SessionsCommand {
    /// Write sessions down in the format of Claude Code or in one of our own
    Export(export::ExportArgs),
}

/// Runs one of them.
pub fn run(args: &SessionsArgs, env: &Env) -> anyhow::Result<ExitCode> {
    match &args.command {
        SessionsCommand::Export(args) => export::run(args, env),
    }
}
