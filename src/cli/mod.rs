//! The `clawgate` command.
//!
//! Owns: arguments, the process environment, what is printed, exit codes.
//! Promises: what a script reads goes to stdout, everything else to stderr; an
//! error says what to do; no credential is printed unless it was asked for.
//! Must not: do what a library module can do, or reach into a running gateway
//! but through its WebSocket and its control socket.

mod agent;
mod agents;
mod approvals;
mod args;
mod backup;
mod banner;
mod bar;
mod call;
mod channels;
mod chat;
mod checked;
pub mod client;
mod completion;
mod config;
mod control;
mod cron;
mod dashboard;
mod devices;
mod doctor;
mod env;
mod error;
mod format;
mod gateway;
mod import;
mod logs;
mod message;
mod models;
mod nodes;
mod onboard;
mod output;
mod pairing;
mod screen;
mod security;
mod service;
mod sessions;
mod skills;
mod status;
mod surroundings;
mod system;
mod token;
mod tui;
mod ui;

use std::pin::{Pin, pin};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};

use crate::agent::exec::launcher::run_step;
use crate::config::{Env, Settings};
use crate::support::Secret;

pub use agent::AgentArgs;
pub use agents::AgentsArgs;
pub use approvals::ApprovalsArgs;
pub use args::ConnectArgs;
pub use backup::BackupArgs;
pub use banner::start_text;
pub use call::CallArgs;
pub use channels::ChannelsArgs;
pub use chat::ChatArgs;
pub use client::LocalGateway;
pub use completion::CompletionArgs;
pub use config::ConfigArgs;
pub use cron::CronArgs;
pub use dashboard::DashboardArgs;
pub use devices::{DevicesArgs, QrArgs};
pub use doctor::DoctorArgs;
pub use error::CliError;
pub use gateway::{GatewayArgs, GatewayCommand, GatewaySubcommand, OverrideArgs};
pub use import::ImportArgs;
pub use logs::LogsArgs;
pub use message::MessageArgs;
pub use models::ModelsArgs;
pub use nodes::NodesArgs;
pub use onboard::{ConfigureArgs, OnboardArgs};
pub use output::say;
pub use pairing::PairingArgs;
pub use screen::Screen;
pub use security::SecurityArgs;
pub use service::ServiceCommand;
pub use sessions::SessionsArgs;
pub use skills::SkillsArgs;
pub use status::{HealthArgs, StatusArgs};
pub use surroundings::Surroundings;
pub use system::SystemArgs;
pub use token::TokenArgs;
pub use tui::TuiArgs;
pub use ui::UiArgs;

/// An OpenClaw-compatible gateway, and a client of it. Without a command it
/// runs the gateway.
#[derive(Debug, Parser)]
#[command(name = "clawgate", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    gateway: GatewayArgs,
}

/// What the command can do.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway (the default), or look after the one that runs.
    Gateway(Box<GatewayCommand>),
    /// OpenClaw's old name of the commands about the service.
    #[command(subcommand, hide = true)]
    Daemon(ServiceCommand),
    /// Talk with the agent: one message, or a conversation without one.
    Chat(ChatArgs),
    /// Talk with the agent on a full screen.
    #[command(alias = "terminal")]
    Tui(TuiArgs),
    /// Have an agent answer one message, as a program asks.
    Agent(Box<AgentArgs>),
    /// Show and decide what waits for a person.
    #[command(alias = "exec-approvals")]
    Approvals(ApprovalsArgs),
    /// Call any method of the gateway.
    Call(CallArgs),
    /// Ask whether the gateway is well.
    Health(HealthArgs),
    /// Show the gateway, its sessions and its clients.
    Status(StatusArgs),
    /// Show the gateway's log.
    Logs(LogsArgs),
    /// Print the gateway token.
    Token(TokenArgs),
    /// Log a browser in: print and open a link that works once.
    Dashboard(DashboardArgs),
    /// Look at the configuration, and change it.
    Config(ConfigArgs),
    /// Look whether a gateway works here, and say what to do.
    Doctor(DoctorArgs),
    /// Look at what the configuration opens to others.
    Security(SecurityArgs),
    /// Set up model, key, channels and gateway by answering questions.
    Onboard(Box<OnboardArgs>),
    /// Change parts of what `onboard` sets up.
    Configure(Box<ConfigureArgs>),
    /// Install, show and remove the Control UI, OpenClaw's web pages.
    Ui(UiArgs),
    /// Write the state directory into one file, or look such a file over.
    Backup(BackupArgs),
    /// Take over the sessions and devices of an OpenClaw state directory.
    Import(ImportArgs),
    /// Show sessions, and write them down in other formats.
    Sessions(Box<SessionsArgs>),
    /// Show, add and remove agents, and say which accounts they answer.
    Agents(AgentsArgs),
    /// Show models and credentials, choose the default model.
    Models(ModelsArgs),
    /// Show, approve and ask nodes: machines that offer commands.
    Nodes(NodesArgs),
    /// Show, make, change and run jobs.
    Cron(CronArgs),
    /// Show, install and switch skills.
    Skills(SkillsArgs),
    /// Tell the main session something, switch heartbeats, show who is connected.
    System(SystemArgs),
    /// Show, approve and remove devices.
    Devices(DevicesArgs),
    /// Print a code that sets up one phone.
    Qr(QrArgs),
    /// Show the channels and how they are.
    Channels(ChannelsArgs),
    /// Write to people of channels.
    Message(MessageArgs),
    /// Show and decide who may write by a channel.
    Pairing(PairingArgs),
    /// Print what lets a shell complete these commands and their flags.
    Completion(CompletionArgs),
}

