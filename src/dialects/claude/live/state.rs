//! Who looks at a session, and what of it is not in its transcript yet.
//!
//! Owns: the order in which frames reach each connection. Promises: a connection
//! gets what was said before, then what comes, with no frame missing and none
//! twice. Must not: wait.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use uuid::Uuid;

use super::frame::{Frame, Keep};
use super::guest;
use super::history::History;
use super::questions::Waiting;
use crate::bus::{Closing, Subscriber};
use crate::dialects::claude::rest::share::Link;
use crate::protocol::Scope;

/// Pieces of an answer that are kept for those who come in the middle of it, in
/// bytes: a long answer many times over. Who comes to a longer one reads its
/// beginning when the block ends.
const PIECES_MAX: usize = 4 * 1024 * 1024;

/// Messages that were said here and are remembered until they are answered. Some never
/// are, such as side questions.
const SAID_MAX: usize = 256;

/// Questions whose end is remembered for those who were away; a turn asks a few.
const SETTLED_MAX: usize = 64;

/// A connection that looks at a session.
struct Member {
    subscriber: Arc<Subscriber>,
    /// By which it came, if by one.
    link: Option<Arc<Link>>,
    /// What came while the history is being read for it.
    held: Option<Vec<Frame>>,
}

impl Member {
    /// Tells a frame.
    fn say(&self, text: &str) {
        let text = match self.link {
            Some(_) => guest::shown(text),
            None => Some(text.to_owned()),
        };
        if let Some(text) = text {
            self.subscriber.outbox.answer(text);
        }
    }
}

/// See the module.
#[derive(Default)]
pub struct State {
    members: Vec<Member>,
    /// Lines that were told live.
    seen: HashSet<Uuid>,
    /// Those of them that the transcript may not have yet.
    unsaved: Vec<Frame>,
    /// The runs of what was said here and nothing was heard of, the newest last.
    said: VecDeque<String>,
    /// Pieces since the last line.
    pieces: VecDeque<Frame>,
    pieces_bytes: usize,
    /// What the turn that goes on began with.
    init: Option<Frame>,
    waiting: Vec<Waiting>,
    /// The last questions that wait no more, and what was told of their end.
    settled: VecDeque<(String, Arc<str>)>,
    /// Whether nothing more is heard.
    is_over: bool,
}

impl State {
    /// Whether anybody looks who did not come by a link.
    pub fn has_readers(&self) -> bool {
        self.members.iter().any(|member| member.link.is_none())
    }

    /// Who came by links.
    pub fn guests(&self) -> impl Iterator<Item = (&Arc<Subscriber>, &Arc<Link>)> {
        self.members.iter().filter_map(|it| Some((&it.subscriber, it.link.as_ref()?)))
    }

    /// The questions that wait.
    pub fn waiting(&self) -> &[Waiting] {
        &self.waiting
    }

    /// A connection looks from now on, or begins anew: what comes is held back for
    /// it. Gives what it may have to be told beside the history.
    pub fn enter(&mut self, subscriber: &Arc<Subscriber>, link: Option<&Arc<Link>>) -> Vec<Frame> {
        self.leave(&subscriber.conn_id);
        if self.is_over {
            subscriber.outbox.close(missed());
        }
        let held = Some(Vec::new());
        let (subscriber, link) = (Arc::clone(subscriber), link.cloned());
        self.members.push(Member { subscriber, link, held });
        self.unsaved.iter().chain(&self.pieces).cloned().collect()
    }

    /// Something was missed: who looks has to come again, and so has who comes yet.
    pub fn end(&mut self) {
        self.is_over = true;
        for member in &self.members {
            member.subscriber.outbox.close(missed());
        }
    }

    /// A connection is gone.
    pub fn leave(&mut self, conn_id: &str) {
        self.members.retain(|member| *member.subscriber.conn_id != *conn_id);
    }

