//! A question, and what answers it.
//!
//! Owns: the form of a step on the wire and the reading of answers. Promises: an
//! answer is one that the step takes; one to a sensitive step is hidden from the
//! log from then on, and no default of such a step is sent.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::support::{Secret, json};
use crate::telemetry;

/// Longer than any key, path or address.
const TEXT_MAX: usize = 16 * 1024;

/// What kind of step it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// Something to read.
    Note,
    /// One of several values.
    Select,
    /// A line of text.
    Text,
    /// Yes or no.
    Confirm,
    /// Any of several values.
    MultiSelect,
}

impl StepKind {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Select => "select",
            Self::Text => "text",
            Self::Confirm => "confirm",
            Self::MultiSelect => "multiselect",
        }
    }
}

/// One of the values to choose from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOption {
    /// It.
    pub value: String,
    /// Its name for people.
    pub label: String,
    /// A few words more.
    pub hint: Option<String>,
}

impl StepOption {
    /// One without a hint.
    pub fn new(value: impl Into<String>, label: impl Into<String>) -> Self {
        Self { value: value.into(), label: label.into(), hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// What is wrong with a text, if anything.
pub type Check = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// A question.
#[derive(Clone)]
pub struct Step {
    /// What it is about; flags of the command answer by this name.
    pub name: &'static str,
    /// How it is answered.
    pub kind: StepKind,
    /// A heading.
    pub title: Option<String>,
    /// The question.
    pub message: String,
    /// What to choose from.
    pub options: Vec<StepOption>,
    /// What most people answer; never set for a sensitive step.
    pub initial: Option<Value>,
    /// An example of an answer.
    pub placeholder: Option<String>,
    /// Whether the answer must not be shown.
    pub is_sensitive: bool,
    /// What a text has to be.
    pub check: Option<Check>,
}

/// What somebody answered. Texts are secrets, because some are.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The note was read.
    Seen,
    /// This text, without white space around it.
    Text(Secret),
    /// This value.
    One(String),
    /// These values.
    Many(Vec<String>),
    /// Yes or no.
    Yes(bool),
}

/// Why an answer is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrongAnswer {
    /// It is not of the kind that the step asks for.
    Kind(String),
    /// The text is not what is needed; the user may try again.
    Text(String),
}

impl Step {
    /// A step of this kind with nothing but a question.
    pub fn new(kind: StepKind, name: &'static str, message: impl Into<String>) -> Self {
        Self {
            name,
            kind,
            title: None,
            message: message.into(),
            options: Vec::new(),
            initial: None,
            placeholder: None,
            is_sensitive: false,
            check: None,
        }
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// When the step does not take it.
    pub fn read(&self, value: &Value) -> Result<Answer, WrongAnswer> {
        let wrong = |text: &str| Err(WrongAnswer::Kind(text.to_owned()));
        match self.kind {
            StepKind::Note => Ok(Answer::Seen),
            StepKind::Confirm => match value {
                Value::Bool(yes) => Ok(Answer::Yes(*yes)),
                _ => wrong("must be boolean"),
            },
            StepKind::Select => match value.as_str().and_then(|value| self.option(value)) {
                Some(option) => Ok(Answer::One(option.value.clone())),
                None => Err(WrongAnswer::Kind(self.allowed())),
            },
            StepKind::MultiSelect => {
                let Value::Array(items) = value else { return wrong("must be array") };
                let chosen = items.iter().map(|item| self.option(item.as_str()?));
                let Some(chosen) = chosen.collect::<Option<Vec<_>>>() else {
                    return Err(WrongAnswer::Kind(self.allowed()));
                };
                // In the order of the options, each once.
                let has = |option: &&StepOption| chosen.contains(option);
                let chosen = self.options.iter().filter(has).map(|option| option.value.clone());
                Ok(Answer::Many(chosen.collect()))
            }
            StepKind::Text => self.text(value),
        }
    }

    fn text(&self, value: &Value) -> Result<Answer, WrongAnswer> {
        let text = match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return Err(WrongAnswer::Kind("must be string".into())),
        };
        let secret = Secret::new(text);
        if self.is_sensitive {
            telemetry::hide(&secret);
        }
        if secret.expose().len() > TEXT_MAX {
            return Err(WrongAnswer::Text(format!("give at most {TEXT_MAX} bytes")));
        }
        if secret.expose().chars().any(char::is_control) {
            return Err(WrongAnswer::Text("give one line of text".into()));
        }
        if let Some(check) = &self.check {
            check(secret.expose()).map_err(WrongAnswer::Text)?;
        }
        Ok(Answer::Text(secret))
    }

    fn option(&self, value: &str) -> Option<&StepOption> {
        self.options.iter().find(|option| option.value == value)
    }

