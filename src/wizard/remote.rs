//! Only a client here: the gateway is another machine.

use std::net::IpAddr;

use serde_json::Value;

use crate::config::{ALLOW_PLAIN, Env, allows_plain};
use crate::support::{is_own_address, json};

use super::asker::Stopped;
use super::draft::Draft;
use super::talk::{Line, Talk, check_literal};

/// Asks where the gateway is and what lets us in.
///
/// # Errors
/// When nobody answers any more.
pub async fn choose(talk: &mut Talk<'_>, draft: &mut Draft) -> Result<(), Stopped> {
    let written = draft.written("/gateway/remote/url");
    let initial = written.as_ref().and_then(Value::as_str).unwrap_or("ws://127.0.0.1:18789");
    let env = draft.env.clone();
    let line = Line::checked(move |text| check_url(text, &env)).initial(initial);
    let url = talk.text("remoteUrl", "The address of the gateway", line).await?;
    let question = "Its token; nothing to leave that as it is";
    let token = talk.secret("remoteToken", question, Line::checked(check_literal)).await?;
    let mut values = vec![
        (vec!["gateway", "mode"], json!("remote")),
        (vec!["gateway", "remote", "url"], json!(url)),
    ];
    if !token.is_empty() {
        values.push((vec!["gateway", "remote", "token"], json!(token.expose())));
    }
    draft.set(values).await.map_err(Stopped::from)
}

fn check_url(text: &str, env: &Env) -> Result<(), String> {
    let fits = |url: &reqwest::Url| {
        // The address is shown: in the summary, and when this is asked again.
        let has_secret = !url.username().is_empty() || url.password().is_some();
        matches!(url.scheme(), "ws" | "wss") && url.has_host() && !has_secret
    };
    let Some(url) = reqwest::Url::parse(text).ok().filter(fits) else {
        return Err(
            "give a ws or wss address without a user in it, such as wss://host:18789".into()
        );
    };
    if url.scheme() == "wss" || is_here(&url) || allows_plain(|name| env.get(name)) {
        return Ok(());
    }
    Err(format!(
        "give a wss address for another machine, or that of a tunnel on this one, such as \
         ws://127.0.0.1:18789: by ws everybody on the way could read the token. In a private \
         network that you trust, set {ALLOW_PLAIN}=1"
    ))
}

/// Whether what is sent there stays on this machine.
fn is_here(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_own = |ip: IpAddr| ip.to_canonical().is_loopback() || is_own_address(ip);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(is_own)
}