    /// The history was read: it is told, then what it does not have of `earlier`
    /// and of what came meanwhile.
    pub fn begin(&mut self, conn_id: &str, history: &History, earlier: Vec<Frame>) {
        let is_it = |member: &&mut Member| *member.subscriber.conn_id == *conn_id;
        let Some(member) = self.members.iter_mut().find(is_it) else { return };
        if let Some(first) = &history.first {
            member.say(first);
        }
        for line in &history.lines {
            member.say(&line.text);
        }
        let held = member.held.take().unwrap_or_default();
        // That of a turn that began meanwhile is told at its place.
        let is_due = |init: &&Frame| !held.iter().any(|it| Arc::ptr_eq(&it.text, &init.text));
        if let Some(init) = self.init.as_ref().filter(is_due) {
            member.say(&init.text);
        }
        let known: HashSet<_> = history.lines.iter().filter_map(|line| line.uuid).collect();
        let is_old = |frame: &Frame| frame.uuid.is_some_and(|uuid| known.contains(&uuid));
        let new: Vec<_> = earlier.into_iter().chain(held).collect();
        // Pieces of what the history has whole are of no use.
        let last_old = new.iter().rposition(is_old).map_or(0, |last| last + 1);
        let (mut told, mut has_pieces) = (HashSet::new(), false);
        for (number, frame) in new.iter().enumerate() {
            let is_late = match frame.keep {
                Keep::Piece => number < last_old,
                Keep::End => number < last_old || !has_pieces,
                _ => false,
            };
            let is_repeated = frame.uuid.is_some_and(|uuid| !told.insert(uuid));
            if !is_late && !is_repeated && !is_old(frame) {
                has_pieces |= frame.keep == Keep::Piece;
                member.say(&frame.text);
            }
        }
        if member.subscriber.principal.allows(Scope::Approvals) {
            // It may show one that was settled while it was away.
            for (_, told) in &self.settled {
                member.say(told);
            }
            for waiting in &self.waiting {
                member.say(&waiting.frame);
            }
        }
    }

    /// Tells all, unless they know already.
    pub fn tell(&mut self, frame: &Frame) {
        self.tell_as(frame, false);
    }

    /// The same; `is_saved` says whether the transcript has what is a line.
    pub fn tell_as(&mut self, frame: &Frame, is_saved: bool) {
        if frame.keep != Keep::Nothing && frame.uuid.is_some_and(|uuid| !self.seen.insert(uuid)) {
            return;
        }
        match frame.keep {
            Keep::Piece => self.keep_piece(frame),
            Keep::End if !self.pieces.is_empty() => self.keep_piece(frame),
            Keep::Line => {
                self.forget_pieces();
                if !is_saved {
                    self.unsaved.push(frame.clone());
                }
            }
            Keep::Echo => self.unsaved.push(frame.clone()),
            Keep::End | Keep::Nothing => {}
        }
        // Who has gone takes nothing any more; while the history was read for it, it may have
        // left before it came in.
        self.members.retain(|it| !it.subscriber.outbox.is_closing());
        for member in &mut self.members {
            match &mut member.held {
                Some(held) => held.push(frame.clone()),
                None => member.say(&frame.text),
            }
        }
    }

    /// Tells all but this one, and nobody later.
    pub fn relay(&mut self, from: &str, text: &str) {
        for member in &self.members {
            let is_other = *member.subscriber.conn_id != *from && member.link.is_none();
            if is_other && member.held.is_none() {
                member.subscriber.outbox.answer(text.to_owned());
            }
        }
    }

    /// Somebody has said something here; this is the id of its run.
    pub fn note_said(&mut self, run_id: &str) {
        self.said.push_back(run_id.to_owned());
        if self.said.len() > SAID_MAX {
            self.said.pop_front();
        }
    }

    /// Whether somebody has said here what this run is of; asked once.
    pub fn take_said(&mut self, run_id: &str) -> bool {
        let place = self.said.iter().position(|said| said == run_id);
        place.and_then(|place| self.said.remove(place)).is_some()
    }

    fn keep_piece(&mut self, frame: &Frame) {
        self.pieces_bytes += frame.text.len();
        self.pieces.push_back(frame.clone());
        while self.pieces_bytes > PIECES_MAX {
            let Some(oldest) = self.pieces.pop_front() else { break };
            self.pieces_bytes -= oldest.text.len();
        }
    }

    fn forget_pieces(&mut self) {
        (self.pieces, self.pieces_bytes) = (VecDeque::new(), 0);
    }

    /// A turn begins.
    pub fn set_init(&mut self, frame: Frame) {
        self.tell(&frame);
        self.init = Some(frame);
    }

    /// The turn is over: its lines are in the transcript, but what waits.
    pub fn end_turn(&mut self) {
        self.init = None;
        self.forget_pieces();
        self.unsaved.retain(|frame| frame.keep == Keep::Echo);
    }

    /// These lines are in the transcript.
    pub fn saved(&mut self, uuids: &HashSet<Uuid>) {
        self.unsaved.retain(|frame| frame.uuid.is_none_or(|uuid| !uuids.contains(&uuid)));
    }

    /// These lines will be in no transcript, and neither will what came behind them.
    pub fn forget(&mut self, uuids: &HashSet<Uuid>) {
        self.saved(uuids);
        self.forget_pieces();
    }

    /// A question waits.
    pub fn ask(&mut self, waiting: Waiting) {
        if self.waiting.iter().any(|known| known.id == waiting.id) {
            return;
        }
        for member in self.deciders() {
            member.outbox.answer(waiting.frame.to_string());
        }
        self.waiting.push(waiting);
    }

