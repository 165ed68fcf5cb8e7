//! What is told of the choice of a model.

use crate::providers::ModelRef;
use crate::providers::credentials::FailureReason;

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Which model.
    pub model: ModelRef,
    /// What the provider said.
    pub error: String,
    /// Why it failed.
    pub reason: FailureReason,
    /// HTTP status, when there was one.
    pub status: Option<u16>,
}

/// What becomes of the choice of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FallbackNotice {
    /// A model failed.
    Step {
        /// Which.
        from: ModelRef,
        /// The next one; `None` when there is none left.
        to: Option<ModelRef>,
        /// Why.
        reason: FailureReason,
        /// What the provider said.
        detail: String,
        /// Its place among those that are tried, from 1.
        position: usize,
    },
    /// Another model than the selected one answers.
    Active {
        /// The one that should have.
        selected: ModelRef,
        /// The one that does.
        active: ModelRef,
        /// What failed before.
        attempts: Vec<Attempt>,
    },
    /// The selected model answers again.
    Cleared {
        /// It.
        selected: ModelRef,
        /// The one that had answered meanwhile.
        previous: ModelRef,
    },
}
