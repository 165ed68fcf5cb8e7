//! Room for the conversation: what is long ago is summed up before the model
//! cannot read it any more, or when it has said so. What no summary helps with
//! are results of tools, and messages that no model can read: less of them is shown.

use super::{Stop, TOO_LONG, Turn};
use crate::agent::compaction::{self, CompactError, Compacted};
use crate::agent::pruning::{self, Share};
use crate::protocol::message::{AgentMessage, ContentBlock, Usage};
use crate::providers::Route;
use crate::sessions::{CompactionReason, ContextEntry, SessionEntry, SessionError};

/// A conversation that is so many times as long as what the model reads is too long, whatever
/// its provider has counted: some count only what they had not read before, and leave out the
/// rest without a word. The guess is coarse, so it is not asked for less.
const FAR: u64 = 2;

/// How full the context is, in tokens, as far as that is known.
#[derive(Debug, Default)]
pub(super) struct Fill {
    tokens: u64,
    /// A compaction that made little room is not tried again before this.
    not_before: u64,
}

impl Fill {
    /// A call of the model has counted it.
    pub const fn counted(&mut self, usage: &Usage) {
        let parts = usage.input + usage.output + usage.cache_read + usage.cache_write;
        // Providers that do not count leave the guess as it is.
        if parts > 0 {
            self.tokens = parts;
        }
    }

    /// A result will be read, by a model that reads `window` tokens.
    pub fn grows(&mut self, result: &[ContentBlock], window: u64) {
        let whole = compaction::block_tokens(result);
        self.tokens += whole.saturating_sub(pruning::unseen(result, window));
    }
}

/// What the provider has counted of the context of a session. One that does not count, and a
/// transcript that was cut since then, leave nothing that holds.
fn counted(entry: &SessionEntry) -> Option<u64> {
    let is_fresh = entry.total_tokens_fresh != Some(false);
    entry.total_tokens.filter(|tokens| *tokens > 0 && is_fresh)
}

/// What a model reads of a conversation at the least: what was thought may be left out, and
/// results are where they are pruned.
fn least(mut context: Vec<ContextEntry>, is_pruned: bool) -> u64 {
    context.retain_mut(|entry| match &mut entry.message {
        AgentMessage::Assistant(said) => {
            let is_said = |block: &ContentBlock| {
                !matches!(block, ContentBlock::Thinking(_) | ContentBlock::Unknown(_))
            };
            said.content.retain(is_said);
            true
        }
        AgentMessage::ToolResult(_) => !is_pruned,
        AgentMessage::User(_) => true,
    });
    compaction::guess(&context)
}

