//! A conversation in the terminal, or line by line from a pipe.
//!
//! Owns: the connection between two questions, and its renewal. Promises: a
//! connection lost during a run is renewed once, without running the message
//! twice. Must not: know how a run is shown.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot::Receiver;

use crate::cli::client::{Client, ClientError, Target};
use crate::cli::{CliError, Screen};

use super::follow::{Ending, Follower, Question, Style};
use super::lines::{Line, Lines};

/// A conversation.
pub struct Repl<'a> {
    /// Which gateway.
    pub target: Target,
    /// How long connecting and each answer may take.
    pub limit: Duration,
    /// Makes a question of a line.
    pub question: &'a dyn Fn(String) -> Question,
    /// Whether events are printed as JSON.
    pub json: bool,
    /// Where to print.
    pub screen: &'a mut Screen,
}

/// Whether the conversation goes on.
enum Next {
    Continue,
    Leave(u8),
}

impl Repl<'_> {
    /// Talks until the user leaves; gives the exit code. It is 1 when a
    /// message from a pipe failed, and 130 after Ctrl-C, which a terminal has to send twice.
    pub async fn run(mut self, history: Option<PathBuf>) -> Result<u8, CliError> {
        let mut client = Some(Client::connect(&self.target, self.limit).await?);
        // Before the editor, which puts its own way of taking Ctrl-C over this one for each
        // line and gives it back: a run is stopped by this one.
        drop(signal(SignalKind::interrupt())?);
        let lines = Lines::stdin(history)?;
        let is_interactive = lines.is_interactive();
        if is_interactive {
            self.screen.note(&format!(
                "connected to {}; /quit or Ctrl-D leaves, Ctrl-C stops an answer",
                self.target.url
            ))?;
        }
        let mut code = 0;
        let mut is_leaving = !is_interactive;
        let mut asked = None;
        loop {
            let line = match next_line(&lines, &mut asked, &mut client).await? {
                Line::Text(line) => Some(line),
                Line::NotText => None,
                Line::Interrupted if is_leaving => {
                    code = 130;
                    break;
                }
                // A line that was half typed is gone, the conversation is not.
                Line::Interrupted => {
                    self.screen.note("Ctrl-C once more leaves")?;
                    is_leaving = true;
                    continue;
                }
                Line::End => break,
            };
            is_leaving = !is_interactive;
            let Some(line) = line else {
                self.screen.note(if is_interactive {
                    "a key that is not UTF-8 is left out; a paste with one in it is not taken whole"
                } else {
                    "that is not UTF-8; say it again"
                })?;
                code = u8::from(!is_interactive);
                continue;
            };
            match line.trim() {
                "" => {}
                "/quit" | "/exit" => break,
                text => match self.converse(text, &mut client, is_interactive).await? {
                    Next::Continue => {}
                    Next::Leave(130) => return Ok(130),
                    Next::Leave(other) => code = other,
                },
            }
        }
        if let Some(client) = client {
            client.close().await;
        }
        Ok(code)
    }

    /// One message and its answer.
    async fn converse(
        &mut self,
        text: &str,
        client: &mut Option<Client>,
        is_interactive: bool,
    ) -> Result<Next, CliError> {
        let question = (self.question)(text.to_owned());
        match self.ask(&question, client, is_interactive).await {
            Ok(Ending::Answered) => Ok(Next::Continue),
            Ok(Ending::Interrupted) if is_interactive => Ok(Next::Continue),
            Ok(Ending::Interrupted) => Ok(Next::Leave(130)),
            Ok(Ending::Failed(text)) => {
                self.screen.error(&text)?;
                Ok(if is_interactive { Next::Continue } else { Next::Leave(1) })
            }
            // The connection may be fine, and if not, the next line renews it.
            Err(error @ CliError::Client(_)) if is_interactive => {
                error.report(self.screen);
                Ok(Next::Continue)
            }
            Err(error @ CliError::Client(ClientError::Request(_))) => {
                error.report(self.screen);
                Ok(Next::Leave(1))
            }
            Err(error) => Err(error),
        }
    }

    async fn ask(
        &mut self,
        question: &Question,
        slot: &mut Option<Client>,
        is_interactive: bool,
    ) -> Result<Ending, CliError> {
        let style = Style { json: self.json, tools: is_interactive };
        let mut follower = Follower::new(question, self.screen, style);
        let mut may_renew = true;
        loop {
            let mut client = if let Some(client) = slot.take() {
                client
            } else {
                may_renew = false;
                follower.screen().note("reconnecting …")?;
                tokio::select! {
                    client = Client::renew(&self.target, self.limit) => client?,
                    Ok(()) = tokio::signal::ctrl_c() => return Ok(Ending::Interrupted),
                }
            };
            match follower.ask(&mut client).await {
                Err(CliError::Client(error)) if error.is_lost() && may_renew => {
                    follower.screen().note(&error.to_string())?;
                }
                Err(CliError::Client(error)) if error.is_lost() => return Err(error.into()),
                outcome => {
                    *slot = Some(client);
                    return outcome;
                }
            }
        }
    }
}

/// The next line. Meanwhile the connection is read, so that the gateway does
/// not take this client for a slow one; when it is lost, the slot is empty. What was
/// asked for before Ctrl-C came is in `asked`: its reader still waits for it.
async fn next_line(
    lines: &Lines,
    asked: &mut Option<Receiver<io::Result<Line>>>,
    slot: &mut Option<Client>,
) -> Result<Line, CliError> {
    let mut line = match asked.take() {
        Some(line) => line,
        None => lines.ask().await,
    };
    loop {
        let arrival = async {
            match slot.as_mut() {
                Some(client) => client.next_event().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            line = &mut line => return Ok(line.unwrap_or_else(|_| Err(gone()))?),
            // An editor on a terminal takes it, unless it has not begun yet.
            Ok(()) = tokio::signal::ctrl_c() => {
                *asked = Some(line);
                return Ok(Line::Interrupted);
            }
            event = arrival => if event.is_err() { *slot = None },
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the reader of the terminal has stopped; start the command again")
}
