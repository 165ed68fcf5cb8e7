//! The text of a run, shown while it comes.
//!
//! Owns: which part of it is on the screen. Promises: each part is given out
//! once, whether increments are joined, lost or only known at the end.

/// What has been given out so far.
#[derive(Debug, Default)]
pub struct Streamed {
    /// All turns, joined as the final text joins them.
    all: String,
    /// The current model turn.
    turn: String,
    /// The run had said something else before.
    is_joined: bool,
}

impl Streamed {
    /// What a run says from now on that answered another message until now.
    pub fn joined() -> Self {
        Self { is_joined: true, ..Self::default() }
    }

    /// Whether it is that of a run that answered another message before.
    pub const fn is_joined(&self) -> bool {
        self.is_joined
    }

    /// Whether nothing has been given out.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A tool is called: the next text belongs to another model turn.
    pub fn end_turn(&mut self) {
        self.turn.clear();
    }

    /// Takes an increment, beside it the whole turn if known; gives what is to
    /// be shown. The whole turn makes up for increments that were dropped on a
    /// slow connection.
    pub fn push(&mut self, delta: &str, whole: Option<&str>) -> String {
        // Events that only bring pictures have no text.
        let whole = whole.filter(|text| !text.is_empty());
        let begins_turn = whole == Some(delta);
        if begins_turn {
            self.turn.clear();
        }
        let fresh = match whole {
            // The turn was taken back in part, such as a tag that is now complete.
            Some(whole) if self.turn.starts_with(whole) => {
                self.turn.truncate(whole.len());
                ""
            }
            Some(whole) => whole.strip_prefix(self.turn.as_str()).unwrap_or_else(|| {
                self.turn.clear();
                whole
            }),
            None => delta,
        }
        .to_owned();
        self.turn.push_str(&fresh);
        self.all.push_str(&fresh);
        fresh
    }

    /// Takes the final text; gives what is still to be shown of it. Final
    /// texts are trimmed, so space at the ends makes no difference.
    pub fn finish(&mut self, text: &str) -> String {
        let (shown, full) = (self.all.trim(), text.trim());
        let rest = if shown.is_empty() {
            text.to_owned()
        } else if let Some(rest) = text.strip_prefix(self.all.as_str()) {
            rest.to_owned()
        } else if shown.starts_with(full) || (self.is_joined && full.ends_with(shown)) {
            String::new()
        } else if let Some(rest) = full.strip_prefix(shown) {
            rest.to_owned()
        } else {
            // Not what was streamed: what counts is what the session keeps.
            format!("\n{full}")
        };
        self.all.push_str(&rest);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out all that is shown for these increments.
    fn shown(streamed: &mut Streamed, pushes: &[(&str, Option<&str>)]) -> String {
        pushes.iter().map(|(delta, whole)| streamed.push(delta, *whole)).collect()
    }

    #[test]
    fn increments_are_shown_as_they_come() {
        for whole in [true, false] {
            let mut streamed = Streamed::default();
            let text = |text| whole.then_some(text);
            let pushes = [("w1", text("w1")), (" w2", text("w1 w2")), ("", text("w1 w2"))];
            assert_eq!(shown(&mut streamed, &pushes), "w1 w2");
            assert_eq!(streamed.finish("w1 w2"), "");
        }
    }

    #[test]
    fn a_lost_increment_is_made_up_from_the_whole_turn() {
        let mut streamed = Streamed::default();
        let pushes = [("a", Some("a")), ("d", Some("abcd"))];
        assert_eq!(shown(&mut streamed, &pushes), "abcd");
    }

    #[test]
    fn turns_are_joined_as_the_final_text_joins_them() {
        let mut streamed = Streamed::default();
        let first = [("OK", Some("OK")), (".", Some("OK."))];
        assert_eq!(shown(&mut streamed, &first), "OK.");
        streamed.end_turn();
        let second = [("OK", Some("OK")), (" done", Some("OK done"))];
        assert_eq!(shown(&mut streamed, &second), "OK done");
        assert_eq!(streamed.finish("OK.OK done"), "");
    }

    #[test]
    fn a_second_turn_is_noticed_without_a_tool_event() {
        let mut streamed = Streamed::default();
        let pushes = [("OK", Some("OK")), ("OK", Some("OK")), ("!", Some("OK!"))];
        assert_eq!(shown(&mut streamed, &pushes), "OKOK!");
        let mut lossy = Streamed::default();
        let pushes = [("one", Some("one")), (" b", Some("two a b"))];
        assert_eq!(shown(&mut lossy, &pushes), "onetwo a b");
    }

    #[test]
    fn text_that_is_taken_back_is_not_shown_again() {
        let mut streamed = Streamed::default();
        let pushes = [("a<th", Some("a<th")), ("", Some("a")), ("", Some("")), ("b", Some("ab"))];
        assert_eq!(shown(&mut streamed, &pushes), "a<thb");
    }

    #[test]
    fn of_a_run_that_was_joined_only_what_comes_then_is_shown() {
        let mut streamed = Streamed::joined();
        let pushes = [("new", Some("new")), (" words", Some("new words"))];
        assert_eq!(shown(&mut streamed, &pushes), "new words");
        assert_eq!(streamed.finish("old words new words"), "");
        // Of what came before nothing is known here.
        assert_eq!(Streamed::joined().finish("old words new words"), "old words new words");
    }

    #[test]
    fn the_final_text_adds_only_what_is_missing() {
        for (pushed, finals, rest) in [
            ("", "all of it\n", "all of it\n"),
            ("w1", "w1 w2", " w2"),
            ("w1 ", "w1", ""),
            ("\nw1", "w1 w2", " w2"),
            ("w1 NO", "w1", ""),
            ("other", "w1 w2", "\nw1 w2"),
        ] {
            let mut streamed = Streamed::default();
            streamed.push(pushed, None);
            assert_eq!(streamed.finish(finals), rest, "{pushed:?} then {finals:?}");
        }
    }
}
