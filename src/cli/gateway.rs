//! `clawgate gateway`: runs the gateway, and what else can be done with one.

use std::fs;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use tokio::runtime::{Builder, Runtime};

use super::service::{self, ServiceCommand};
use super::{CallArgs, HealthArgs, Screen, Surroundings, banner, block_on, one_thread, output};
use crate::app::{self, AppError, Ended, Ready, Signals, Sockets, Start};
use crate::config::document::ConfigIssue;
use crate::config::{AuthMode, BindChoice, Env, GatewayMode, LogLevel, Overrides};
use crate::registry::ConfigState;
use crate::sessions::SessionError;
use crate::store::atomic::create_private_dir;
use crate::store::instance::{InstanceLock, Running};
use crate::support::{Secret, blocking, trouble};
use crate::telemetry::{self, LogOptions, filter_for_level};

/// How long work that cannot be stopped may go on when the gateway restarts or ends.
const LEFT_MAX: Duration = Duration::from_secs(5);
/// Turns of tasks between two looks at the sockets by a thread that always has something
/// to do. With tokio's 61, each of which may begin a run, who asks for little waits long.
const TASKS_BETWEEN_LOOKS: u32 = 8;

/// Flags of the gateway.
#[derive(Debug, Clone, Default, Args)]
#[allow(clippy::struct_excessive_bools)] // each is a flag
pub struct GatewayArgs {
    /// What the flags decide over the environment and the config file.
    #[command(flatten)]
    pub overrides: OverrideArgs,
    /// Start even when gateway.mode in the config says that the gateway is
    /// another machine
    #[arg(long)]
    pub allow_unconfigured: bool,
    /// Exit when the config file cannot be used, instead of waiting on this
    /// machine for it to be mended
    #[arg(long)]
    pub strict: bool,
    /// Stop the gateway that runs on this state directory first, if one does
    #[arg(long)]
    pub force: bool,
    /// OpenClaw writes frames into its log so.
    #[arg(long, hide = true, value_name = "STYLE")]
    pub ws_log: Option<String>,
    /// The same.
    #[arg(long, hide = true)]
    pub compact: bool,
    /// Log details
    #[arg(long)]
    pub verbose: bool,
}

/// The command `gateway`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct GatewayCommand {
    /// What to do with it; without that it is run.
    #[command(subcommand)]
    pub command: Option<GatewaySubcommand>,
    /// How the gateway runs.
    #[command(flatten)]
    pub args: GatewayArgs,
}

/// What can be done with a gateway.
#[derive(Debug, Subcommand)]
pub enum GatewaySubcommand {
    /// Run it in this terminal (the default)
    Run(Box<GatewayArgs>),
    /// What is done with the service, and with a gateway that runs.
    #[command(flatten)]
    Service(ServiceCommand),
    /// Call any method of it, as `clawgate call` does
    Call(CallArgs),
    /// Ask whether it is well, as `clawgate health` does
    Health(HealthArgs),
}

/// Flags that beat the environment and the config file.
#[derive(Debug, Clone, Default, Args)]
pub struct OverrideArgs {
    /// Port to listen on; 0 takes any free one [default: 18789]
    #[arg(long)]
    pub port: Option<u16>,
    /// Address to listen on: loopback, lan, tailnet, auto, custom
    /// (gateway.customBindHost) or an IP address [default: loopback]
    #[arg(long, value_name = "MODE")]
    pub bind: Option<BindChoice>,
    /// How clients prove themselves: token, password, none or trusted-proxy
    /// [default: token, or password when there is one]
    #[arg(long, value_name = "MODE")]
    pub auth: Option<AuthMode>,
    /// Gateway token; other users of this machine can see it, prefer
    /// `OPENCLAW_GATEWAY_TOKEN`
    #[arg(long, value_parser = secret)]
    pub token: Option<Secret>,
    /// Gateway password; other users of this machine can see it, prefer
    /// `OPENCLAW_GATEWAY_PASSWORD`
    #[arg(long, value_parser = secret)]
    pub password: Option<Secret>,
    /// File with the gateway password
    #[arg(long, value_name = "FILE", value_parser = secret_in, conflicts_with = "password")]
    pub password_file: Option<Secret>,
}

impl OverrideArgs {
    /// The same for [`config::load`].
    pub fn to_overrides(&self) -> Overrides {
        Overrides {
            port: self.port,
            bind: self.bind,
            auth: self.auth,
            token: self.token.clone(),
            password: self.password.clone().or_else(|| self.password_file.clone()),
            read_only: false,
        }
    }
}

fn secret(text: &str) -> Result<Secret, String> {
    let secret = Secret::new(text);
    if secret.is_empty() { Err("must not be empty".into()) } else { Ok(secret) }
}

/// The secret that is all of a file.
fn secret_in(path: &str) -> Result<Secret, String> {
    secret(&fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?)
}