/// Parses the arguments and runs the command. A usage error exits with 2.
pub fn main() -> ExitCode {
    if let Some(code) = run_step(std::env::args_os().nth(1).as_deref()) {
        return code;
    }
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        let first = std::env::args_os().nth(1).unwrap_or_default();
        match advice(&error, &first.to_string_lossy()) {
            Some(advice) => {
                let told: clap::Error = clap::Error::raw(error.kind(), advice + "\n");
                told.exit()
            }
            None => error.exit(),
        }
    });
    let ended = Env::from_process().and_then(|env| run(cli, env));
    ended.unwrap_or_else(|error| output::complain(&error))
}

/// What to use here in the place of commands that OpenClaw has, after the first word.
const INSTEAD: &[(&str, &str, &str)] = &[
    ("setup", "setup", "use `clawgate onboard`"),
    ("version", "version", "use `clawgate --version`"),
    ("uninstall", "uninstall", "`clawgate gateway uninstall` removes the service"),
    ("update", "update", "install the new version over this one, then `clawgate gateway restart`"),
    ("secrets", "secrets", "secrets are references in the config; `clawgate doctor` looks at them"),
    ("plugins", "plugins", "see `clawgate skills` and `clawgate channels`"),
    ("channels", "add", "use `clawgate configure --section channels`"),
    ("channels", "login", "use `clawgate configure --section channels`"),
    ("gateway", "probe", "use `clawgate gateway status`"),
    ("gateway", "usage-cost", "use `clawgate call usage.cost`"),
    ("gateway", "stability", "use `clawgate call diagnostics.stability`"),
];

/// What to do instead of what was typed, for what people often mean by it.
fn advice(error: &clap::Error, first: &str) -> Option<String> {
    let (kind, is_chat) = match error.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, false),
        ErrorKind::UnknownArgument if first == "chat" => (ContextKind::InvalidArg, true),
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(kind) else { return None };
    if is_chat {
        let text = "a message of several words needs quotes: clawgate chat \"hello there\"";
        return (!word.starts_with('-')).then(|| text.to_owned());
    }
    let (.., instead) = INSTEAD.iter().find(|(from, typed, _)| *from == first && typed == word)?;
    Some(format!("there is no command \"{word}\" here: {instead}"))
}

