//! An installed Claude Code CLI as a provider of text.
//!
//! Owns: one process for each answer, and which of its sessions continues
//! which conversation. Promises: the process and whatever it has started end
//! with the answer, also when that is given up; our own tools are not offered,
//! and it uses its own only when the configuration says so. Must not: retry;
//! the CLI does.

mod arguments;
mod conversation;
mod process;
mod prompt;
mod stream;

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::NamedTempFile;

use super::answer::Answer;
use super::error::{ProviderError, ProviderErrorKind};
use super::{EventSink, ModelRequest, Provider};
use crate::config::cli_backend::CliBackend;
use crate::protocol::message::{AssistantMessage, StopReason};
use crate::support::{BoxFuture, Clock, Ids, RandomIds, blocking};
use conversation::{Conversations, Known};
use process::Process;
use stream::{Said, Turn};

/// How long it may be silent when nothing is configured: tools of its own say nothing while
/// they run.
const IDLE_LIMIT: Duration = Duration::from_mins(10);

/// The adapter.
pub struct ClaudeCli {
    clock: Arc<dyn Clock>,
    conversations: Mutex<Conversations>,
}

impl ClaudeCli {
    /// An adapter.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, conversations: Mutex::default() }
    }

    /// One answer: by the session that has the conversation so far, else by a
    /// new one that is told all of it.
    async fn answer(
        &self,
        request: &ModelRequest,
        events: EventSink<'_>,
    ) -> Result<AssistantMessage, ProviderError> {
        let backend = request.model.options.cli.as_deref().ok_or_else(not_configured)?;
        let known = self.conversations.lock().take(&request.session_id, &request.messages);
        let fresh = || Known { id: RandomIds.uuid(), messages: 0 };
        let continued = known.is_some();
        let mut session = known.unwrap_or_else(fresh);
        let mut result = self.attempt(backend, request, &session, &mut *events).await;
        if continued && result.as_ref().is_err_and(is_forgotten) {
            session = fresh();
            result = self.attempt(backend, request, &session, events).await;
        }
        let message = result?;
        self.conversations.lock().keep(
            &request.session_id,
            session.id,
            &request.messages,
            &message,
        );
        Ok(message)
    }

    async fn attempt(
        &self,
        backend: &CliBackend,
        request: &ModelRequest,
        session: &Known,
        events: EventSink<'_>,
    ) -> Result<AssistantMessage, ProviderError> {
        let mut answer = Answer::new(&request.model, events, self.clock.now_ms());
        match self.talk(backend, request, session, &mut answer).await {
            Ok(stop) => Ok(answer.finish(stop)),
            Err(error) => Err(answer.fail(error)),
        }
    }

    async fn talk(
        &self,
        backend: &CliBackend,
        request: &ModelRequest,
        session: &Known,
        answer: &mut Answer<'_>,
    ) -> Result<StopReason, ProviderError> {
        let system = system_prompt(request.system.as_deref(), &backend.prompts).await?;
        let system = system.as_ref().map(NamedTempFile::path);
        let arguments = arguments::all(backend, request, system, session);
        let limit = request.model.timeout.unwrap_or(IDLE_LIMIT);
        let mut process = Process::start(backend, &arguments, limit)?;
        process.say(&prompt::line(request, session));
        let mut turn = Turn::default();
        while let Some(line) = process.next().await? {
            let said = turn.read(&line, answer)?;
            if let Some(error) = answer.too_long() {
                return Err(error);
            }
            match said {
                Said::Nothing => {}
                Said::Question(reply) => process.say(&reply),
                Said::End(outcome) => {
                    process.end().await;
                    return outcome;
                }
            }
        }
        Err(process.failure().await)
    }
}

/// The CLI no longer has the session that we want to go on with.
fn is_forgotten(error: &ProviderError) -> bool {
    error.message.contains("No conversation found")
}

fn not_configured() -> ProviderError {
    let text = "agents.defaults.cliBackends.claude-cli is not configured";
    ProviderError::new(ProviderErrorKind::BadRequest, text)
}

/// The system prompt in a file of this folder that only we can read: arguments are seen by
/// everybody on this machine, and may not be long. Goes when dropped.
async fn system_prompt(
    text: Option<&str>,
    folder: &Path,
) -> Result<Option<NamedTempFile>, ProviderError> {
    let Some(text) = text.filter(|text| !text.is_empty()).map(str::to_owned) else {
        return Ok(None);
    };
    let place = folder.to_owned();
    let written = blocking(move || {
        DirBuilder::new().recursive(true).mode(0o700).create(&place)?;
        let mut file = NamedTempFile::with_prefix_in("system-prompt-", &place)?;
        file.write_all(text.as_bytes())?;
        Ok::<_, io::Error>(file)
    });
    let written = written.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    written.map(Some).map_err(|error| {
        let folder = folder.display();
        let text = format!("cannot write the system prompt to a file in {folder}: {error}");
        ProviderError::new(ProviderErrorKind::Network, text)
    })
}

/// Removes the prompts of a gateway that was killed; for the start.
pub async fn forget_prompts(folder: PathBuf) {
    let place = folder.display().to_string();
    let removed = blocking(move || fs::remove_dir_all(folder)).await;
    if let Err(error) = removed.unwrap_or_else(|error| Err(io::Error::other(error)))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %place, %error, "prompts of the CLI that the last gateway has left stay");
    }
}

impl Provider for ClaudeCli {
    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<AssistantMessage, ProviderError>> {
        Box::pin(self.answer(request, events))
    }
}