    fn allowed(&self) -> String {
        // More than these nobody reads.
        const SHOWN: usize = 20;
        let values = self.options.iter().take(SHOWN).map(|option| option.value.as_str());
        let more = if self.options.len() > SHOWN { ", …" } else { "" };
        format!("must be one of {}{more}", values.collect::<Vec<_>>().join(", "))
    }

    /// What clients get: OpenClaw's `WizardStep`.
    pub fn wire(&self, id: &str) -> Value {
        let mut step = Map::new();
        step.insert("type".into(), json!(self.kind.as_str()));
        if let Some(title) = &self.title {
            step.insert("title".into(), json!(title));
        }
        step.insert("message".into(), json!(self.message));
        if !self.options.is_empty() {
            let options = self.options.iter().map(|option| {
                let mut wire = json!({"value": option.value, "label": option.label});
                if let Some(hint) = &option.hint {
                    wire["hint"] = json!(hint);
                }
                wire
            });
            step.insert("options".into(), options.collect());
        }
        if let Some(initial) = self.initial.as_ref().filter(|_| !self.is_sensitive) {
            step.insert("initialValue".into(), initial.clone());
        }
        if let Some(placeholder) = &self.placeholder {
            step.insert("placeholder".into(), json!(placeholder));
        }
        if self.is_sensitive {
            step.insert("sensitive".into(), json!(true));
        }
        step.insert("executor".into(), json!("client"));
        step.insert("id".into(), json!(id));
        Value::Object(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(kind: StepKind) -> Step {
        let options = vec![StepOption::new("a", "A"), StepOption::new("b", "B").hint("more")];
        Step { options, ..Step::new(kind, "n", "Which?") }
    }

    fn wrong(step: &Step, value: &Value) -> WrongAnswer {
        step.read(value).unwrap_err()
    }

    #[test]
    fn a_choice_is_one_of_the_options() {
        let one = choice(StepKind::Select);
        assert!(matches!(one.read(&json!("b")), Ok(Answer::One(value)) if value == "b"));
        for value in [json!("c"), json!(1), json!(null), json!(["a"])] {
            assert_eq!(wrong(&one, &value), WrongAnswer::Kind("must be one of a, b".into()));
        }
        let many = choice(StepKind::MultiSelect);
        let read = many.read(&json!(["b", "a", "b"]));
        assert!(matches!(read, Ok(Answer::Many(values)) if values == ["a", "b"]));
        assert!(matches!(many.read(&json!([])), Ok(Answer::Many(values)) if values.is_empty()));
        assert_eq!(wrong(&many, &json!("a")), WrongAnswer::Kind("must be array".into()));
        assert_eq!(wrong(&many, &json!(["c"])), WrongAnswer::Kind("must be one of a, b".into()));
        let yes = Step::new(StepKind::Confirm, "n", "Sure?");
        assert!(matches!(yes.read(&json!(true)), Ok(Answer::Yes(true))));
        assert_eq!(wrong(&yes, &json!("yes")), WrongAnswer::Kind("must be boolean".into()));
    }

    #[test]
    fn a_text_is_checked_and_one_line() {
        let check: Check =
            Arc::new(|text| if text.len() > 2 { Err("too long".into()) } else { Ok(()) });
        let step = Step { check: Some(check), ..Step::new(StepKind::Text, "n", "What?") };
        assert!(matches!(step.read(&json!(" ab\n")), Ok(Answer::Text(text)) if text.matches("ab")));
        assert!(matches!(step.read(&json!(null)), Ok(Answer::Text(text)) if text.is_empty()));
        assert!(matches!(step.read(&json!(7)), Ok(Answer::Text(text)) if text.matches("7")));
        assert_eq!(wrong(&step, &json!("abc")), WrongAnswer::Text("too long".into()));
        assert_eq!(
            wrong(&step, &json!("a\u{1b}")),
            WrongAnswer::Text("give one line of text".into())
        );
        assert_eq!(wrong(&step, &json!({})), WrongAnswer::Kind("must be string".into()));
        assert!(matches!(wrong(&step, &json!("x".repeat(TEXT_MAX + 1))), WrongAnswer::Text(_)));
    }

    #[test]
    fn the_wire_has_no_default_of_a_sensitive_step() {
        let mut step = choice(StepKind::Select);
        step.initial = Some(json!("a"));
        assert_eq!(
            step.wire("i"),
            json!({"type": "select", "message": "Which?", "options": [
                {"value": "a", "label": "A"}, {"value": "b", "label": "B", "hint": "more"}],
                "initialValue": "a", "executor": "client", "id": "i"})
        );
        step.is_sensitive = true;
        assert_eq!(step.wire("i").get("initialValue"), None);
        assert_eq!(step.wire("i")["sensitive"], true);
    }
}