fn run(cli: Cli, env: Env) -> anyhow::Result<ExitCode> {
    match cli.command {
        None => gateway::run(&cli.gateway, &env),
        Some(Command::Gateway(command)) => of_gateway(*command, env),
        Some(Command::Daemon(service)) => client(env, service, service::run),
        Some(Command::Token(args)) => token::run(&args, &env),
        Some(Command::Completion(args)) => completion::run(&args, &env),
        Some(Command::Config(args)) => config::run(&args, &env),
        Some(Command::Doctor(args)) => doctor::run(&args, &env),
        Some(Command::Security(args)) => security::run(&args, &env),
        Some(Command::Onboard(args)) => onboard::run(&args, &env),
        Some(Command::Configure(args)) => onboard::configure(&args, &env),
        Some(Command::Ui(args)) => ui::run(&args, &env),
        Some(Command::Backup(args)) => backup::run(&args, &env),
        Some(Command::Import(args)) => import::run(&args, &env),
        Some(Command::Sessions(args)) => sessions::run(*args, env),
        Some(Command::Agents(args)) => agents::run(args, &env),
        Some(Command::Models(args)) => models::run(&args, &env),
        Some(Command::Chat(args)) => client(env, args, chat::run),
        Some(Command::Tui(args)) => client(env, args, tui::run),
        Some(Command::Nodes(args)) => client(env, args, nodes::run),
        Some(Command::Skills(args)) => client(env, args, skills::run),
        Some(Command::System(args)) => client(env, args, system::run),
        Some(Command::Devices(args)) => client(env, args, devices::run),
        Some(Command::Qr(args)) => client(env, args, devices::qr),
        Some(Command::Dashboard(args)) => client(env, args, dashboard::run),
        Some(Command::Cron(args)) => client(env, args, cron::run),
        Some(Command::Channels(args)) => client(env, args, channels::run),
        Some(Command::Message(args)) => client(env, args, message::run),
        Some(Command::Pairing(args)) => client(env, args, pairing::run),
        Some(Command::Logs(args)) => client(env, args, logs::run),
        Some(Command::Agent(args)) => client(env, *args, agent::run),
        Some(Command::Approvals(args)) => client(env, args, approvals::run),
        Some(Command::Call(args)) => client(env, args, call::run),
        Some(Command::Health(args)) => client(env, args, status::health),
        Some(Command::Status(args)) => client(env, args, status::status),
    }
}

/// Runs the gateway, or what else is to be done with one.
fn of_gateway(command: GatewayCommand, env: Env) -> anyhow::Result<ExitCode> {
    match command.command {
        None => gateway::run(&command.args, &env),
        Some(GatewaySubcommand::Run(args)) => gateway::run(&args, &env),
        Some(GatewaySubcommand::Service(service)) => client(env, service, service::run),
        Some(GatewaySubcommand::Call(args)) => client(env, args, call::run),
        Some(GatewaySubcommand::Health(args)) => client(env, args, status::health),
    }
}

/// What may be wrong where a secret is refused that was read by its reference just now.
const MAYBE_CHANGED: &str = "gateway.auth refers to its secret, and the gateway may still have the \
    one from before that changed: `clawgate gateway restart` has it read anew, or give the one \
    before by --token (a password by --password)";

/// Runs a command that is a client of a gateway.
fn client<Args>(
    env: Env,
    args: Args,
    command: impl AsyncFnOnce(Args, &Surroundings, &mut Screen) -> Result<u8, CliError>,
) -> anyhow::Result<ExitCode> {
    let mut place = Place::find(env)?;
    let outcome = block_on(&place.runtime, command(args, &place.around, &mut place.screen));
    Ok(place.leave(outcome))
}

/// What a client of a gateway has around it.
struct Place {
    around: Surroundings,
    screen: Screen,
    runtime: Runtime,
}

impl Place {
    fn find(env: Env) -> anyhow::Result<Self> {
        let mut screen = Screen::stdio(env.get("NO_COLOR").is_some_and(|set| !set.is_empty()));
        let around = Surroundings::find(env, &mut screen);
        Ok(Self { around, screen, runtime: one_thread()? })
    }

    /// Tells what went wrong, if anything did.
    fn leave(mut self, outcome: Result<u8, CliError>) -> ExitCode {
        // A name that is still being looked up must not hold the command back.
        self.runtime.shutdown_background();
        let code = outcome.unwrap_or_else(|error| {
            let code = error.report(&mut self.screen);
            if self.around.refers_to_secret && error.is_of_another_secret() {
                // The exit code is the same where nobody reads it.
                let _ = self.screen.note(MAYBE_CHANGED);
            }
            code
        });
        ExitCode::from(code)
    }
}

/// Follows the references to the gateway's token and password, if there are any.
fn follow_secrets(settings: &mut Settings, env: &Env) -> anyhow::Result<()> {
    let env = &settings.environment(env);
    let auth = &mut settings.gateway.auth;
    if auth.referred.is_empty() {
        return Ok(());
    }
    let followed = block_on(&one_thread()?, auth.follow(&settings.secrets, env));
    followed.map_err(|(key, error)| anyhow::Error::new(error).context(key))
}

/// Follows the references to tokens of hooks. That one leads nowhere is for `doctor` to tell.
fn follow_hooks(settings: &mut Settings, env: &Env) -> anyhow::Result<()> {
    let env = &settings.environment(env);
    let (secrets, auth) = (&settings.secrets, &settings.gateway.auth);
    block_on(&one_thread()?, settings.hooks.follow(secrets, env, auth));
    Ok(())
}

