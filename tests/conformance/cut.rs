//! Texts of which the recording kept only the beginning.

use serde_json::Value;

/// The beginning of a text that was cut, and how long it was: the recorder puts
/// `…<315 chars>` or `…<315 chars in all>` there.
pub fn beginning(text: &str) -> Option<(&str, usize)> {
    let (head, mark) = text.rsplit_once("…<")?;
    let size = mark.strip_suffix(" chars>").or_else(|| mark.strip_suffix(" chars in all>"))?;
    Some((head, size.parse().ok()?))
}

/// A JSON text that begins so and is so long: its last character is repeated, and
/// what is open is closed.
pub fn refill(head: &str, size: usize) -> String {
    let (open, in_text) = open_at_end(head);
    let mut end = if in_text { "\"".to_owned() } else { String::new() };
    end.extend(open.iter().rev().map(|bracket| closing(*bracket)));
    let fill = head.chars().last().unwrap_or(' ').to_string();
    format!("{head}{}{end}", fill.repeat(size.saturating_sub(head.len() + end.len())))
}

/// What a JSON text that begins so says for certain. What was open at the cut is
/// marked as the recorder marks what it leaves out.
pub fn completed(head: &str) -> Option<Value> {
    let ends = |(at, c): (usize, char)| match c {
        '{' | '[' | '}' | ']' => Some(at + 1),
        ',' => Some(at),
        _ => None,
    };
    let sure = structural(head).filter_map(ends).last()?;
    let (open, _) = open_at_end(&head[..sure]);
    let mut text = head[..sure].to_owned();
    for bracket in open.into_iter().rev() {
        let comma = if text.ends_with(['{', '[']) { "" } else { "," };
        let mark = if bracket == '{' { "\"__folded\":true" } else { "{\"__clipped_items\":true}" };
        text.push_str(&format!("{comma}{mark}{}", closing(bracket)));
    }
    serde_json::from_str(&text).ok()
}

/// The brackets that are open at its end, and whether a string is.
fn open_at_end(text: &str) -> (Vec<char>, bool) {
    let mut open = Vec::new();
    for (_, c) in structural(text) {
        match c {
            '{' | '[' => open.push(c),
            '}' | ']' => drop(open.pop()),
            _ => {}
        }
    }
    let quotes = structural(text).filter(|(_, c)| *c == '"').count();
    (open, quotes % 2 == 1)
}

/// The characters that are in no string, and the quotes around strings.
fn structural(text: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut in_text, mut escaped) = (false, false);
    text.char_indices().filter(move |(_, c)| {
        let was_in_text = in_text;
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = in_text,
            '"' => in_text = !in_text,
            _ => {}
        }
        !was_in_text || !in_text
    })
}

fn closing(bracket: char) -> char {
    if bracket == '{' { '}' } else { ']' }
}
