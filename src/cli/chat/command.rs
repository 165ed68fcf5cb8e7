//! The command itself: its flags, and one message.

use std::io::Read;
use std::time::Duration;

use clap::Args;

use crate::cli::{CliError, ConnectArgs, Screen, Surroundings};
use crate::support::{Ids, RandomIds};

use super::follow::{Ending, Follower, Question, Style};
use super::repl::Repl;

/// Arguments of `clawgate chat`.
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// What to say; `-` reads it from stdin; without it a conversation begins
    pub message: Option<String>,
    /// Session to talk in
    #[arg(long, value_name = "KEY", default_value = "main")]
    pub session: String,
    /// How much the model may think, such as off, low, medium or high
    #[arg(long, value_name = "LEVEL")]
    pub thinking: Option<String>,
    /// How long an answer may take; then its run is stopped
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout_ms: Option<u64>,
    /// How to reach the gateway.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

impl ChatArgs {
    fn question(&self, text: String) -> Question {
        Question {
            session: self.session.clone(),
            text,
            thinking: self.thinking.clone(),
            limit: self.timeout_ms.map(Duration::from_millis),
            key: RandomIds.uuid(),
        }
    }
}

/// Says one message, or holds a conversation.
pub async fn run(
    args: ChatArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let Some(text) = message(args.message.as_deref())? else {
        let repl = Repl {
            target: args.connect.target(around)?,
            limit: args.connect.limit(),
            question: &|text| args.question(text),
            json: args.connect.json,
            screen,
        };
        return repl.run(around.history.clone()).await;
    };
    let mut client = args.connect.connect(around).await?;
    let style = Style { json: args.connect.json, tools: false };
    let question = args.question(text);
    let ending = Follower::new(&question, screen, style).ask(&mut client).await?;
    client.close().await;
    match ending {
        Ending::Answered => Ok(0),
        Ending::Interrupted => Ok(130),
        Ending::Failed(text) => {
            screen.error(&text)?;
            Ok(1)
        }
    }
}

fn message(given: Option<&str>) -> Result<Option<String>, CliError> {
    let text = match given {
        None => return Ok(None),
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text)?;
            text.trim_end().to_owned()
        }
        Some(text) => text.to_owned(),
    };
    if text.trim().is_empty() {
        return Err(CliError::Usage("the message is empty; say something, or leave it out".into()));
    }
    Ok(Some(text))
}