/// Token and password of `gateway.remote`.
fn remote_credentials(settings: &Settings, env: &Env) -> anyhow::Result<[Option<Secret>; 2]> {
    let env = &settings.environment(env);
    let found = settings.gateway.remote.credentials(&settings.secrets, env);
    block_on(&one_thread()?, found).context("gateway.remote")
}

/// A runtime for a command that only talks to others.
fn one_thread() -> anyhow::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime does not start; check the limits of this user")
}

/// What becomes of `future`. The runtime is not told what it runs, nor what that leads to:
/// its own part is in the program once then, not once for each command.
fn block_on<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    loop {
        let mut outcome = None;
        run_to_end(runtime, pin!(async { outcome = Some(future.as_mut().await) }));
        // There is one after the first round.
        if let Some(outcome) = outcome {
            return outcome;
        }
    }
}

fn run_to_end(runtime: &Runtime, future: Pin<&mut dyn Future<Output = ()>>) {
    runtime.block_on(future);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_tables_are_sound() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn a_future_is_run_to_its_end() {
        let ending = async {
            tokio::task::yield_now().await;
            7
        };
        assert_eq!(block_on(&one_thread().unwrap(), ending), 7);
    }

    #[test]
    fn gateway_flags_work_with_and_without_the_command() {
        for line in [
            &["clawgate", "--port", "7"][..],
            &["clawgate", "gateway", "--port", "7"],
            &["clawgate", "gateway", "run", "--port", "7"],
        ] {
            let cli = Cli::try_parse_from(line).unwrap();
            let args = match cli.command {
                Some(Command::Gateway(command)) => match command.command {
                    Some(GatewaySubcommand::Run(args)) => *args,
                    None => command.args,
                    other => panic!("{other:?}"),
                },
                None => cli.gateway,
                other => panic!("{other:?}"),
            };
            assert_eq!(args.overrides.to_overrides().port, Some(7));
        }
    }

    #[test]
    fn what_scripts_for_openclaw_say_is_understood() {
        for line in [
            &["daemon", "status", "--no-probe"][..],
            &["status", "--all", "--deep", "--timeout", "10000"],
            &["health", "--verbose"],
            &["logs", "--plain", "--no-color", "--local-time", "--interval", "500"],
            &["logs", "--max-bytes", "250000", "--follow"],
            &["doctor", "--repair", "--yes"],
            &["security", "audit", "--deep", "--json"],
            &["devices", "rotate", "--device", "d", "--role", "operator", "--scope", "a", "b"],
            &["completion", "--shell", "zsh"],
            &["terminal", "--message", "hi"],
            &["system", "event", "--text", "Done", "--mode", "now"],
            &["system", "heartbeat", "last", "--json"],
            &["doctor", "--deep", "--no-workspace-suggestions"],
            &["skills", "list", "--eligible", "-v"],
            &["sessions", "--all-agents", "--active", "60", "--verbose"],
            &["gateway", "run", "--force", "--ws-log", "compact", "--compact"],
        ] {
            let parsed = Cli::try_parse_from([&["clawgate"], line].concat());
            assert!(parsed.is_ok(), "{line:?}: {parsed:?}");
        }
    }

    #[test]
    fn what_openclaw_calls_otherwise_and_unquoted_words_are_told_what_to_do() {
        let told = |words: &[&str]| {
            let error = Cli::try_parse_from([&["clawgate"], words].concat()).unwrap_err();
            advice(&error, words[0])
        };
        for (from, typed, instead) in INSTEAD {
            let both = [*from, *typed];
            let words = if from == typed { &both[..1] } else { &both[..] };
            assert!(told(words).is_some_and(|it| it.contains(instead)), "{words:?}");
        }
        assert!(told(&["chat", "two", "words"]).is_some_and(|it| it.contains("quotes")));
        for words in [&["chat", "hi", "--loud"][..], &["setups"], &["channels", "fly"]] {
            assert_eq!(told(words), None, "{words:?}");
        }
        let error = Cli::try_parse_from(["clawgate", "pairing", "approve"]).unwrap_err();
        assert!(error.to_string().contains("<CODE or CHANNEL>"), "{error}");
    }

    #[test]
    fn a_bad_flag_is_a_usage_error() {
        for line in [
            &["clawgate", "--port", "70000"][..],
            &["clawgate", "--auth", "maybe"],
            &["clawgate", "--bind", "everywhere"],
            &["clawgate", "--port", "7", "token"],
            &["clawgate", "gateway", "walk"],
            &["clawgate", "gateway", "--port", "7", "status"],
        ] {
            assert_eq!(Cli::try_parse_from(line).unwrap_err().exit_code(), 2, "{line:?}");
        }
    }
}
