//! The conversation of a session as a model that is asked can read it.
//!
//! Promises: pictures, results and what is old are fitted to the model that is asked, be it
//! the first or a fallback. Must not: change transcripts, or know what is asked.

use jiff::tz::TimeZone;

use crate::protocol::message::{AgentMessage, UserContent};
use crate::providers::{ModelInfo, ModelRequest};

use super::parts::RunsParts;
use super::pictures::{self, Added};
use super::pruning::{self, Replaced, Share};
use super::sent_at;

/// What is said to a model, before it is known which one that is.
pub(super) struct Conversation<'t> {
    /// Where its files and settings are.
    pub parts: &'t RunsParts,
    /// As the transcript has them.
    pub messages: Vec<AgentMessage>,
    /// The run that asks, whose pictures are shown.
    pub run_id: Option<&'t str>,
    /// Where people have said it whose words have their time before them.
    pub zone: Option<TimeZone>,
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
    pub fn new(parts: &'t RunsParts, messages: Vec<AgentMessage>) -> Self {
        Self {
            parts,
            messages,
            run_id: None,
            zone: parts.settings.now().workspace.envelope_zone.clone(),
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
        let mut messages = std::mem::take(&mut self.messages);
        let count = messages.len();
        let (media, window) = (self.parts.sessions.media(), model.context_window);
        let sees = model.accepts_images();
        // First, so that what is put to them stays.
        let words = self.share.fit_words(&mut messages);
        let mut said = pictures::fit(&mut messages, self.run_id, sees, &media).await;
        if let Some(zone) = &self.zone {
            said.extend(sent_at::put(&mut messages, zone));
        }
        let mut results = self.share.fit(messages.iter_mut(), window);
        if self.is_pruned
            && let Some(settings) = &self.parts.settings.now().agents.defaults.pruning
        {
            let now_ms = self.parts.clock.now_ms();
            results.extend(pruning::prune(&mut messages, settings, window, now_ms));
        }
        messages.extend(self.behind.iter().cloned());
        if self.is_kept {
            self.lent = Some(Lent { count, words, said, results });
        }
        request.messages = messages;
    }
}

/// A conversation that a request has got. It is not held twice for as long as the answer
/// takes: kept is only what the model does not read of it.
#[derive(Debug)]
pub(super) struct Lent {
    /// How many messages it has; what is said behind them is not of it.
    count: usize,
    /// What users have said that is too long.
    words: Vec<(usize, UserContent)>,
    /// What was put to what users have said.
    said: Vec<(usize, Added)>,
    /// What was taken out of results.
    results: Replaced,
}

impl Lent {
    /// The conversation as it was.
    fn back(self, mut handed: Vec<AgentMessage>) -> Vec<AgentMessage> {
        debug_assert!(handed.len() >= self.count, "this request has not got it");
        handed.truncate(self.count);
        // What was put first is below what was put later.
        for (place, added) in self.said.into_iter().rev() {
            if let Some(AgentMessage::User(user)) = handed.get_mut(place) {
                added.take_off(user);
            }
        }
        for (place, content) in self.words {
            if let Some(AgentMessage::User(user)) = handed.get_mut(place) {
                user.content = content;
            }
        }
        // What was replaced twice is at first what it was in between.
        for (place, taken) in self.results.into_iter().rev() {
            if let Some(AgentMessage::ToolResult(result)) = handed.get_mut(place) {
                pruning::put_back(result, taken);
            }
        }
        handed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{PruningSettings, ToolRules};
    use crate::sessions::{Media, RECEIPT_MEMBER};
    use crate::support::json;

    /// What the scheduler asks, what somebody says, a call with a long and a short result, and
    /// the answer.
    fn conversation() -> Vec<AgentMessage> {
        let said = |text: &str| json!({"role": "user", "content": text, "timestamp": 1});
        let answer = |stop_reason: &str| {
            json!({"role": "assistant", "content": [], "api": "a", "provider": "p", "model": "m",
                "usage": {}, "stopReason": stop_reason, "timestamp": 1})
        };
        let result = |text: &str| {
            json!({"role": "toolResult", "toolCallId": "c", "toolName": "read",
                "content": [{"type": "text", "text": text}], "isError": false, "timestamp": 1})
        };
        let mut asked = said("look");
        asked[RECEIPT_MEMBER] = json!("from the scheduler");
        asked["idempotencyKey"] = json!("r");
        let long = result(&"x".repeat(5_000));
        [asked, said("and"), answer("toolUse"), long, result("short"), answer("stop")]
            .map(|message| serde_json::from_value::<AgentMessage>(message).unwrap())
            .to_vec()
    }

    #[tokio::test]
    async fn of_what_is_handed_over_only_what_was_fitted_is_held_and_all_comes_back() {
        let home = tempfile::tempdir().unwrap();
        let pruning = PruningSettings {
            ttl_ms: 100,
            keep_answers: 1,
            soft_permille: 300,
            hard_permille: 500,
            min_chars: 0,
            soft_max: 40,
            head: 10,
            tail: 10,
            placeholder: None,
            tools: ToolRules::default(),
        };
        let own = conversation();
        let mut handed = own.clone();
        let mut said = pictures::fit(&mut handed, None, true, &Media::new(home.path())).await;
        said.extend(sent_at::put(&mut handed, &TimeZone::UTC));
        let stamped = "[Thu 1970-01-01 00:00 UTC] from the scheduler\n\nlook";
        assert_eq!(handed[0].text(), stamped);
        let mut results = Share::Small(2_000).fit(handed.iter_mut(), 0);
        results.extend(pruning::prune(&mut handed, &pruning, 0, 200));
        assert_eq!(said.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [0, 0]);
        // Shortened twice.
        assert_eq!(results.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [3, 3]);
        handed.extend(conversation());
        let lent = Lent { count: own.len(), words: Vec::new(), said, results };
        assert_eq!(lent.back(handed), own);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "has not got it")]
    fn what_was_handed_over_comes_back_of_no_other_request() {
        let lent = Lent { count: 1, words: Vec::new(), said: Vec::new(), results: Replaced::new() };
        lent.back(Vec::new());
    }
}
