//! Only a client here: the gateway is another machine.

use serde_json::Value;

use crate::support::json;

use super::asker::Stopped;
use super::draft::Draft;
use super::talk::{Line, Talk};

/// Asks where the gateway is and what lets us in.
///
/// # Errors
/// When nobody answers any more.
pub async fn choose(talk: &mut Talk<'_>, draft: &mut Draft) -> Result<(), Stopped> {
    let written = draft.written("/gateway/remote/url");
    let initial = written.as_ref().and_then(Value::as_str).unwrap_or("ws://127.0.0.1:18789");
    let line = Line::checked(check_url).initial(initial);
    let url = talk.text("remoteUrl", "The address of the gateway", line).await?;
    let question = "Its token; nothing to leave that as it is";
    let token = talk.secret("remoteToken", question, Line::default()).await?;
    let mut values = vec![
        (vec!["gateway", "mode"], json!("remote")),
        (vec!["gateway", "remote", "url"], json!(url)),
    ];
    if !token.is_empty() {
        values.push((vec!["gateway", "remote", "token"], json!(token.expose())));
    }
    draft.set(values).await.map_err(Stopped::from)
}

fn check_url(text: &str) -> Result<(), String> {
    let parsed = reqwest::Url::parse(text).ok();
    let fits = parsed.is_some_and(|url| {
        matches!(url.scheme(), "ws" | "wss") && url.has_host() && url.username().is_empty()
    });
    if fits { Ok(()) } else { Err("give a ws or wss address, such as wss://host:18789".into()) }
}
