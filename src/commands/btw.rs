//! `/btw`: a side question, which leaves nothing but its price in the session.

use crate::agent::CommandAnswer;
use crate::registry::Ctx;
use crate::sessions::SessionKey;

/// What is said to a question that is none.
pub const USAGE: &str = "Usage: /btw <side question>";

/// Asks the session's model; everybody may go on meanwhile.
pub async fn run(question: String, cx: &Ctx, key: &SessionKey) -> CommandAnswer {
    let (text, is_error) = match cx.services.runs.ask_aside(key, &question).await {
        Ok(text) => (text, false),
        Err(error) => (format!("⚠️ /btw failed: {error}"), true),
    };
    CommandAnswer::Aside { question, text, is_error }
}
