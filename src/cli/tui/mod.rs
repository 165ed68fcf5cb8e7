//! `clawgate tui`: a chat that fills the terminal.
//!
//! Owns: its flags. What is known and what is to be done is in `state`, what was said in
//! `transcript`, what it looks like in `view` and `text`; `link`, `terminal`, `keyboard` and
//! `driver` are the way in and out. Promises: nothing of a message steers the terminal; after
//! a lost connection nothing is missing or shown twice. Must not: reach into a gateway but as
//! any other client.

mod driver;
mod editor;
mod keyboard;
mod link;
mod state;
mod terminal;
mod text;
mod transcript;
mod view;

use std::sync::Arc;

use clap::Args;

use self::driver::Driver;
use self::link::{Find, link};
use self::state::{Setup, State, no_agent};
use self::text::Theme;
use self::view::View;
use super::client::Client;
use super::{CliError, ConnectArgs, Screen, Surroundings};
use crate::support::{Clock as _, RandomIds, SystemClock, Tasks, json};

/// Messages that are read at first; what is older comes with Ctrl+Home.
const HISTORY: u64 = 200;

/// Arguments of `clawgate tui`.
#[derive(Debug, Args)]
pub struct TuiArgs {
    /// Session to talk in [default: the main session]
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// Agent to talk with [default: the gateway's default agent]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// What to say at first
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// How much the model may think for each message, such as off, low, medium or high
    #[arg(long, value_name = "LEVEL")]
    thinking: Option<String>,
    /// Send answers to the session's channel as well
    #[arg(long)]
    deliver: bool,
    /// How long a run may take
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: Option<u64>,
    /// How many messages of the history are read
    #[arg(long, value_name = "COUNT", default_value_t = HISTORY, value_parser = clap::value_parser!(u64).range(1..=1000))]
    history_limit: u64,
    /// How to reach the gateway.
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Talks until the user leaves.
pub async fn run(
    args: TuiArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    if args.connect.json {
        let text = "a screen is no JSON; for programs there is `clawgate chat --json`";
        return Err(CliError::Usage(text.to_owned()));
    }
    if !terminal::is_there() {
        let text = "this needs a terminal; for scripts and pipes there is `clawgate chat`";
        return Err(CliError::Usage(text.to_owned()));
    }
    let target = args.connect.target(around)?;
    // What cannot be connected to is told on a terminal that is still the shell's.
    let mut client = Client::connect(&target, args.connect.limit()).await?;
    if let Some(agent) = &args.agent
        && let Ok(list) = client.request("agents.list", json!({})).await
        && let Some(why) = no_agent(&list, agent)
    {
        client.close().await;
        return Err(CliError::Missing(why));
    }
    let has_colour = around.env.get("NO_COLOR").is_none_or(|set| set.is_empty());
    let setup = Setup {
        url: target.url.to_string(),
        session: args.session,
        agent: args.agent,
        message: args.message,
        thinking: args.thinking,
        deliver: args.deliver,
        timeout_ms: args.timeout_ms,
        history_limit: args.history_limit,
    };
    let (env, connect) = (around.env.clone(), args.connect.clone());
    let find: Find =
        Arc::new(move || connect.target(&Surroundings::find(env.clone(), &mut Screen::silent())));
    let (link, keeper) = link(find, args.connect.limit());
    let state = State::new(setup, Arc::new(RandomIds), SystemClock.now_ms());
    let driver = Driver::new(state, View::new(Theme { has_colour }), link)?;
    let tasks = Tasks::default();
    tasks.spawn("tui.link", keeper.keep(client));
    let (code, unsent) = driver.run().await?;
    for text in &unsent {
        // A terminal that is gone shows nothing more.
        let _ = screen.error(&format!("this may not have reached the gateway: {text}"));
    }
    Ok(if unsent.is_empty() { code } else { code.max(1) })
}