/// Runs the gateway until it is told to stop.
pub fn run(args: &GatewayArgs, env: &Env) -> anyhow::Result<ExitCode> {
    telemetry::init(&log_options(args.verbose, env))?;
    let start = Start::load_or_mend(env, &args.overrides.to_overrides(), args.strict)?;
    let settings = &start.settings;
    if settings.gateway.mode == GatewayMode::Remote && !args.allow_unconfigured {
        bail!(
            "gateway.mode is remote in {}: this config belongs to a client of another gateway; \
             set it to local, or pass --allow-unconfigured",
            settings.file.path.display()
        );
    }
    create_private_dir(&settings.paths.state_dir)?;
    if args.force {
        let mut screen = Screen::stdio(true);
        let around = Surroundings::find(env.clone(), &mut screen);
        block_on(&one_thread()?, service::make_way(&around, &mut screen))?;
    }
    let mut lock = InstanceLock::acquire(&settings.paths.instance_lock())?;
    let ended = run_again_and_again(start, env, &mut lock, args.strict);
    telemetry::flush_at_end();
    lock.end_with_process();
    ended.map(|()| ExitCode::SUCCESS)
}

/// Runs the gateway, each time with the configuration as it is then, until it is
/// told to stop.
fn run_again_and_again(
    start: Start,
    env: &Env,
    lock: &mut InstanceLock,
    is_strict: bool,
) -> anyhow::Result<()> {
    let mut runtime = threads()?;
    let (sockets, signals) = (Sockets::default(), block_on(&runtime, async { Signals::new() })?);
    let mut rounds = Rounds { start, before: None, env, lock, sockets, signals, is_strict };
    loop {
        telemetry::configure(&rounds.start.settings.logging);
        let after = block_on(&runtime, rounds.next());
        // Files and database are closed before they are opened again.
        let is_hurried = matches!(after, Ok(After::EndAtOnce));
        let longest = if is_hurried { Duration::ZERO } else { LEFT_MAX };
        let is_stopped = let_go(runtime, longest, &mut rounds.signals);
        if !matches!(after?, After::Again) || is_stopped {
            return Ok(());
        }
        runtime = threads()?;
    }
}

/// Waits for the end of what still runs there; what a disk holds up is left behind after
/// `longest`, or at the next signal to stop. Whether there was one.
fn let_go(runtime: Runtime, longest: Duration, signals: &mut Signals) -> bool {
    let Ok(meanwhile) = Builder::new_current_thread().enable_all().build() else {
        runtime.shutdown_timeout(longest);
        return false;
    };
    let is_stopped = block_on(&meanwhile, async {
        let end = blocking(move || runtime.shutdown_timeout(longest));
        tokio::select! {
            _ = end => false,
            () = signals.stop() => true,
        }
    });
    meanwhile.shutdown_background();
    if is_stopped {
        tracing::warn!("stopped at once");
    }
    is_stopped
}

fn threads() -> anyhow::Result<Runtime> {
    let mut threads = Builder::new_multi_thread();
    let threads = threads.enable_all().event_interval(TASKS_BETWEEN_LOOKS);
    threads.build().context("cannot start the threads of the gateway")
}

/// What comes after a gateway.
enum After {
    /// The next one, in the same process.
    Again,
    /// Nothing.
    End,
    /// Nothing, and at once.
    EndAtOnce,
}

/// Gateways, one after the other.
struct Rounds<'a> {
    /// What the next one begins with.
    start: Start,
    /// What is gone back to, until it is ready itself: what the one before it ran with.
    before: Option<Start>,
    env: &'a Env,
    lock: &'a mut InstanceLock,
    sockets: Sockets,
    signals: Signals,
    is_strict: bool,
}

impl Rounds<'_> {
    /// Runs one from its beginning to its end.
    async fn next(&mut self) -> anyhow::Result<After> {
        if let Some(repair) = &self.start.repair {
            tracing::error!("{repair}");
        }
        let Self { start, before, env, lock, sockets, signals, .. } = self;
        let on_ready = |start: &Start, ready: &Ready| {
            *before = None;
            announce(start, ready, lock);
        };
        let ended = Box::pin(app::run(start, env, sockets, signals, on_ready)).await;
        match ended {
            Ok(Ended::Restarts) => Ok(self.go_over()),
            Ok(Ended::Stopped) => Ok(After::End),
            Ok(Ended::StoppedAtOnce) => Ok(After::EndAtOnce),
            Err(error) => {
                self.start = self.instead(error)?;
                Ok(After::Again)
            }
        }
    }

    /// The next one has the configuration with which it begins again.
    fn go_over(&mut self) -> After {
        self.signals.take_restart();
        trouble::tell("config", None);
        if let Some(next) = self.start.take_next() {
            self.before = Some(std::mem::replace(&mut self.start, next));
        }
        After::Again
    }

    /// What is begun with after a gateway that could not begin, or not go on: what ran
    /// before it, or what helps to mend the config file.
    fn instead(&mut self, error: AppError) -> anyhow::Result<Start> {
        if let Some(before) = self.before.take() {
            let issue = error.issue();
            tell(&issue);
            return Ok(before.once_more(issue));
        }
        let issue = error.of_config().filter(|_| !self.is_strict && self.start.repair.is_none());
        let mending = issue.and_then(|issue| Start::mend(self.env, &self.start.overrides, issue));
        mending.ok_or_else(|| told(error))
    }
}

