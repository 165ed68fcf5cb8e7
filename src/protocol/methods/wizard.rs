//! `wizard.*`.

use serde_json::Value;

use crate::protocol::decode::{Fields, Params, any, literal, non_empty, object, text};

/// Params of `wizard.start`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WizardStartParams {
    /// What this machine is to be: `local` or `remote`.
    pub mode: Option<String>,
    /// The folder that the agent is to work in.
    pub workspace: Option<String>,
}

impl Params for WizardStartParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            mode: f.optional("mode", literal(&["local", "remote"])),
            workspace: f.optional("workspace", text()),
        }
    }
}

/// Params of `wizard.next`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WizardNextParams {
    /// Which session.
    pub session_id: String,
    /// The answer; without one the same question comes again.
    pub answer: Option<WizardAnswer>,
}

impl Params for WizardNextParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            session_id: f.required("sessionId", non_empty()),
            answer: f.optional("answer", object::<WizardAnswer>()),
        }
    }
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WizardAnswer {
    /// Which question.
    pub step_id: String,
    /// What is answered.
    pub value: Value,
}

impl Params for WizardAnswer {
    fn read(f: &mut Fields) -> Self {
        Self {
            step_id: f.required("stepId", non_empty()),
            value: f.optional("value", any()).unwrap_or_default(),
        }
    }
}

/// Params of `wizard.status` and `wizard.cancel`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WizardSessionParams {
    /// Which session.
    pub session_id: String,
}

impl Params for WizardSessionParams {
    fn read(f: &mut Fields) -> Self {
        Self { session_id: f.required("sessionId", non_empty()) }
    }
}
