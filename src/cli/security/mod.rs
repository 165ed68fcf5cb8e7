//! `clawgate security audit`: what the configuration opens, and to whom.
//!
//! Owns: which settings are looked at. Promises: nothing is changed without
//! `--fix`, and with it only permissions; no secret is shown. Must not: judge a
//! configuration that is not valid.

mod exposure;
mod secrets;
mod tools;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::args::JsonArgs;
use super::doctor::{Finding, Report, check_files, check_hooks, check_restrictions, tell, tls_key};
use crate::config::{self, Env, Overrides, Settings};

/// Arguments of `clawgate security`.
#[derive(Debug, Clone, Args)]
pub struct SecurityArgs {
    #[command(subcommand)]
    command: SecurityCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum SecurityCommand {
    /// Tell what the configuration and the files open to others
    #[command(
        after_help = "Exit codes: 0 nothing to do, 1 something critical (or the configuration is \
        not valid), 2 something should be better (also: wrong arguments)."
    )]
    Audit {
        /// Close files that are open to other users
        #[arg(long)]
        fix: bool,
        /// With it OpenClaw asks a running gateway, which nothing here depends on.
        #[arg(long, hide = true)]
        deep: bool,
        #[command(flatten)]
        json: JsonArgs,
    },
}

/// Audits.
pub fn run(args: &SecurityArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let SecurityCommand::Audit { fix, json, .. } = args.command;
    let mut settings = config::load(env, &Overrides { read_only: true, ..Overrides::default() })?;
    super::follow_secrets(&mut settings, env)?;
    super::follow_hooks(&mut settings, env)?;
    let mut findings = audit(&settings);
    findings.extend(check_files(&settings.paths));
    findings.extend(tls_key(&settings));
    tell(Report::new(findings), fix, json.json)
}

/// What the settings themselves open.
fn audit(settings: &Settings) -> Vec<Finding> {
    let mut findings = exposure::check(settings);
    findings.extend(secrets::check(settings));
    findings.extend(tools::check(settings));
    findings.extend(check_restrictions(settings));
    findings.extend(check_hooks(&settings.hooks));
    findings
}

#[cfg(test)]
mod tests;
