//! By which chat services people reach the agent.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::access::variable;
use super::asker::Stopped;
use super::draft::Draft;
use super::own::check_address;
use super::step::StepOption;
use super::talk::{Line, Talk, check_literal};
use crate::agent::web::Tls;
use crate::channels::telegram_bot_name;
use crate::config::channels::{ChannelKind, ChannelWay};
use crate::support::{Secret, json};

/// Clients wait 30 seconds for an answer of ours.
const LIMIT: Duration = Duration::from_secs(20);
/// The variable that the original reads a bot's token from.
const TOKEN_VARIABLE: &str = "TELEGRAM_BOT_TOKEN";
/// Ends a question that leaves its channel out when nothing is answered.
pub const LEAVES_OUT: &str = "; nothing to leave Telegram out";
/// Shortest secret that signs.
const SECRET_MIN: usize = 16;
/// Bytes of a secret that is made here.
const SECRET_BYTES: usize = 32;

/// Asks which channels to set up, and sets them up.
///
/// # Errors
/// When nobody answers any more.
pub async fn choose(
    talk: &mut Talk<'_>,
    draft: &mut Draft,
    skips_check: bool,
) -> Result<(), Stopped> {
    let is_there = |id: &str| draft.written(&format!("/channels/{id}")).is_some();
    let option = |id: &str, label: &str, hint: &str| {
        let hint = if is_there(id) { "is set up; choose it to change it" } else { hint };
        StepOption::new(id, label).hint(hint)
    };
    let options = vec![
        option("telegram", "Telegram", "a bot; @BotFather gives you its token"),
        option("webhook", "Webhook", "signed HTTP from and to a service of yours"),
    ];
    let question = "Which channels do you want to set up? None is fine: the web and \
                    `clawgate chat` always work. Those that are there stay.";
    for channel in talk.many("channels", question, options).await? {
        match channel.as_str() {
            "telegram" => telegram(talk, draft, skips_check).await?,
            _ => webhook(talk, draft).await?,
        }
    }
    Ok(())
}

async fn telegram(
    talk: &mut Talk<'_>,
    draft: &mut Draft,
    skips_check: bool,
) -> Result<(), Stopped> {
    let configured = draft.written("/channels/telegram/botToken").is_some();
    // Its token may be elsewhere, such as in a file.
    let is_there = draft.written("/channels/telegram").is_some();
    let in_variable = draft.env.get(TOKEN_VARIABLE).map(Secret::new);
    let more = match (&in_variable, configured) {
        (_, true) => "; nothing to keep the one that is there".to_owned(),
        (Some(_), false) => format!("; nothing to use the one in {TOKEN_VARIABLE}"),
        (None, false) if is_there => "; nothing to change nothing".to_owned(),
        (None, false) => LEAVES_OUT.to_owned(),
    };
    let before = draft.changes().clone();
    loop {
        let line = Line::checked(check_token).placeholder("123456:ABC…");
        let token = talk.secret("telegramToken", format!("The bot's token{more}"), line).await?;
        if token.is_empty() && !configured && in_variable.is_none() {
            // With what a token before it has changed.
            return draft.put(before).await.map_err(Stopped::from);
        }
        let shown = match (token.is_empty(), configured, &in_variable) {
            (false, _, _) => Some(token.clone()),
            (true, false, Some(in_variable)) => Some(in_variable.clone()),
            (true, _, _) => None,
        };
        let has_variable = in_variable.is_some();
        draft.change(move |config| bot(config, &token, has_variable)).await?;
        let Some(token) = shown.filter(|_| !skips_check) else { return Ok(()) };
        talk.0.tell("Asking Telegram for the bot's name");
        let Err(why) = bot_name(draft, token).await else { return Ok(()) };
        let options =
            vec![StepOption::new("again", "Enter it again"), StepOption::new("keep", "Keep it")];
        let question = format!("Telegram does not know this bot: {why}");
        if talk.select("telegramFailed", question, options, None).await? == "keep" {
            return Ok(());
        }
    }
}

