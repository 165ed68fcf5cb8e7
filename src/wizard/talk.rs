//! Questions by kind, for the script.

use super::asker::{Asker, Stopped};
use super::step::{Answer, Check, Step, StepKind, StepOption};
use crate::support::{Secret, json};

/// A conversation with whoever answers.
pub struct Talk<'a>(pub &'a mut dyn Asker);

/// What a text is asked with, beside the question.
#[derive(Default)]
pub struct Line {
    /// What most people answer.
    pub initial: Option<String>,
    /// An example.
    pub placeholder: Option<String>,
    /// What it has to be.
    pub check: Option<Check>,
}

impl Line {
    /// One that is checked.
    pub fn checked(check: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { check: Some(std::sync::Arc::new(check)), ..Self::default() }
    }

    /// The same with what most people answer.
    #[must_use]
    pub fn initial(self, text: impl Into<String>) -> Self {
        Self { initial: Some(text.into()), ..self }
    }

    /// The same with an example.
    #[must_use]
    pub fn placeholder(self, text: impl Into<String>) -> Self {
        Self { placeholder: Some(text.into()), ..self }
    }
}

impl Talk<'_> {
    /// Something to read.
    pub async fn note(
        &mut self,
        name: &'static str,
        title: &str,
        message: impl Into<String>,
    ) -> Result<(), Stopped> {
        let step = Step { title: Some(title.into()), ..Step::new(StepKind::Note, name, message) };
        self.0.ask(&step).await.map(|_| ())
    }

    /// One of several values. Without a usual one the first is it.
    pub async fn select(
        &mut self,
        name: &'static str,
        message: impl Into<String>,
        options: Vec<StepOption>,
        usual: Option<&str>,
    ) -> Result<String, Stopped> {
        let is_there = |usual: &&str| options.iter().any(|option| option.value == *usual);
        let first = options.first().map(|option| option.value.clone());
        let initial = usual.filter(is_there).map(str::to_owned).or(first);
        let initial = initial.map(|value| json!(value));
        let step = Step { options, initial, ..Step::new(StepKind::Select, name, message) };
        match self.0.ask(&step).await? {
            Answer::One(value) => Ok(value),
            _ => Err(unexpected()),
        }
    }

    /// Any of several values.
    pub async fn many(
        &mut self,
        name: &'static str,
        message: impl Into<String>,
        options: Vec<StepOption>,
    ) -> Result<Vec<String>, Stopped> {
        let initial = Some(json!([]));
        let step = Step { options, initial, ..Step::new(StepKind::MultiSelect, name, message) };
        match self.0.ask(&step).await? {
            Answer::Many(values) => Ok(values),
            _ => Err(unexpected()),
        }
    }

    /// Yes or no.
    pub async fn confirm(
        &mut self,
        name: &'static str,
        message: impl Into<String>,
        usual: bool,
    ) -> Result<bool, Stopped> {
        let initial = Some(json!(usual));
        let step = Step { initial, ..Step::new(StepKind::Confirm, name, message) };
        match self.0.ask(&step).await? {
            Answer::Yes(yes) => Ok(yes),
            _ => Err(unexpected()),
        }
    }

    /// A line of text.
    pub async fn text(
        &mut self,
        name: &'static str,
        message: impl Into<String>,
        line: Line,
    ) -> Result<String, Stopped> {
        let Line { initial, placeholder, check } = line;
        let initial = initial.map(|text| json!(text));
        let step = Step { initial, placeholder, check, ..Step::new(StepKind::Text, name, message) };
        match self.0.ask(&step).await? {
            Answer::Text(text) => Ok(text.expose().to_owned()),
            _ => Err(unexpected()),
        }
    }

    /// A line of text that must not be shown.
    pub async fn secret(
        &mut self,
        name: &'static str,
        message: impl Into<String>,
        line: Line,
    ) -> Result<Secret, Stopped> {
        let Line { placeholder, check, .. } = line;
        let step = Step {
            placeholder,
            check,
            is_sensitive: true,
            ..Step::new(StepKind::Text, name, message)
        };
        match self.0.ask(&step).await? {
            Answer::Text(text) => Ok(text),
            _ => Err(unexpected()),
        }
    }
}

/// Whether a text means itself in the config file.
///
/// # Errors
/// In words for people.
pub fn check_literal(text: &str) -> Result<(), String> {
    if text.contains("${") {
        Err("a text with ${ in it would be read as a variable".into())
    } else {
        Ok(())
    }
}

/// An asker reads answers with the step, so this does not happen.
fn unexpected() -> Stopped {
    Stopped::Failed("the answer is of another kind than the question".into())
}
