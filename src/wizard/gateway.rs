//! Where the gateway listens and whom it lets in.

use serde_json::Value;

use super::asker::Stopped;
use super::draft::{Draft, DraftError};
use super::step::StepOption;
use super::talk::{Line, Talk, check_literal};
use crate::config::{AuthMode, DEFAULT_PORT, GatewaySettings};
use crate::support::json;

/// What people choose from; an address of one's own is kept, not offered.
const BINDS: [(&str, &str, &str); 3] = [
    ("loopback", "This machine only", "the safe choice; others come by a proxy or a tunnel"),
    ("tailnet", "This machine's Tailscale address", "devices of your tailnet"),
    ("lan", "Every address of this machine", "everybody in the network can knock"),
];

/// Modes of letting clients in that only need a secret, and the keys of those.
const TOKEN: &str = "token";
const PASSWORD: &str = "password";

/// Shows how things are and asks whether to change them. Where the gateway is another machine,
/// that stays so unless this one `is_wanted` to have it.
///
/// # Errors
/// When nobody answers any more.
pub async fn choose(
    talk: &mut Talk<'_>,
    draft: &mut Draft,
    is_wanted: bool,
) -> Result<(), Stopped> {
    if draft.written("/gateway/mode").is_none_or(|mode| is_wanted && mode != "local") {
        draft.set(vec![(vec!["gateway", "mode"], json!("local"))]).await?;
    }
    let options = vec![StepOption::new("keep", "As it is"), StepOption::new("change", "Change it")];
    let question = format!("The gateway: {}", summary(&draft.settings.gateway));
    if talk.select("gateway", question, options, None).await? == "keep" {
        return Ok(());
    }
    loop {
        let values = asked(talk, draft).await?;
        match draft.set(values).await {
            Ok(()) => return Ok(()),
            Err(DraftError::Invalid(error)) => {
                talk.note("gatewayInvalid", "This does not work", error.to_string()).await?;
            }
            Err(DraftError::Stopped(stopped)) => return Err(stopped),
        }
    }
}

type Change = (Vec<&'static str>, Value);

/// What is answered differently than the file says. A variable that decides the port is for
/// this command, and no answer.
async fn asked(talk: &mut Talk<'_>, draft: &Draft) -> Result<Vec<Change>, Stopped> {
    let port = draft.written("/gateway/port").and_then(|port| u16::try_from(port.as_u64()?).ok());
    let port = port.unwrap_or(DEFAULT_PORT);
    let line = Line::checked(check_port).initial(port.to_string());
    let answer = talk.text("port", "The port", line).await?;
    let mut binds: Vec<_> =
        BINDS.map(|(id, label, hint)| StepOption::new(id, label).hint(hint)).to_vec();
    let written = draft.written("/gateway/bind");
    let written = written.as_ref().and_then(Value::as_str).unwrap_or("loopback");
    if binds.iter().all(|option| option.value != written) {
        binds.insert(0, StepOption::new(written, format!("As it is: {written}")));
    }
    let bind = talk.select("bind", "Who can reach it?", binds, Some(written)).await?;
    let mut values: Vec<Change> = Vec::new();
    if let Some(answer) = answer.parse::<u16>().ok().filter(|answer| *answer != port) {
        values.push((vec!["gateway", "port"], json!(answer)));
    }
    if bind != written {
        values.push((vec!["gateway", "bind"], json!(bind)));
    }
    values.extend(auth(talk, draft.settings.gateway.auth.mode).await?);
    Ok(values)
}

/// What lets clients in; a mode that needs more than a secret is kept, not offered.
async fn auth(talk: &mut Talk<'_>, current: AuthMode) -> Result<Vec<Change>, Stopped> {
    let mut auths = vec![
        StepOption::new(TOKEN, "A token").hint("made at the first start"),
        StepOption::new(PASSWORD, "A password").hint("of your own"),
    ];
    let usual = current.to_string();
    if auths.iter().all(|option| option.value != usual) {
        auths.insert(0, StepOption::new(&usual, format!("As it is: {usual}")));
    }
    let auth = talk.select("auth", "What lets clients in?", auths, Some(&usual)).await?;
    let mut values: Vec<Change> = Vec::new();
    if auth != usual {
        values.push((vec!["gateway", "auth", "mode"], json!(auth)));
    }
    let (key, name, question) = match auth.as_str() {
        TOKEN => (
            TOKEN,
            "gatewayToken",
            "The token; nothing to keep the one that is there or have one made",
        ),
        PASSWORD => {
            (PASSWORD, "gatewayPassword", "The password; nothing to keep the one that is there")
        }
        _ => return Ok(values),
    };
    let secret = talk.secret(name, question, Line::checked(check_secret)).await?;
    if !secret.is_empty() {
        values.push((vec!["gateway", "auth", key], json!(secret.expose())));
    }
    Ok(values)
}

/// Where it listens and what lets clients in, in a line.
pub fn summary(gateway: &GatewaySettings) -> String {
    let address = std::net::SocketAddr::new(gateway.bind.host(), gateway.port);
    let auth = match gateway.auth.mode {
        AuthMode::Token => "clients need a token",
        AuthMode::Password => "clients need a password",
        AuthMode::None => "every program on this machine may connect",
        AuthMode::TrustedProxy => "the proxy in front says who may connect",
    };
    format!("listens on {address}; {auth}")
}

fn check_port(text: &str) -> Result<(), String> {
    match text.parse::<u16>() {
        Ok(1..) => Ok(()),
        _ => Err("give a number from 1 to 65535".into()),
    }
}

fn check_secret(text: &str) -> Result<(), String> {
    const MIN: usize = 8;
    check_literal(text)?;
    if text.is_empty() || text.len() >= MIN {
        Ok(())
    } else {
        Err(format!("give at least {MIN} characters"))
    }
}