impl Turn<'_> {
    /// How full the context is for a model that reads `window` tokens: what the last run left,
    /// and what was said since; a guess at all of it where nobody has counted, or nobody can
    /// have counted right.
    pub(super) async fn measure(
        &self,
        entry: &SessionEntry,
        window: u64,
    ) -> Result<Fill, SessionError> {
        let (bytes, far) = (entry.transcript.bytes, window.saturating_mul(FAR));
        let whole = compaction::in_tokens(usize::try_from(bytes).unwrap_or(usize::MAX));
        let since = || compaction::text_tokens(&self.run.message.content.text());
        let counted = counted(entry).map(|tokens| tokens + since());
        // So short a transcript need not be read for it.
        let known = match counted {
            Some(tokens) => Some(tokens).filter(|_| whole <= far),
            None => Some(whole).filter(|_| bytes < window),
        };
        if let Some(tokens) = known {
            return Ok(Fill { tokens, not_before: 0 });
        }
        let mut context = self.parts.sessions.context_entries(&self.run.key).await?;
        // Long results count as what the model gets to see of them.
        Share::Usual.fit(context.iter_mut().map(|entry| &mut entry.message), window);
        let tokens = match counted {
            None => compaction::guess(&context),
            Some(tokens) => {
                let is_pruned = self.parts.settings.now().agents.defaults.pruning.is_some();
                Some(least(context, is_pruned)).filter(|least| *least > far).unwrap_or(tokens)
            }
        };
        Ok(Fill { tokens, not_before: 0 })
    }

    /// Sums up what is long ago when the rest of the context is not enough for
    /// an answer, and has the model write down what lasts before it comes to that.
    /// When that fails the model is asked all the same.
    pub(super) async fn keep_room(&mut self, route: &Route) -> Result<(), Stop> {
        let model = route.model();
        let reserve = self.parts.settings.now().agents.defaults.compaction_reserve_tokens;
        // A small model that kept so much free would have no room at all.
        let reserve = reserve.min(model.context_window / 4);
        let limit = model.context_window.saturating_sub(reserve);
        let soft = self.parts.settings.now().agents.defaults.memory_flush.soft_threshold_tokens;
        // Of what is far too long no model writes down anything.
        let is_read = self.fill.tokens <= model.context_window.saturating_mul(FAR);
        if is_read && self.fill.tokens > limit.saturating_sub(soft.min(model.context_window / 4)) {
            self.take_notes(route).await?;
        }
        if self.fill.tokens <= limit.max(self.fill.not_before) {
            return Ok(());
        }
        let reason = CompactionReason::AutoThreshold;
        match self.compact(route, reason).await {
            Ok(done) => self.fill.tokens = done.compaction.tokens_after,
            Err(CompactError::Stopped(reason)) => return Err(Stop::Aborted(reason)),
            Err(CompactError::Nothing(_)) => {}
            Err(error) => {
                tracing::warn!(run = %self.run.id, %error, "long conversation not compacted");
            }
        }
        self.fill.not_before = self.fill.tokens.saturating_add(reserve);
        Ok(())
    }

    /// The model that `route` asks refused the conversation as too long: sums up what is
    /// long ago, and when that is not enough shows it less of results, so that it can be
    /// asked once more.
    pub(super) async fn make_room(&mut self, message: String, route: &Route) -> Result<(), Stop> {
        if !std::mem::replace(&mut self.has_compacted, true) && self.sum_up(route).await? {
            return Ok(());
        }
        let context = self.parts.sessions.context(&self.run.key).await?;
        let smaller = self.share.smaller(&context, route.model().context_window);
        self.share = smaller.ok_or(Stop::Failed { message, kind: TOO_LONG })?;
        Ok(())
    }

    async fn compact(
        &mut self,
        route: &Route,
        reason: CompactionReason,
    ) -> Result<Compacted, CompactError> {
        let (parts, run, emitter) = (self.parts, self.run, &mut self.emitter);
        compaction::compact(parts, run, route, emitter, reason, &mut self.used).await
    }

    /// Sums up what is long ago, and answers whether that was possible.
    async fn sum_up(&mut self, route: &Route) -> Result<bool, Stop> {
        match self.compact(route, CompactionReason::OverflowRetry).await {
            Ok(done) => {
                self.fill.tokens = done.compaction.tokens_after;
                Ok(true)
            }
            Err(CompactError::Stopped(reason)) => Err(Stop::Aborted(reason)),
            Err(error) => {
                tracing::warn!(run = %self.run.id, %error, "conversation too long and not compacted");
                Ok(false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::support::json;

    #[test]
    fn what_a_model_may_not_read_does_not_make_a_conversation_too_long() {
        let message = |role: &str, content: Value| {
            let message = json!({"role": role, "content": content, "timestamp": 1,
                "api": "a", "provider": "p", "model": "m", "usage": {}, "stopReason": "stop",
                "toolCallId": "c", "toolName": "read", "isError": false});
            let message = serde_json::from_value(message).unwrap();
            ContextEntry { id: "i".into(), message, summary: None }
        };
        let text = |length: usize| json!({"type": "text", "text": "x".repeat(length)});
        let thought = json!({"type": "thinking", "thinking": "x".repeat(4_000)});
        let context = [
            message("user", json!("x".repeat(400))),
            message("assistant", json!([thought, text(40)])),
            message("toolResult", json!([text(4_000)])),
        ];
        assert_eq!(least(context.to_vec(), true), 110);
        assert_eq!(least(context.to_vec(), false), 1_110);
    }

    #[test]
    fn a_count_of_nothing_and_one_from_before_a_cut_say_nothing() {
        for (total_tokens, total_tokens_fresh, expected) in [
            (Some(7), Some(true), Some(7)),
            (Some(7), None, Some(7)),
            (Some(7), Some(false), None),
            (Some(0), Some(true), None),
            (None, None, None),
        ] {
            let entry =
                SessionEntry { total_tokens, total_tokens_fresh, ..SessionEntry::default() };
            assert_eq!(counted(&entry), expected, "{total_tokens:?} {total_tokens_fresh:?}");
        }
    }
}
