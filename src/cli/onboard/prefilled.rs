//! Answers of flags first, then those of the terminal, or what is usual.

use serde_json::Value;

use super::flags::Answers;
use super::terminal::Terminal;
use crate::config::Env;
use crate::providers::{key_in_environment, known_providers};
use crate::support::{BoxFuture, json, sort};
use crate::wizard::{
    Answer, Asker, KEEP, LEAVES_OUT, OTHER_MODEL, SKIP, Step, StepKind, Stopped, WrongAnswer,
};

/// Whoever answers.
pub struct Prefilled {
    answers: Answers,
    /// None: nobody is asked.
    terminal: Option<Terminal>,
    env: Env,
}

impl Prefilled {
    /// With these flags.
    pub fn new(answers: Answers, terminal: Option<Terminal>, env: Env) -> Self {
        Self { answers, terminal, env }
    }

    /// Flags that said something and that no question was for.
    pub fn unused(&self) -> Vec<&'static str> {
        // What a key or an address says of its provider, that is told of already.
        let is_named =
            ["key", "baseUrl", "ollamaUrl"].iter().any(|it| self.answers.contains_key(it));
        let flag_of = |(name, value): (&&'static str, &Value)| match *name {
            "key" => "the provider's key",
            "provider" if !is_named => "--auth-choice",
            "keySource" if value == "variable" => "--secret-input-mode",
            "model" => "--model",
            "modelId" => "--custom-model-id",
            "api" => "--custom-compatibility",
            "bind" => "--gateway-bind",
            "auth" => "--gateway-auth",
            other => flag(other),
        };
        let mut flags: Vec<_> = self.answers.iter().map(flag_of).collect();
        flags.retain(|it| !it.is_empty());
        sort::plain(&mut flags);
        flags
    }

    fn answer(&mut self, step: &Step) -> Result<Answer, Stopped> {
        if let Some(value) = self.flag(step) {
            // Whoever gives a flag does not mean that.
            if value.as_str() == Some("") && step.message.ends_with(LEAVES_OUT) {
                let text = format!("{} is empty; nothing was written", flag(step.name));
                return Err(Stopped::Failed(text));
            }
            return step.read(&value).map_err(|wrong| refused(step, &wrong));
        }
        match &mut self.terminal {
            Some(terminal) => terminal.ask(step),
            None => self.usual(step),
        }
    }

    /// What a flag says; it says it once.
    fn flag(&mut self, step: &Step) -> Option<Value> {
        // A model that is not chosen from a list is named.
        let named = || (step.name == "modelId").then_some("model");
        let value = self.answers.remove(step.name);
        let value = value.or_else(|| self.answers.remove(named()?))?;
        if step.name != "model" {
            return Some(value);
        }
        let has = |id: &str| step.options.iter().any(|option| option.value == id);
        let written = value.as_str().unwrap_or_default();
        let bare = written.split_once('/').map_or(written, |(_, rest)| rest);
        let known = [written, bare].into_iter().find(|id| has(id));
        Some(known.map_or_else(
            || {
                self.answers.insert("modelId", json!(written));
                json!(OTHER_MODEL)
            },
            |id| json!(id),
        ))
    }

    /// What is answered when nobody is asked.
    fn usual(&self, step: &Step) -> Result<Answer, Stopped> {
        let value = match step.name {
            "checkFailed" | "telegramFailed" => {
                let hint = "nothing was written; --skip-check takes it untried";
                return Err(Stopped::Failed(format!("{}; {hint}", step.message)));
            }
            "gatewayInvalid" => return Err(Stopped::Failed(step.message.clone())),
            "writeFailed" => json!(false),
            "provider" => json!(self.provider(step)),
            _ => step.initial.clone().unwrap_or(Value::Null),
        };
        step.read(&value).map_err(|wrong| refused(step, &wrong))
    }

    /// What is there already, else who has a key here, else nobody.
    fn provider(&self, step: &Step) -> &'static str {
        if step.options.iter().any(|option| option.value == KEEP) {
            return KEEP;
        }
        let lookup = |name: &str| self.env.get(name);
        known_providers().find(|id| key_in_environment(id, &lookup).is_some()).unwrap_or(SKIP)
    }
}

impl Asker for Prefilled {
    fn ask<'a>(&'a mut self, step: &'a Step) -> BoxFuture<'a, Result<Answer, Stopped>> {
        // Nothing else goes on while a terminal waits for its user.
        let answer = self.answer(step);
        Box::pin(std::future::ready(answer))
    }

    fn tell(&mut self, text: &str) {
        if let Some(terminal) = &mut self.terminal {
            terminal.tell(text);
        }
    }

    fn seal(&mut self) -> Result<(), Stopped> {
        Ok(())
    }
}

fn refused(step: &Step, wrong: &WrongAnswer) -> Stopped {
    let (WrongAnswer::Kind(why) | WrongAnswer::Text(why)) = wrong;
    let flag = flag(step.name);
    let what = if step.kind == StepKind::Text && !flag.is_empty() { flag } else { step.name };
    Stopped::Failed(format!("{what}: {why}; nothing was written"))
}

/// The flag that answers a question.
fn flag(name: &str) -> &'static str {
    match name {
        "key" => "--<provider>-api-key, or the provider's variable",
        "modelId" => "--model or --custom-model-id",
        "baseUrl" | "ollamaUrl" => "--custom-base-url",
        "providerId" => "--custom-provider-id",
        "telegramToken" => "--telegram-token",
        "webhookUrl" => "--webhook-url",
        "webhookSecret" => "--webhook-secret",
        "workspace" => "--workspace",
        "agentName" => "--agent-name",
        "port" => "--gateway-port",
        "gatewayToken" => "--gateway-token",
        "gatewayPassword" => "--gateway-password",
        "remoteUrl" => "--remote-url",
        "remoteToken" => "--remote-token",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_asked_for_is_told_by_the_flag_that_said_it() {
        let unused = |answers: &[(&'static str, &str)]| {
            let answers = answers.iter().map(|(name, value)| (*name, json!(*value))).collect();
            Prefilled::new(answers, None, Env::fixed([], "/h")).unused()
        };
        let by_reference = [("provider", "anthropic"), ("keySource", "variable")];
        assert_eq!(unused(&by_reference), ["--auth-choice", "--secret-input-mode"]);
        let by_key = [("provider", "anthropic"), ("keySource", "enter"), ("key", "k")];
        assert_eq!(unused(&by_key), ["the provider's key"]);
        let by_address = [("provider", "custom"), ("baseUrl", "http://h/v1")];
        assert_eq!(unused(&by_address), ["--custom-base-url"]);
        // The key was asked for, and not where it is.
        assert_eq!(unused(&[("keySource", "enter")]), [""; 0]);
    }

    #[test]
    fn an_empty_flag_leaves_nothing_out() {
        let answered = |more: &str| {
            let step = Step::new(StepKind::Text, "telegramToken", format!("The token{more}"));
            let answers = Answers::from([("telegramToken", json!(""))]);
            Prefilled::new(answers, None, Env::fixed([], "/h")).answer(&step)
        };
        assert!(matches!(answered("; nothing to keep it"), Ok(Answer::Text(it)) if it.is_empty()));
        let error = answered(LEAVES_OUT).unwrap_err().to_string();
        assert_eq!(error, "--telegram-token is empty; nothing was written");
    }
}
