//! What is told of an answer while a model gives it.

use std::sync::Arc;

use super::draft::Draft;
use crate::agent::emitter::Emitter;
use crate::agent::feed::RunNews;
use crate::agent::parts::RunsParts;
use crate::providers::{FallbackNotice, ModelInfo, StreamEvent};
use crate::support::millis;

/// One answer that comes.
pub(super) struct Hearing<'t> {
    parts: &'t RunsParts,
    emitter: &'t mut Emitter,
    /// Id that it will have in the transcript.
    id: &'t mut Option<String>,
    /// What it will be there if it does not end.
    draft: &'t mut Draft,
    /// Who is asked for it.
    model: Arc<ModelInfo>,
}

impl<'t> Hearing<'t> {
    /// Tells that `model` is asked.
    pub fn new(
        parts: &'t RunsParts,
        emitter: &'t mut Emitter,
        id: &'t mut Option<String>,
        draft: &'t mut Draft,
        model: &Arc<ModelInfo>,
    ) -> Self {
        let mut hearing = Self { parts, emitter, id, draft, model: Arc::clone(model) };
        hearing.asks();
        hearing
    }

    fn asks(&mut self) {
        let entry_id = self.parts.ids.entry_id();
        *self.id = Some(entry_id.clone());
        *self.draft = Draft::default();
        self.emitter.tell(|| RunNews::Asks { entry_id, model: Arc::clone(&self.model) });
    }

    /// More of it.
    pub fn hear(&mut self, event: StreamEvent) {
        self.emitter.tell(|| RunNews::Stream(event.clone()));
        self.draft.hear(&event);
        match event {
            StreamEvent::TextDelta { delta, .. } => self.emitter.text(&delta),
            StreamEvent::Retry(notice) => {
                let delay = millis(notice.delay);
                let (attempt, most) = (notice.attempt, notice.max_attempts);
                self.emitter.retry(attempt, most, delay, &notice.message);
            }
            StreamEvent::Fallback(notice) => {
                self.emitter.fallback(&notice);
                if let FallbackNotice::Step { to: Some(next), .. } = &notice
                    && let Some(model) = self.parts.models.catalog().find_or_guess(next)
                {
                    self.model = model;
                }
            }
            // Blocks that were told have ids that come of this one.
            StreamEvent::Anew => {
                self.emitter.forget_turn();
                self.asks();
            }
            _ => {}
        }
    }
}