/// What makes a bot with this token of what the config says; without one the token that is
/// there stays, or is the one in the variable.
fn bot(config: &Value, token: &Secret, has_variable: bool) -> Value {
    let known = &config["channels"]["telegram"];
    let mut members = json!({"enabled": true});
    if !token.is_empty() {
        members["botToken"] = json!(token.expose());
    } else if !known["botToken"].is_null() {
        // One that was given before, and that Telegram does not know, does not stay.
        members["botToken"] = known["botToken"].clone();
    } else if has_variable {
        members["botToken"] = json!(variable(TOKEN_VARIABLE));
    }
    if known["dmPolicy"].is_null() {
        members["dmPolicy"] = json!("pairing");
    }
    json!({"channels": {"telegram": members}})
}

async fn bot_name(draft: &Draft, token: Secret) -> Result<String, String> {
    let account = draft.settings.channels.account(ChannelKind::Telegram, None);
    match account.map(|account| &account.way) {
        Some(Ok(ChannelWay::Telegram(telegram))) => {
            let tls = Arc::new(Tls::default());
            tokio::time::timeout(LIMIT, telegram_bot_name(&telegram.api_root, token, tls))
                .await
                .unwrap_or_else(|_| Err("no answer came in time".into()))
        }
        Some(Err(why)) => Err(why.clone()),
        _ => Err("the channel has no account".into()),
    }
}

async fn webhook(talk: &mut Talk<'_>, draft: &mut Draft) -> Result<(), Stopped> {
    let written = draft.written("/channels/webhook/url");
    let mut line = Line::checked(|text| if text.is_empty() { Ok(()) } else { check_address(text) });
    line.initial = written.as_ref().and_then(Value::as_str).map(str::to_owned);
    let question = "Where are answers to be sent? Nothing when only messages come in";
    let url = talk.text("webhookUrl", question, line).await?;
    let configured = draft.written("/channels/webhook/secret").is_some();
    let question = if configured {
        "The secret that signs; nothing to keep the one that is there"
    } else {
        "The secret that signs; nothing to have one made (it is then in the config file)"
    };
    let secret = talk.secret("webhookSecret", question, Line::checked(check_secret)).await?;
    let made = made_secret()?;
    let change = move |config: &Value| {
        let mut members = json!({"enabled": true});
        if !secret.is_empty() {
            members["secret"] = json!(secret.expose());
        } else if config["channels"]["webhook"]["secret"].is_null() {
            members["secret"] = json!(made);
        }
        if !url.is_empty() {
            members["url"] = json!(url);
        }
        json!({"channels": {"webhook": members}})
    };
    draft.change(change).await.map_err(Stopped::from)
}

fn made_secret() -> Result<String, Stopped> {
    let mut bytes = [0; SECRET_BYTES];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|error| Stopped::Failed(format!("no random numbers: {error}")))?;
    Ok(crate::support::hex(bytes))
}

fn check_secret(text: &str) -> Result<(), String> {
    check_literal(text)?;
    if text.is_empty() || text.len() >= SECRET_MIN {
        Ok(())
    } else {
        Err(format!("give at least {SECRET_MIN} characters"))
    }
}

/// `<number>:<letters>`, as Telegram gives it, or nothing.
fn check_token(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let parts = text.split_once(':').filter(|(id, rest)| {
        !id.is_empty() && id.chars().all(|c| c.is_ascii_digit()) && rest.len() >= SECRET_MIN
    });
    if parts.is_some_and(|(_, rest)| rest.chars().all(fits)) {
        Ok(())
    } else {
        Err("a bot's token is a number, a colon, and letters; @BotFather gives it".into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::changes::Changes;
    use super::*;

    #[test]
    fn nothing_after_a_wrong_token_is_the_one_that_is_there() {
        let given = |token: &str| {
            let token = Secret::new(token);
            move |config: &Value| bot(config, &token, true)
        };
        let changes = Changes::default().with(given("1:wrong")).with(given(""));
        let token =
            |config: &Value| changes.patch(config)["channels"]["telegram"]["botToken"].take();
        let there = json!({"channels": {"telegram": {"botToken": "2:there"}}});
        assert_eq!(token(&there), "2:there");
        assert_eq!(token(&json!({})), json!(variable(TOKEN_VARIABLE)));
    }
}
