//! What tools of servers are called here, and which of them are taken.
//!
//! Source: names of OpenClaw, `<server>__<tool>`.

/// Stands between server and tool.
pub const SEPARATOR: &str = "__";
/// Longest part for the server.
const SERVER_MAX: usize = 30;
/// Longest name that all model APIs take.
const NAME_MAX: usize = 64;

/// The name of a server's tool for the model.
pub fn name(server: &str, tool: &str) -> String {
    let server: String = plain(server, "mcp").chars().take(SERVER_MAX).collect();
    let name = format!("{server}{SEPARATOR}{}", plain(tool, "tool"));
    name.chars().take(NAME_MAX).collect()
}

/// In the letters that all model APIs take, beginning with one.
fn plain(text: &str, fallback: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let text: String = text.trim().chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    match text.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => text,
        Some(_) => format!("{fallback}-{text}"),
        None => fallback.to_owned(),
    }
}

/// Whether the lists of a server let a tool through: by its own name, or by
/// that for the model; `*` stands for anything.
pub fn is_wanted(include: &[String], exclude: &[String], tool: &str, name: &str) -> bool {
    let means = |pattern: &String| matches(pattern.trim(), tool) || matches(pattern.trim(), name);
    (include.is_empty() || include.iter().any(means)) && !exclude.iter().any(means)
}

fn matches(pattern: &str, name: &str) -> bool {
    let Some((begin, mut rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(begin) else { return false };
    while let Some((middle, after)) = rest.split_once('*') {
        let Some((_, later)) = name.split_once(middle) else { return false };
        (name, rest) = (later, after);
    }
    name.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_openclaw_and_fit_every_model() {
        assert_eq!(name("docs", "read_page"), "docs__read_page");
        assert_eq!(name("my server.1", "a/b c"), "my-server-1__a-b-c");
        assert_eq!(name("1st", "2nd"), "mcp-1st__tool-2nd");
        assert_eq!(name("", " "), "mcp__tool");
        assert_eq!(name("ünïcode", "grün"), "mcp--n-code__gr-n");
        let long = name(&"s".repeat(50), &"t".repeat(100));
        assert_eq!((long.len(), long.find("__")), (64, Some(30)));
    }

    #[test]
    fn lists_name_tools_by_either_name() {
        let wanted = |include: &[&str], exclude: &[&str]| {
            let list = |names: &[&str]| names.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
            is_wanted(&list(include), &list(exclude), "read_page", "docs__read_page")
        };
        assert!(wanted(&[], &[]) && wanted(&["read_*"], &[]) && wanted(&["docs__*"], &["write_*"]));
        assert!(wanted(&["*_p*e"], &[]) && wanted(&["*"], &["*x*"]));
        assert!(!wanted(&["write"], &[]) && !wanted(&["*"], &["docs__read_page"]));
        assert!(!wanted(&["read_"], &[]) && !wanted(&["*_p*x"], &[]));
    }
}
