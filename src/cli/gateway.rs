//! `clawgate gateway`: runs the gateway.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;

use super::{banner, output};
use crate::app::{self, Ended, Ready, Sockets, Start};
use crate::config::{AuthMode, BindChoice, Env, GatewayMode, Overrides};
use crate::store::atomic::create_private_dir;
use crate::store::instance::{InstanceLock, Running};
use crate::support::{Secret, trouble};
use crate::telemetry::{self, LogOptions, filter_for_level};

/// How long work that cannot be stopped may go on when the gateway restarts.
const LEFT_MAX: Duration = Duration::from_secs(5);
/// Turns of tasks between two looks at the sockets by a thread that always has something
/// to do. With tokio's 61, each of which may begin a run, who asks for little waits long.
const TASKS_BETWEEN_LOOKS: u32 = 8;

/// Flags of the gateway.
#[derive(Debug, Clone, Default, Args)]
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
    /// Log details
    #[arg(long)]
    pub verbose: bool,
}

/// The command `gateway`.
#[derive(Debug, Clone, Default, Args)]
pub struct GatewayCommand {
    /// How the gateway runs.
    #[command(flatten)]
    pub args: GatewayArgs,
    /// `openclaw gateway run` says the same with a word more.
    #[arg(hide = true, value_parser = ["run"])]
    run: Option<String>,
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
}

impl OverrideArgs {
    /// The same for [`config::load`].
    pub fn to_overrides(&self) -> Overrides {
        Overrides {
            port: self.port,
            bind: self.bind,
            auth: self.auth,
            token: self.token.clone(),
            password: self.password.clone(),
            read_only: false,
        }
    }
}

fn secret(text: &str) -> Result<Secret, String> {
    let secret = Secret::new(text);
    if secret.is_empty() { Err("must not be empty".into()) } else { Ok(secret) }
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
    let lock = InstanceLock::acquire(&settings.paths.instance_lock())?;
    let ended = run_again_and_again(start, env, lock, args.strict);
    telemetry::flush_at_end();
    ended.map(|()| ExitCode::SUCCESS)
}

/// Runs the gateway, each time with the configuration as it is then, until it is
/// told to stop.
fn run_again_and_again(
    mut start: Start,
    env: &Env,
    mut lock: InstanceLock,
    is_strict: bool,
) -> anyhow::Result<()> {
    let mut sockets = Sockets::default();
    loop {
        telemetry::configure(&start.settings.logging);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .event_interval(TASKS_BETWEEN_LOOKS)
            .build()
            .context("cannot start the threads of the gateway")?;
        let on_ready = |start: &Start, ready: &Ready| {
            let address = banner::reachable(ready.address).0;
            if let Err(error) = lock.publish(Running { address, is_tls: ready.tls.is_some() }) {
                tracing::warn!(%error, "clients on this machine have to be told the address");
            }
            let text = match &start.repair {
                Some(repair) => banner::repair_text(repair, ready),
                None => banner::start_text(&start.settings, ready),
            };
            if let Err(error) = output::say(&text) {
                tracing::warn!(%error, "cannot print the start-up text");
            }
        };
        if let Some(repair) = &start.repair {
            tracing::error!("{repair}");
        }
        let ended = match runtime.block_on(app::run(&mut start, env, &mut sockets, on_ready)) {
            Ok(ended) => ended,
            Err(error) => {
                let issue = error.of_config().filter(|_| !is_strict && start.repair.is_none());
                let mending = issue.and_then(|issue| Start::mend(env, &start.overrides, issue));
                start = mending.ok_or(error)?;
                continue;
            }
        };
        if ended == Ended::Stopped {
            return Ok(());
        }
        start = runtime.block_on(again(start, env));
        // Files and database are closed before they are opened again.
        runtime.shutdown_timeout(LEFT_MAX);
    }
}

/// The configuration as it is now; the one before, where no gateway would start
/// with it.
async fn again(before: Start, env: &Env) -> Start {
    let now = async {
        let start = Start::load(env, &before.overrides)?;
        if start.settings.paths != before.settings.paths {
            bail!("the state directory is another one; stop and start the gateway for that");
        }
        app::check(&start.settings, env).await?;
        Ok(start)
    };
    let now = now.await;
    let wrong = now
        .as_ref()
        .err()
        .map(|error| telemetry::without_secrets(&format!("{error:#}")).into_owned());
    trouble::tell("config", wrong);
    now.unwrap_or_else(|error| {
        tracing::error!("going on with the config as it was: {error:#}");
        before
    })
}

/// `RUST_LOG`, which can say most, then `OPENCLAW_LOG_LEVEL`, then the config
/// file; `--verbose` goes before them on the console.
fn log_options(verbose: bool, env: &Env) -> LogOptions {
    let said = env
        .get("RUST_LOG")
        .or_else(|| env.get("OPENCLAW_LOG_LEVEL").as_deref().map(filter_for_level));
    LogOptions {
        console: if verbose { Some(filter_for_level("debug")) } else { said.clone() },
        file: said,
        json: env.get("OPENCLAW_LOG_FORMAT").is_some_and(|format| format == "json"),
        colour: std::io::stderr().is_terminal() && env.get("NO_COLOR").is_none(),
    }
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
        assert_eq!(filters(true, &both), words("info,clawgate=debug", "warn"));
        assert_eq!(filters(false, &both), words("warn", "warn"));
        assert_eq!(filters(false, &one), words("error", "error"));
        assert_eq!(filters(false, &Env::fixed([], "/h")), (None, None));
        let json = Env::fixed([("OPENCLAW_LOG_FORMAT", "json")], "/h");
        assert!(log_options(false, &json).json);
    }
}
