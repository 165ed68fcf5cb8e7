//! A conversation that comes with its history, as one message to an agent.
//!
//! Promises: what is new is the message; what came before is told above it, and
//! only where the session does not know it already.

use std::fmt::Write as _;

use crate::handlers::clean;

/// What stands between several texts of a user in one message.
const BETWEEN: &str = "\n\n";

/// What was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// By whom.
    pub who: Who,
    /// In words.
    pub text: String,
}

/// Who said something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// The user.
    User,
    /// The agent.
    Assistant,
    /// A tool of the client, with the call that it answers.
    Tool(String),
}

impl Entry {
    fn line(&self) -> String {
        match &self.who {
            Who::User => format!("User: {}", self.text),
            Who::Assistant => format!("Assistant: {}", self.text),
            Who::Tool(call) => format!("Result of the tool {call}: {}", self.text),
        }
    }
}

/// How a call of a client's tool is told.
pub fn called(name: &str, id: &str, arguments: &str) -> String {
    format!("[called the tool {name} ({id}) with {arguments}]")
}

/// Index of the first entry that is new: what the user and his tools have said since
/// the agent's last word, and all of it when it has said none.
pub fn first_new(entries: &[Entry]) -> Option<usize> {
    let last = entries.iter().rposition(|entry| entry.who != Who::Assistant)?;
    let before = entries[..last].iter().rposition(|entry| entry.who == Who::Assistant);
    Some(before.map_or(0, |before| before + 1))
}

/// How many of these new entries a session has heard already that has not answered
/// these messages of users. The last one is there to be answered.
pub fn heard(new: &[Entry], unanswered: &[String]) -> usize {
    let last = new.iter().rposition(|entry| entry.who != Who::Assistant).unwrap_or_default();
    let of_users = new[..last].iter().take_while(|entry| entry.who == Who::User);
    // As a session keeps it.
    let told: Vec<_> = of_users.map_while(|entry| clean(&entry.text).ok()).collect();
    unanswered.iter().fold(0, |heard, text| heard + together(&told[heard..], text).unwrap_or(0))
}

/// How many of these texts, from the first on, one message has told together.
fn together(told: &[String], message: &str) -> Option<usize> {
    let mut rest = message;
    for (index, text) in told.iter().enumerate() {
        let is_first = rest.len() == message.len();
        let between = if is_first || text.is_empty() { "" } else { BETWEEN };
        rest = rest.strip_prefix(between)?.strip_prefix(text.as_str())?;
        if rest.is_empty() {
            return Some(index + 1);
        }
    }
    None
}

/// The message. `is_known` says that the session has what was said before.
pub fn message(entries: &[Entry], is_known: bool) -> String {
    let Some(first) = first_new(entries) else { return String::new() };
    let last = entries.iter().rposition(|entry| entry.who != Who::Assistant).unwrap_or(first);
    let (earlier, new) = (&entries[..first], &entries[first..=last]);
    let is_all = is_known || earlier.is_empty();
    if is_all && new.iter().all(|entry| entry.who == Who::User) {
        let texts = new.iter().map(|entry| entry.text.as_str()).filter(|text| !text.is_empty());
        return texts.collect::<Vec<_>>().join(BETWEEN);
    }
    let new = new.iter().map(Entry::line).collect::<Vec<_>>().join("\n");
    if is_all {
        return new;
    }
    let mut text = String::from("[What was said before, as the client tells it]\n");
    for entry in earlier {
        let _ = writeln!(text, "{}", entry.line());
    }
    let _ = write!(text, "\n[What is to be answered now]\n{new}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(who: Who, text: &str) -> Entry {
        Entry { who, text: text.into() }
    }

    #[test]
    fn one_message_is_itself_and_history_stands_above() {
        let one = [entry(Who::User, "hi")];
        assert_eq!(message(&one, false), "hi");
        let more = [
            entry(Who::User, "first"),
            entry(Who::Assistant, "answer"),
            entry(Who::User, "second"),
        ];
        let told = message(&more, false);
        assert!(told.contains("User: first\nAssistant: answer\n"), "{told}");
        assert!(told.ends_with("\nUser: second"), "{told}");
        assert_eq!(message(&more, true), "second");
    }

    #[test]
    fn what_was_heard_is_known_again_as_the_session_keeps_it() {
        let new = ["cafe\u{301}\u{7}", "", "with\nmilk", "now"].map(|text| entry(Who::User, text));
        let heard = |unanswered: &[&str]| {
            let unanswered: Vec<_> = unanswered.iter().map(|&text| text.to_owned()).collect();
            super::heard(&new, &unanswered)
        };
        assert_eq!(heard(&["caf\u{e9}"]), 1);
        assert_eq!(heard(&["caf\u{e9}\n\nwith\nmilk"]), 3);
        assert_eq!(heard(&["of others", "caf\u{e9}", "with\nmilk"]), 3);
        assert_eq!(heard(&["caf\u{e9}", "", "with\nmilk"]), 3);
        assert_eq!(heard(&["caf\u{e9}\n\nwith\nmilk\n\nnow"]), 0, "the last is said");
        assert_eq!(heard(&["caf\u{e9} with", "with\nmilk"]), 0);
    }

    #[test]
    fn the_answers_of_tools_are_new_together() {
        let all = [
            entry(Who::User, "do"),
            entry(Who::Assistant, &called("a", "1", "{}")),
            entry(Who::Tool("a (1)".into()), "x"),
            entry(Who::Tool("a (2)".into()), "y"),
        ];
        assert_eq!(first_new(&all), Some(2));
        let told = message(&all, true);
        assert_eq!(told, "Result of the tool a (1): x\nResult of the tool a (2): y");
        assert!(message(&all, false).contains("User: do"));
        assert_eq!(first_new(&[entry(Who::Assistant, "x")]), None);
    }

    #[test]
    fn all_that_was_said_since_the_last_answer_is_new() {
        let asked = [entry(Who::User, "a document"), entry(Who::User, ""), entry(Who::User, "sum")];
        assert_eq!(first_new(&asked), Some(0));
        for is_known in [true, false] {
            assert_eq!(message(&asked, is_known), "a document\n\nsum");
        }
        let answered = [entry(Who::User, "do"), entry(Who::Assistant, "what?")];
        let all = [&answered[..], &asked[..]].concat();
        assert_eq!(first_new(&all), Some(2));
        assert_eq!(message(&all, true), message(&asked, true));
        assert!(message(&all, false).ends_with("\nUser: a document\nUser: \nUser: sum"));
        let with_result = [entry(Who::Tool("a (1)".into()), "3"), entry(Who::User, "and now?")];
        for is_known in [true, false] {
            let told = message(&with_result, is_known);
            assert_eq!(told, "Result of the tool a (1): 3\nUser: and now?");
        }
        // What is put into the agent's mouth at the end is not its last word.
        let begun = [&all[..], &[entry(Who::Assistant, "It")][..]].concat();
        assert_eq!(message(&begun, true), message(&asked, true));
    }
}