/// Tells people and the commands of this machine that a gateway listens.
fn announce(start: &Start, ready: &Ready, lock: &mut InstanceLock) {
    let address = banner::reachable(ready.address).0;
    let running = Running {
        address,
        is_tls: ready.tls.is_some(),
        fingerprint: ready.tls,
        mends: start.repair.is_some(),
    };
    if let Err(error) = lock.publish(running) {
        tracing::warn!(%error, "clients on this machine have to be told the address");
    }
    let text = match &start.repair {
        Some(repair) => banner::repair_text(repair, ready),
        None => banner::start_text(&start.settings, ready),
    };
    if let Err(error) = output::say(&text) {
        tracing::warn!(%error, "cannot print the start-up text");
    }
}

/// Why nothing is begun with, and what to do about it where that is the database. Its text has
/// the reason.
fn told(error: AppError) -> anyhow::Error {
    let (AppError::Store(store) | AppError::Sessions(SessionError::Store(store))) = &error else {
        return error.into();
    };
    let text = store.to_string();
    let help = store.help().unwrap_or("`clawgate doctor` says what to do");
    anyhow::Error::msg(if text.contains(help) { text } else { format!("{text}; {help}") })
}

/// Says why the configuration is not in use.
fn tell(issue: &ConfigIssue) {
    let said = ConfigState { trouble: Some(issue.clone()) }.said();
    let said = said.map(|said| telemetry::without_secrets(&said).into_owned());
    let (path, why) = (&issue.path, &issue.message);
    tracing::error!(path, why, "going on with the config as it was");
    trouble::tell("config", said);
}

/// `RUST_LOG`, which can say most, then `OPENCLAW_LOG_LEVEL`, then the config
/// file; `--verbose` goes before them on the console.
fn log_options(verbose: bool, env: &Env) -> LogOptions {
    let said = env.get("RUST_LOG").or_else(|| level_asked_for(env));
    LogOptions {
        console: if verbose { Some(filter_for_level("debug")) } else { said.clone() },
        file: said,
        json: env.get("OPENCLAW_LOG_FORMAT").is_some_and(|format| format == "json"),
        colour: std::io::stderr().is_terminal() && env.get("NO_COLOR").is_none(),
    }
}

/// What `OPENCLAW_LOG_LEVEL` asks for. A word that is no level is told of and changes nothing, as
/// in OpenClaw: as a filter it would be the name of a part, and all others would be silent.
fn level_asked_for(env: &Env) -> Option<String> {
    let word = env.get("OPENCLAW_LOG_LEVEL")?;
    let level = LogLevel::parse(&word);
    if level.is_none() {
        output::note(&format!(
            "OPENCLAW_LOG_LEVEL is no level and has no effect: {word:?} (allowed: silent, fatal, \
             error, warn, info, debug, trace)"
        ));
    }
    level.map(|level| filter_for_level(level.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_level_follows_flag_then_rust_log_then_openclaws_variable() {
        let filters = |verbose, env: &Env| {
            let options = log_options(verbose, env);
            (options.console, options.file)
        };
        let words = |console: &str, file: &str| (Some(console.to_owned()), Some(file.to_owned()));
        let both = Env::fixed([("RUST_LOG", "warn"), ("OPENCLAW_LOG_LEVEL", "error")], "/h");
        let one = Env::fixed([("OPENCLAW_LOG_LEVEL", "error")], "/h");
        assert_eq!(filters(true, &both), words(&filter_for_level("debug"), "warn"));
        assert_eq!(filters(false, &both), words("warn", "warn"));
        let error = filter_for_level("error");
        assert_eq!(filters(false, &one), words(&error, &error));
        assert_eq!(filters(false, &Env::fixed([], "/h")), (None, None));
        let no_level = Env::fixed([("OPENCLAW_LOG_LEVEL", "loud")], "/h");
        assert_eq!(filters(false, &no_level), (None, None));
        let capitals = Env::fixed([("OPENCLAW_LOG_LEVEL", "ERROR")], "/h");
        assert_eq!(filters(false, &capitals), words(&error, &error));
        let json = Env::fixed([("OPENCLAW_LOG_FORMAT", "json")], "/h");
        assert!(log_options(false, &json).json);
    }
}
