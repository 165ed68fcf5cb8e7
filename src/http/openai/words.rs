//! A conversation that comes with its history, as one message to an agent.
//!
//! Promises: what is new is the message; what came before is told above it, and
//! only where the session does not know it already.

use std::fmt::Write as _;

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

/// Index of the first entry that is new: the last word of the user, or what his
/// tools have answered since the agent asked them.
pub fn first_new(entries: &[Entry]) -> Option<usize> {
    let last = entries.iter().rposition(|entry| entry.who != Who::Assistant)?;
    let is_tool = |entry: &Entry| matches!(entry.who, Who::Tool(_));
    if !is_tool(&entries[last]) {
        return Some(last);
    }
    let before = entries[..last].iter().rposition(|entry| !is_tool(entry));
    Some(before.map_or(0, |before| before + 1))
}

/// The message. `is_known` says that the session has what was said before.
pub fn message(entries: &[Entry], is_known: bool) -> String {
    let Some(first) = first_new(entries) else { return String::new() };
    let last = entries.iter().rposition(|entry| entry.who != Who::Assistant).unwrap_or(first);
    let (earlier, new) = (&entries[..first], &entries[first..=last]);
    let mut lines: Vec<_> = new.iter().map(Entry::line).collect();
    if let ([Entry { who: Who::User, text }], true) = (new, is_known || earlier.is_empty()) {
        lines = vec![text.clone()];
    }
    let new = lines.join("\n");
    if is_known || earlier.is_empty() {
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
}
