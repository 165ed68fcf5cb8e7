//! `clawgate completion`: what lets a shell complete commands and flags.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;
use super::output::say;
use crate::config::Env;

/// Arguments of `clawgate completion`.
#[derive(Debug, Clone, Args)]
pub struct CompletionArgs {
    /// Shell that is meant [default: that of SHELL]
    #[arg(value_enum, value_name = "SHELL")]
    shell: Option<Shell>,
    /// The same as a flag
    #[arg(short = 's', long = "shell", value_enum, value_name = "SHELL", conflicts_with = "shell")]
    named: Option<Shell>,
}

/// Prints a script that the shell reads when it starts.
pub fn run(args: &CompletionArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let own = || env.get("SHELL").and_then(Shell::from_shell_path);
    let shell = args.shell.or(args.named).or_else(own).context(
        "SHELL names no shell that this can be made for; name one: clawgate completion bash",
    )?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "clawgate", &mut script);
    say(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