    /// A question waits no more; `told` is what those hear who could answer it.
    pub fn settle(&mut self, id: &str, told: &str) -> Option<Waiting> {
        let place = self.waiting.iter().position(|waiting| waiting.id == id)?;
        let waiting = self.waiting.remove(place);
        for member in self.deciders() {
            member.outbox.answer(told.to_owned());
        }
        self.settled.push_back((id.to_owned(), told.into()));
        if self.settled.len() > SETTLED_MAX {
            self.settled.pop_front();
        }
        Some(waiting)
    }

    /// What was told of the end of a question, where that is remembered.
    pub fn settled(&self, id: &str) -> Option<&str> {
        self.settled.iter().find(|(settled, _)| settled == id).map(|(_, told)| &**told)
    }

    fn deciders(&self) -> impl Iterator<Item = &Arc<Subscriber>> {
        // Those who are held back hear of what waits with their beginning.
        let ready = self.members.iter().filter(|member| member.held.is_none());
        ready.map(|member| &member.subscriber).filter(|it| it.principal.allows(Scope::Approvals))
    }
}

/// What a connection is told for which something was missed.
fn missed() -> Closing {
    Closing { code: 1008, reason: "read the session again".into(), drains: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Principal;
    use crate::bus::{Batch, Item};
    use crate::support::json;

    const NOTHING: History = History { first: None, lines: Vec::new() };

    fn subscriber() -> Arc<Subscriber> {
        let principal = Arc::new(Principal::of_this_machine());
        Arc::new(Subscriber::new("c".into(), principal, &[]))
    }

    fn told(subscriber: &Subscriber) -> Vec<String> {
        let Batch::Items(items) = subscriber.outbox.take() else { return Vec::new() };
        let text = |item| {
            let Item::Frame(text) = item else { unreachable!("frames alone are told") };
            text
        };
        items.into_iter().map(text).collect()
    }

    #[test]
    fn nothing_is_held_back_for_who_has_gone() {
        let (subscriber, mut state) = (subscriber(), State::default());
        state.enter(&subscriber, None);
        state.tell(&Frame::passing(&json!({})));
        assert_eq!(state.members.len(), 1);
        subscriber.outbox.close(Closing::gone());
        state.tell(&Frame::passing(&json!({})));
        assert!(state.members.is_empty());
    }

    #[test]
    fn who_has_gone_before_the_history_was_read_is_no_reader() {
        let (subscriber, mut state) = (subscriber(), State::default());
        state.leave("c");
        let earlier = state.enter(&subscriber, None);
        subscriber.outbox.close(Closing::gone());
        state.begin("c", &NOTHING, earlier);
        state.tell(&Frame::passing(&json!({})));
        assert!(!state.has_readers());
    }

    #[test]
    fn what_a_turn_begins_with_is_told_once_and_at_its_place() {
        let (subscriber, mut state) = (subscriber(), State::default());
        state.set_init(Frame::passing(&json!("first")));
        let earlier = state.enter(&subscriber, None);
        state.tell(&Frame::passing(&json!("end of the first")));
        state.end_turn();
        state.set_init(Frame::passing(&json!("second")));
        state.begin("c", &NOTHING, earlier);
        assert_eq!(told(&subscriber), [r#""end of the first""#, r#""second""#]);
        let earlier = state.enter(&subscriber, None);
        state.begin("c", &NOTHING, earlier);
        assert_eq!(told(&subscriber), [r#""second""#]);
    }

    #[test]
    fn who_comes_behind_a_line_is_told_no_end_of_its_pieces() {
        let piece = |kind: &str| Frame::piece(&json!({"event": {"type": kind}}));
        let line = Frame::line(Some(Uuid::nil()), &json!("line"));
        let ends = ["content_block_stop", "message_delta", "message_stop"].map(piece);
        let text = |frame: &Frame| frame.text.to_string();
        let (older, newer) = (NOTHING, History { first: None, lines: vec![line.clone()] });
        let alone = vec![text(&line)];
        let mut whole = vec![text(&piece("x")), text(&line)];
        whole.extend(ends.iter().map(text));
        // Behind all of it; and before its line, with a history that is older or has it.
        for (is_before, history, expected) in
            [(false, &older, &alone), (true, &older, &whole), (true, &newer, &alone)]
        {
            let (subscriber, mut state) = (subscriber(), State::default());
            state.tell(&piece("x"));
            let early = is_before.then(|| state.enter(&subscriber, None));
            for frame in std::iter::once(&line).chain(&ends) {
                state.tell(frame);
            }
            let earlier = early.unwrap_or_else(|| state.enter(&subscriber, None));
            state.begin("c", history, earlier);
            assert_eq!(told(&subscriber), *expected);
        }
    }

    #[test]
    fn who_comes_when_something_was_missed_has_to_come_again() {
        let (before, after) = (subscriber(), subscriber());
        let mut state = State::default();
        state.enter(&before, None);
        state.end();
        state.enter(&after, None);
        assert!(before.outbox.is_closing() && after.outbox.is_closing());
    }
}
