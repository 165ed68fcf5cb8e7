//! `/restart`: has the gateway begin again.

use super::refusal;
use crate::registry::Ctx;
use crate::support::json;

const METHOD: &str = "gateway.restart.request";

/// Does it, by the method and with the sender's right to it.
pub async fn run(cx: &Ctx) -> String {
    if !cx.services.settings.now().commands.restart {
        return "⚠️ /restart is disabled. Set commands.restart=true to enable.".to_owned();
    }
    let answer = match cx.call(METHOD, &json!({"reason": "/restart"})).await {
        Ok(answer) => answer,
        Err(error) => return refusal(cx, "/restart", &error),
    };
    match answer["preflight"]["summary"].as_str().filter(|_| answer["preflight"]["safe"] != true) {
        Some(waits) => format!("⚙️ The gateway restarts as soon as nothing runs: {waits}."),
        None => "⚙️ The gateway restarts; back in a moment.".to_owned(),
    }
}
