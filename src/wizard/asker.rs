//! Who puts the questions.

use super::step::{Answer, Step};
use crate::support::BoxFuture;

/// Why the script did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// The user does not go on.
    #[error("{0}")]
    Cancelled(String),
    /// It cannot go on.
    #[error("{0}")]
    Failed(String),
}

impl Stopped {
    /// The user said stop.
    pub fn cancelled() -> Self {
        Self::Cancelled("cancelled".into())
    }
}

/// Puts questions to somebody, one after the other.
pub trait Asker: Send {
    /// Puts a question; its answer is one that [`Step::read`] made.
    ///
    /// # Errors
    /// When nobody answers any more.
    fn ask<'a>(&'a mut self, step: &'a Step) -> BoxFuture<'a, Result<Answer, Stopped>>;

    /// Says what is done while nobody is asked.
    fn tell(&mut self, text: &str);

    /// From now on it is too late to cancel.
    ///
    /// # Errors
    /// When somebody already has.
    fn seal(&mut self) -> Result<(), Stopped>;
}
