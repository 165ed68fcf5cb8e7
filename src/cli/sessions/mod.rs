//! `clawgate sessions`: the sessions of a gateway.
//!
//! Promises: only reads them. An export is one of this machine's gateway, beside it or
//! without one.

mod export;
mod files;
mod list;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::config::Env;

/// Arguments of `clawgate sessions`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SessionsArgs {
    #[command(subcommand)]
    command: Option<SessionsCommand>,
    #[command(flatten)]
    list: list::ListArgs,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// List sessions, the last used first (the default)
    List(list::ListArgs),
    /// Write sessions down in the format of Claude Code or in one of our own
    Export(export::ExportArgs),
}

/// Runs one of them.
pub fn run(args: SessionsArgs, env: Env) -> anyhow::Result<ExitCode> {
    let list = match args.command {
        Some(SessionsCommand::Export(args)) => return export::run(&args, &env),
        Some(SessionsCommand::List(list)) => list,
        None => args.list,
    };
    super::client(env, list, async |list, around, screen| list::run(&list, around, screen).await)
}
