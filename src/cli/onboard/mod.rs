//! `clawgate onboard` and `clawgate configure`: the questions of [`crate::wizard`] on a terminal, or
//! answered by flags.
//!
//! Owns: the flags, the terminal, what is printed. Promises: works without a
//! gateway and beside one that runs; Ctrl-C leaves the configuration as it was;
//! no key is shown.

mod flags;
mod ignored;
pub(super) mod keys;
mod prefilled;
mod provider_keys;
mod terminal;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::checked::would_work;
use super::output::{note, say};
use super::service::{self, InstallArgs};
use super::{block_on, one_thread};
use crate::config::{self, Env, Overrides};
use crate::support::{SystemClock, json};
use crate::wizard::{self, FileWriter, Mode, Outcome, Section, Setup, Stopped, next_steps};

pub use flags::OnboardArgs;

/// What a shell reports for Ctrl-C.
pub(super) const INTERRUPTED: u8 = 130;

/// Arguments of `clawgate configure`.
#[derive(Debug, Clone, Args)]
pub struct ConfigureArgs {
    /// Only this part; may be given several times
    #[arg(long, value_name = "PART")]
    section: Vec<Part>,
    #[command(flatten)]
    answers: OnboardArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Model,
    Channels,
    Workspace,
    Gateway,
}

impl From<Part> for Section {
    fn from(part: Part) -> Self {
        match part {
            Part::Model => Self::Model,
            Part::Channels => Self::Channels,
            Part::Workspace => Self::Workspace,
            Part::Gateway => Self::Gateway,
        }
    }
}

/// Asks everything and writes it.
pub fn run(args: &OnboardArgs, env: &Env) -> anyhow::Result<ExitCode> {
    if args.non_interactive && !args.accept_risk {
        bail!(
            "an agent can run commands on this machine; read docs/security.md, then give \
             --accept-risk"
        );
    }
    walk(args, None, "onboard", env)
}

/// Asks about parts and writes that.
pub fn configure(args: &ConfigureArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let sections: Vec<_> = args.section.iter().copied().map(Section::from).collect();
    let (answers, is_remote) = (&args.answers, args.answers.mode() == Some(Mode::Remote));
    if sections.is_empty() && answers.non_interactive && !is_remote {
        bail!("say what to change with --section: model, channels, workspace, gateway");
    }
    walk(answers, Some(sections), "configure", env)
}

fn walk(
    args: &OnboardArgs,
    sections: Option<Vec<Section>>,
    command: &'static str,
    env: &Env,
) -> anyhow::Result<ExitCode> {
    let has_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !args.non_interactive && !has_terminal {
        bail!("there is no terminal to ask on; give --non-interactive and flags, see --help");
    }
    let looking = Overrides { read_only: true, ..Overrides::default() };
    // Told before the flags are looked at: what they miss may stand in the files.
    let loaded = match config::load(env, &looking) {
        Ok(loaded) => loaded,
        Err(error) => return Ok(complain(&wizard::unusable(&error))),
    };
    let written = &loaded.gateway.remote.url;
    let is_remote = args.mode() == Some(Mode::Remote);
    if args.non_interactive && is_remote && !args.has_remote_url() && written.is_none() {
        bail!("Missing --remote-url for remote mode.");
    }
    let around = loaded.environment(env);
    let answers = flags::answers(args, &around)?;
    let has_colour = env.get("NO_COLOR").is_none();
    let terminal = (!args.non_interactive).then(|| terminal::Terminal::new(has_colour));
    let mut asker = prefilled::Prefilled::new(answers, terminal, around);
    let setup = Setup {
        sections,
        env: env.clone(),
        clock: Arc::new(SystemClock),
        writer: Box::new(FileWriter::new(env, would_work(env))),
        mode: args.mode(),
        workspace: args.workspace.clone(),
        skips_check: args.skip_check,
        command,
    };
    let runtime = one_thread()?;
    let outcome = block_on(&runtime, wizard::run(&mut asker, setup));
    runtime.shutdown_background();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(stopped) => return Ok(complain(&stopped)),
    };
    let unused = asker.unused().join(", ");
    let unused =
        (!unused.is_empty()).then(|| format!("not used, as nothing asked for it: {unused}"));
    let daemon = args.install_daemon.then(|| daemon(outcome.mode, env));
    if args.json {
        say(&format!("{:#}\n", report(&outcome, daemon.as_ref(), unused.as_deref())))?;
    } else if args.non_interactive {
        say(&told(&outcome))?;
    }
    if let Some(Ok(text) | Err(text)) = &daemon {
        note(text);
    }
    if let Some(text) = &unused {
        note(text);
    }
    Ok(ExitCode::SUCCESS)
}

/// Installs the service, or says why there is none: what was set up is good all the same.
fn daemon(mode: Mode, env: &Env) -> Result<String, String> {
    if mode == Mode::Remote {
        return Err("no service was installed: the gateway is elsewhere".to_owned());
    }
    match service::install(env, &InstallArgs::default()) {
        Ok(installed) => Ok(installed.text().to_owned()),
        Err(error) => Err(format!("no service was installed: {error}")),
    }
}

fn complain(stopped: &Stopped) -> ExitCode {
    // A failure here has nobody left to be told.
    let mut err = io::stderr().lock();
    match stopped {
        Stopped::Cancelled(why) if why == "cancelled" => {
            let _ = writeln!(err, "cancelled; nothing was written");
            ExitCode::from(INTERRUPTED)
        }
        other => {
            let _ = writeln!(err, "error: {other}");
            ExitCode::FAILURE
        }
    }
}

/// For programs.
fn report(
    outcome: &Outcome,
    daemon: Option<&Result<String, String>>,
    unused: Option<&str>,
) -> Value {
    let next: Vec<_> = next_steps(outcome).into_iter().map(|(command, _)| command).collect();
    let of_daemon = daemon.map(|(Ok(text) | Err(text))| text.as_str());
    let notes: Vec<_> = of_daemon.into_iter().chain(unused).collect();
    json!({
        "ok": true,
        "mode": outcome.mode.as_str(),
        "configPath": outcome.config,
        "changed": outcome.changed,
        "requiresRestart": outcome.needs_restart,
        "model": outcome.model,
        "channels": outcome.channels,
        "workspace": outcome.workspace,
        "gateway": {
            "host": outcome.address.ip().to_string(),
            "port": outcome.address.port(),
            "authMode": outcome.auth,
            "url": outcome.url(),
        },
        "next": next,
        "daemon": {"requested": daemon.is_some(), "installed": daemon.is_some_and(Result::is_ok)},
        "notes": notes,
    })
}

/// For people who gave flags.
fn told(outcome: &Outcome) -> String {
    let changed = if outcome.changed { "is written" } else { "is as it was" };
    let model = outcome.model.as_deref().unwrap_or("none");
    let mut text = format!("{} {changed}; model: {model}\n", outcome.config.display());
    if outcome.needs_restart {
        text.push_str("a gateway that runs uses all of it after a restart\n");
    }
    for (command, why) in next_steps(outcome) {
        text.push_str(&["next: ", &command, "  (", why, ")\n"].concat());
    }
    text
}
