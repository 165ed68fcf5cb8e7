//! What has become of a run, as clients of this API are told.

use axum::http::{HeaderName, StatusCode};
use serde_json::Value;

use crate::agent::{AbortReason, RunEnd, RunReport};
use crate::http::{json_answer, openai_word};
use crate::protocol::message::{ToolCall, Usage};
use crate::support::json;
use axum::response::{IntoResponse, Response};

/// What clients of OpenAI look at before they ask again, which they do by themselves.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// A status after which no client asks again, also of those that do not look at the header: the
/// AI SDK does after 408, 409, 429 and from 500 on, `LangChain` for JavaScript after 410 as well.
const FINAL: StatusCode = StatusCode::BAD_REQUEST;

/// What an agent says here that has nothing to say, in the words of the original: clients of
/// OpenAI take an answer without a word for a failure.
pub const NOTHING: &str = "No response from OpenClaw.";

/// An answer.
#[derive(Debug, Clone)]
pub struct Answered {
    /// What it says.
    pub text: String,
    /// Calls of tools that the client has to do.
    pub calls: Vec<ToolCall>,
    /// What the run has used.
    pub used: Usage,
    /// Why it is not whole, if it is not.
    pub cut: Option<Cut>,
}

/// Why an answer is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The model said too much.
    Length,
    /// The provider does not let it say more.
    Filter,
}

/// Whether an answer tells of the files that its run names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// Below its text.
    Named,
    /// Not at all: its text is JSON, which a program reads.
    Unsaid,
}

impl Files {
    /// Where the model is told of a form that its answer must have, or not.
    pub const fn beside(form: Option<&String>) -> Self {
        if form.is_some() { Self::Unsaid } else { Self::Named }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Whose fault it is.
    pub status: StatusCode,
    /// In words.
    pub message: &'static str,
    /// What was said before it failed, or somebody stopped it.
    pub said: String,
    /// What tells it from other failures of its status.
    pub code: Option<&'static str>,
    /// Whether tools of the agent were called before.
    pub has_acted: bool,
}

impl Failed {
    /// One that has said nothing.
    pub const fn new(status: StatusCode, message: &'static str) -> Self {
        Self { status, message, said: String::new(), code: None, has_acted: false }
    }

    /// One that somebody wanted, and that has said nothing.
    const fn wanted(code: &'static str, message: &'static str) -> Self {
        Self { status: FINAL, message, said: String::new(), code: Some(code), has_acted: false }
    }

    /// `{message, type, code?}`.
    pub fn error(&self) -> Value {
        let mut error = json!({"message": self.message, "type": openai_word(self.status)});
        if let Some(code) = self.code {
            error["code"] = json!(code);
        }
        error
    }

    /// The answer.
    pub fn answer(self) -> Response {
        self.told_by(json_answer(self.status, &json!({"error": self.error()})))
    }

    /// An answer that tells of it. Whatever the run did before it failed is done, so
    /// nobody is to begin another one without having thought about it. Who is let in
    /// no more learns nothing of the run.
    pub fn told_by(&self, mut answer: Response) -> Response {
        if self.status == StatusCode::UNAUTHORIZED {
            return answer;
        }
        if self.has_acted {
            *answer.status_mut() = FINAL;
        }
        last_answer(answer)
    }
}

/// An answer after which clients do not ask again by themselves.
pub fn last_answer(answer: Response) -> Response {
    ([(SHOULD_RETRY, "false")], answer).into_response()
}

/// What a run came to that has said this.
///
/// # Errors
/// When it has no answer.
pub fn of(report: &RunReport, said: String, files: Files) -> Result<Answered, Failed> {
    let progress = &report.progress;
    let has_acted = progress.calls > 0;
    match &report.end {
        RunEnd::Failed(_) if progress.is_refused => Ok(Answered {
            text: said,
            calls: Vec::new(),
            used: progress.used.clone(),
            cut: Some(Cut::Filter),
        }),
        // What the provider said is in the log: it may be about the gateway's keys.
        RunEnd::Failed(_) => {
            let failed = Failed::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error");
            Err(Failed { said, has_acted, ..failed })
        }
        RunEnd::Aborted(reason) => Err(Failed { said, has_acted, ..stopped(*reason) }),
        RunEnd::Answered => {
            let answer = progress.answer.as_ref();
            let is_long = answer.is_some_and(|answer| answer.stop_reason == "length");
            let text = match files {
                Files::Named => with_files(said, &progress.files),
                Files::Unsaid => said,
            };
            let has_nothing = text.is_empty() && progress.handed.is_empty();
            Ok(Answered {
                text: if has_nothing { NOTHING.to_owned() } else { text },
                calls: progress.handed.clone(),
                used: answer.map(|answer| answer.used.clone()).unwrap_or_default(),
                cut: is_long.then_some(Cut::Length),
            })
        }
    }
}

/// A text, and below it the files that its run names: they do not come along, and nobody
/// would know of them.
pub fn with_files(mut text: String, files: &[String]) -> String {
    for (index, file) in files.iter().enumerate() {
        if !text.is_empty() {
            text.push_str(if index == 0 { "\n\n" } else { "\n" });
        }
        text.push_str("File: ");
        text.push_str(name_of(file));
    }
    text
}

/// What a client is told of a file: an address, or the name without the agent's folders.
fn name_of(file: &str) -> &str {
    if file.starts_with("http://") || file.starts_with("https://") {
        return file;
    }
    file.rsplit('/').find(|part| !part.is_empty()).unwrap_or(file)
}

/// What a run came to that was stopped.
const fn stopped(why: AbortReason) -> Failed {
    match why {
        AbortReason::Timeout => Failed::new(StatusCode::GATEWAY_TIMEOUT, "the run took too long"),
        AbortReason::Shutdown => Failed::new(StatusCode::SERVICE_UNAVAILABLE, "the gateway stops"),
        AbortReason::Rpc | AbortReason::Stop => {
            Failed::wanted("run_stopped", "the run was stopped")
        }
        AbortReason::Interrupt => {
            Failed::wanted("run_replaced", "a newer message took the place of this one")
        }
    }
}

/// Tokens that went in, those that a cache had included.
pub const fn input_tokens(used: &Usage) -> u64 {
    used.input + used.cache_read + used.cache_write
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_has_done_is_not_to_be_done_again_by_a_client() {
        for (status, told) in [(400, true), (500, true), (503, true), (504, true), (401, false)] {
            let status = StatusCode::from_u16(status).unwrap();
            for has_acted in [false, true] {
                let answer = Failed { has_acted, ..Failed::new(status, "x") }.answer();
                let header = answer.headers().get("x-should-retry");
                assert_eq!(header.is_some_and(|it| it == "false"), told, "{status}");
                let is_changed = has_acted && told;
                assert_eq!(answer.status(), if is_changed { FINAL } else { status });
            }
        }
        for why in [AbortReason::Rpc, AbortReason::Stop, AbortReason::Interrupt] {
            assert_eq!(stopped(why).answer().status(), FINAL, "{why:?}");
        }
    }

    #[test]
    fn files_are_named_below_what_is_said_without_their_folders() {
        let files = ["/home/ann/plot 1.png", "notes.txt", "https://example.com/a?b=1"];
        let files = files.map(str::to_owned);
        let names = "File: plot 1.png\nFile: notes.txt\nFile: https://example.com/a?b=1";
        assert_eq!(with_files("Done.".into(), &files), format!("Done.\n\n{names}"));
        assert_eq!(with_files(String::new(), &files), names);
        assert_eq!(with_files("Done.".into(), &[]), "Done.");
    }
}
