//! Whether the answer of a heartbeat is told.

use super::Emitter;
use crate::sessions::directives;

impl Emitter {
    /// Whether the run is a heartbeat and ends, by itself or not, with an answer that nobody
    /// need see.
    pub fn ends_quietly(&mut self, is_whole: bool) -> bool {
        if !self.run.terms.is_heartbeat {
            return false;
        }
        self.settle(is_whole);
        self.says_nothing()
    }

    /// Whether what a heartbeat has said is no more than an acknowledgement.
    pub(super) fn says_nothing(&self) -> bool {
        let ack_max = self.run.terms.ack_max_chars;
        let news = directives::heartbeat_news(&self.whole_text(), ack_max);
        news.is_none() && self.run.progress().files.is_empty()
    }
}
