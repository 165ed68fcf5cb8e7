//! The conversation of a session as a model that is asked can read it.
//!
//! Promises: pictures, results and what is old are fitted to the model that is asked, be it
//! the first or a fallback. Must not: change transcripts, or know what is asked.

use crate::protocol::message::AgentMessage;
use crate::providers::ModelInfo;

use super::parts::RunsParts;
use super::pictures;
use super::pruning::{self, Share};

/// What is said to a model, before it is known which one that is.
pub(super) struct Conversation<'t> {
    /// Where its files and settings are.
    pub parts: &'t RunsParts,
    /// As the transcript has them.
    pub messages: Vec<AgentMessage>,
    /// The run that asks, whose pictures are shown.
    pub run_id: Option<&'t str>,
    /// How much of it may be results of tools.
    pub share: Share,
    /// Whether old results go, as the configuration says.
    pub is_pruned: bool,
    /// Whether it may have to be fitted again: to a fallback, or with more behind it. If not,
    /// it is handed over, and is not held twice for as long as its answer takes.
    pub is_kept: bool,
    /// What is said behind it, and stays as it is.
    pub behind: Vec<AgentMessage>,
}

impl<'t> Conversation<'t> {
    /// These messages, for somebody who is no run.
    pub const fn new(parts: &'t RunsParts, messages: Vec<AgentMessage>) -> Self {
        Self {
            parts,
            messages,
            run_id: None,
            share: Share::Usual,
            is_pruned: false,
            is_kept: true,
            behind: Vec::new(),
        }
    }

    /// All of it, as `model` can read it.
    pub async fn fitted_to(&mut self, model: &ModelInfo) -> Vec<AgentMessage> {
        let mut messages =
            if self.is_kept { self.messages.clone() } else { std::mem::take(&mut self.messages) };
        let media = self.parts.sessions.media();
        pictures::fit(&mut messages, self.run_id, model.accepts_images(), &media).await;
        self.share.fit(messages.iter_mut(), model.context_window);
        if self.is_pruned
            && let Some(settings) = &self.parts.settings.now().agents.defaults.pruning
        {
            let now_ms = self.parts.clock.now_ms();
            pruning::prune(&mut messages, settings, model.context_window, now_ms);
        }
        messages.extend(self.behind.iter().cloned());
        messages
    }
}
