//! The conversation of a session as a model that is asked can read it.
//!
//! Promises: pictures, results and what is old are fitted to the model that is asked, be it
//! the first or a fallback. Must not: change transcripts, or know what is asked.

use crate::protocol::message::AgentMessage;
use crate::providers::{ModelInfo, ModelRequest};

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
    /// Whether it may have to be fitted again: to a fallback, or with more behind it.
    pub is_kept: bool,
    /// What comes back then of the request that has got it.
    pub lent: Option<Lent>,
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
            lent: None,
            behind: Vec::new(),
        }
    }

    /// Hands all of it over, as `model` can read it. `request` is the one that has got it
    /// before, if one has.
    pub async fn fit(&mut self, model: &ModelInfo, request: &mut ModelRequest) {
        if let Some(lent) = self.lent.take() {
            self.messages = lent.back(std::mem::take(&mut request.messages));
        }
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
        if self.is_kept {
            self.lent = Some(Lent::new(std::mem::take(&mut self.messages), &messages));
        }
        messages.extend(self.behind.iter().cloned());
        request.messages = messages;
    }
}

/// A conversation that a request has got. It is not held twice for as long as the answer
/// takes: only what the model reads in another form is.
#[derive(Debug)]
pub(super) struct Lent {
    /// How many messages it has; what is said behind them is not of it.
    count: usize,
    /// Those that were fitted, as they were, and their places.
    fitted: Vec<(usize, AgentMessage)>,
}

impl Lent {
    fn new(own: Vec<AgentMessage>, handed: &[AgentMessage]) -> Self {
        let count = own.len();
        let is_other = |(place, own): &(usize, AgentMessage)| handed.get(*place) != Some(own);
        Self { count, fitted: own.into_iter().enumerate().filter(is_other).collect() }
    }

    /// The conversation as it was.
    fn back(self, mut handed: Vec<AgentMessage>) -> Vec<AgentMessage> {
        debug_assert!(handed.len() >= self.count, "this request has not got it");
        handed.truncate(self.count);
        for (place, own) in self.fitted {
            if let Some(message) = handed.get_mut(place) {
                *message = own;
            }
        }
        handed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::UserMessage;

    fn said(texts: &[&str]) -> Vec<AgentMessage> {
        texts.iter().map(|text| AgentMessage::User(UserMessage::text(*text, 0))).collect()
    }

    #[test]
    fn of_what_is_handed_over_only_what_was_fitted_is_held_and_all_comes_back() {
        let (own, fitted) = (said(&["a", "long", "b"]), said(&["a", "short", "b"]));
        let lent = Lent::new(own.clone(), &fitted);
        assert_eq!(lent.fitted, [(1, own[1].clone())]);
        let handed = [fitted, said(&["behind"])].concat();
        assert_eq!(lent.back(handed), own);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "has not got it")]
    fn what_was_handed_over_comes_back_of_no_other_request() {
        Lent::new(said(&["a"]), &said(&["a"])).back(Vec::new());
    }
}
