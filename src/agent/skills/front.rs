//! The head of a `SKILL.md`: YAML between two lines of dashes.
//!
//! Promises: a head of any content is read in bounded time and memory, or
//! refused with a reason; one that is no strict YAML, as an unquoted colon
//! makes it, is read line by line, as the original does.

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// A head is some lines; the text below it may be long.
const MAX_HEAD_BYTES: usize = 32 * 1024;
/// Far more than a head has; keeps nested texts from being unfolded for long.
const MAX_EVENTS: usize = 4_096;
/// As deep as anybody writes.
const MAX_DEPTH: usize = 16;
/// Longest name. It is shown, and is part of commands.
const MAX_NAME_CHARS: usize = 64;
/// Longest description, as in the format's definition.
const MAX_DESCRIPTION_CHARS: usize = 1_024;
/// Names in one list of requirements.
const MAX_LIST: usize = 64;
/// Longest name in such a list.
const MAX_ITEM_CHARS: usize = 200;

/// Why a `SKILL.md` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// It does not begin with a head.
    #[error("SKILL.md does not begin with a head between two lines of ---")]
    NoHead,
    /// The head is too long.
    #[error("the head of SKILL.md is longer than {MAX_HEAD_BYTES} bytes")]
    TooLong,
    /// Nobody could tell what it is for.
    #[error("the head of SKILL.md has no description")]
    NoDescription,
    /// Nobody could read what it is for.
    #[error("the head of SKILL.md is no YAML: see line {0}; no description is found in it")]
    BadYaml(usize),
    /// The name cannot be shown.
    #[error("the name in SKILL.md must have 1 to {MAX_NAME_CHARS} characters of one line")]
    BadName,
}

/// What the head of a skill says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// Its name; that of its folder when it says none.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its name in `skills.entries`.
    pub key: String,
    /// Where to read about what it uses.
    pub homepage: Option<String>,
    /// Its emoji.
    pub emoji: Option<String>,
    /// The variable that `apiKey` is the value of.
    pub primary_env: Option<String>,
    /// Whether it needs nothing, whatever it says.
    pub is_always: bool,
    /// Whether a chat may name it as a command.
    pub is_user_invocable: bool,
    /// Whether the model is told of it.
    pub is_model_invocable: bool,
    /// The tool that its command calls, instead of asking the model.
    pub command_tool: Option<String>,
    /// What must be there.
    pub requires: Requires,
}

/// What must be there for a skill to work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requires {
    /// All of these programs.
    pub bins: Vec<String>,
    /// One of these programs.
    pub any_bins: Vec<String>,
    /// These variables.
    pub env: Vec<String>,
    /// Something at these paths of the config.
    pub config: Vec<String>,
    /// One of these systems: `linux`, `darwin`, `win32`.
    pub os: Vec<String>,
}

impl Head {
    /// Reads the head of a `SKILL.md` in the folder `folder`.
    ///
    /// # Errors
    /// When there is no head, or one that says too little or too much.
    pub fn parse(text: &str, folder: &str) -> Result<Self, HeadError> {
        let head = cut(text)?;
        let members = yaml(head).unwrap_or_else(|| lines(head));
        let member = |name: &str| text_of(&members, name);
        let name = member("name").unwrap_or_else(|| folder.to_owned());
        let is_name = |c: char| !c.is_control();
        if name.is_empty()
            || name.chars().nth(MAX_NAME_CHARS).is_some()
            || !name.chars().all(is_name)
        {
            return Err(HeadError::BadName);
        }
        let description = member("description").ok_or_else(|| undescribed(head))?;
        let description: String =
            one_line(&description).chars().take(MAX_DESCRIPTION_CHARS).collect();
        let manifest = manifest(&members);
        let inner = |name: &str| text_of(&manifest, name);
        let is_tool =
            member("command-dispatch").is_some_and(|kind| kind.eq_ignore_ascii_case("tool"));
        Ok(Self {
            key: inner("skillKey").unwrap_or_else(|| name.clone()),
            name,
            description,
            homepage: member("homepage")
                .or_else(|| member("website"))
                .or_else(|| member("url"))
                .or_else(|| inner("homepage")),
            emoji: inner("emoji"),
            primary_env: inner("primaryEnv"),
            is_always: flag_of(&manifest, "always", false),
            is_user_invocable: flag_of(&members, "user-invocable", true),
            is_model_invocable: !flag_of(&members, "disable-model-invocation", false),
            command_tool: member("command-tool").filter(|_| is_tool),
            requires: requires(&manifest),
        })
    }
}

/// The text between the dashes.
fn cut(text: &str) -> Result<&str, HeadError> {
    let text = text.trim_start_matches('\u{feff}');
    let is_dashes = |line: &str| line.trim_end() == "---";
    let mut rest = text;
    let first = rest.split_inclusive('\n').next().unwrap_or_default();
    if !is_dashes(first) {
        return Err(HeadError::NoHead);
    }
    rest = rest.get(first.len()..).unwrap_or_default();
    let mut length = 0;
    for line in rest.split_inclusive('\n') {
        if is_dashes(line) {
            return rest.get(..length).ok_or(HeadError::NoHead);
        }
        length += line.len();
        if length > MAX_HEAD_BYTES {
            return Err(HeadError::TooLong);
        }
    }
    Err(HeadError::NoHead)
}

/// The head as YAML; its scalars stay texts, as they are written.
fn yaml(head: &str) -> Option<Map<String, Value>> {
    let events = Parser::new_from_str(head).take(MAX_EVENTS);
    let mut events = events.map_while(|event| event.ok().map(|(event, _)| event));
    let starts = [events.next()?, events.next()?];
    let [Event::StreamStart, Event::DocumentStart(..)] = starts else { return None };
    let head = events.next().and_then(|first| node(first, &mut events, 0))?;
    let ends = [events.next()?, events.next()?];
    match (head, ends) {
        (Value::Object(members), [Event::DocumentEnd, Event::StreamEnd]) => Some(members),
        _ => None,
    }
}

/// Why a head has no description: it has none, or it cannot be read from a line of the file on.
fn undescribed(head: &str) -> HeadError {
    let broken = Parser::new_from_str(head).take(MAX_EVENTS).find_map(Result::err);
    // The first line of the file is dashes.
    broken.map_or(HeadError::NoDescription, |error| HeadError::BadYaml(error.marker().line() + 1))
}

/// What begins with `first`. Of a member that is there twice the last counts; an alias, which
/// can stand for many times its own length, is nothing that a head has.
fn node<'a>(
    first: Event<'a>,
    events: &mut impl Iterator<Item = Event<'a>>,
    depth: usize,
) -> Option<Value> {
    match first {
        Event::Scalar(text, ScalarStyle::Plain, ..)
            if ["", "~", "null", "Null", "NULL"].contains(&&*text) =>
        {
            Some(Value::Null)
        }
        Event::Scalar(text, ..) => Some(Value::String(text.into_owned())),
        Event::SequenceStart(..) if depth < MAX_DEPTH => {
            let mut items = Vec::new();
            loop {
                match events.next()? {
                    Event::SequenceEnd => return Some(Value::Array(items)),
                    first => items.push(node(first, events, depth + 1)?),
                }
            }
        }
        Event::MappingStart(..) if depth < MAX_DEPTH => {
            let mut members = Map::new();
            loop {
                let name = match events.next()? {
                    Event::MappingEnd => return Some(Value::Object(members)),
                    Event::Scalar(name, ..) => name.into_owned(),
                    _ => return None,
                };
                let first = events.next()?;
                members.insert(name, node(first, events, depth + 1)?);
            }
        }
        _ => None,
    }
}

/// `name: value` at the beginning of lines; what is indented belongs to the
/// value before it.
fn lines(head: &str) -> Map<String, Value> {
    let mut members = Map::new();
    let mut last: Option<String> = None;
    for line in head.lines() {
        let is_inner = line.starts_with([' ', '\t']);
        if let (true, Some(name)) = (is_inner, &last) {
            if let Some(Value::String(text)) = members.get_mut(name) {
                text.push(' ');
                text.push_str(line.trim());
            }
            continue;
        }
        let Some((name, value)) = line.split_once(':').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let value = value.trim();
        let bare = ["\"", "'"].iter().find_map(|quote| {
            value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote))
        });
        let value = match bare {
            Some(bare) => bare,
            None if matches!(value, "|" | ">" | "|-" | ">-") => "",
            None => value,
        };
        members.insert(name.trim().to_owned(), Value::String(value.to_owned()));
        last = Some(name.trim().to_owned());
    }
    members
}

/// The part of `metadata` that is meant for us, under any of its names. It may
/// be written as YAML or as a text of JSON.
fn manifest(members: &Map<String, Value>) -> Map<String, Value> {
    let metadata = match members.get("metadata") {
        Some(Value::Object(metadata)) => metadata.clone(),
        Some(Value::String(text)) => {
            let path = std::path::Path::new("metadata");
            // The config's reader: JSON5, and not nested without end.
            match crate::config::parse(text, path) {
                Ok(Value::Object(metadata)) => metadata,
                _ => Map::new(),
            }
        }
        _ => Map::new(),
    };
    let names = ["openclaw", "clawgate", "clawdbot", "clawdis", "moltbot"];
    let found = names.iter().find_map(|name| metadata.get(*name)?.as_object());
    found.cloned().unwrap_or_default()
}

fn requires(manifest: &Map<String, Value>) -> Requires {
    let empty = Map::new();
    let inner = manifest.get("requires").and_then(Value::as_object).unwrap_or(&empty);
    Requires {
        bins: list_of(inner, "bins"),
        any_bins: list_of(inner, "anyBins"),
        env: list_of(inner, "env"),
        config: list_of(inner, "config"),
        os: list_of(manifest, "os"),
    }
}

fn text_of(members: &Map<String, Value>, name: &str) -> Option<String> {
    let text = match members.get(name)? {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

fn flag_of(members: &Map<String, Value>, name: &str, default: bool) -> bool {
    match text_of(members, name).map(|text| text.to_lowercase()).as_deref() {
        Some("true" | "yes" | "on" | "1") => true,
        Some("false" | "no" | "off" | "0") => false,
        _ => default,
    }
}

/// A list of names, or one text with commas.
fn list_of(members: &Map<String, Value>, name: &str) -> Vec<String> {
    let texts: Vec<&str> = match members.get(name) {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(text)) => text.split(',').collect(),
        _ => Vec::new(),
    };
    let texts = texts.into_iter().map(str::trim);
    let fits = |text: &&str| !text.is_empty() && text.len() <= MAX_ITEM_CHARS;
    texts.filter(fits).take(MAX_LIST).map(str::to_owned).collect()
}

fn one_line(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::json;
    use proptest::prelude::proptest;

    fn head(head: &str) -> Result<Head, HeadError> {
        Head::parse(&format!("---\n{head}\n---\n# Body\n"), "folder")
    }

    #[test]
    fn a_full_head_is_read_and_metadata_may_be_yaml_or_json() {
        let rest = "requires: {bins: [gh], anyBins: [a, b], env: [GH_TOKEN], config: [channels.x]}";
        let yaml = format!(
            "name: github\ndescription: Work with issues\nhomepage: https://x\nmetadata:\n  openclaw:\n    \
             emoji: 🐙\n    primaryEnv: GH_TOKEN\n    skillKey: gh\n    os: [linux, darwin]\n    {rest}"
        );
        let json = "name: github\ndescription: Work with issues\nhomepage: https://x\nmetadata: \
             '{\"openclaw\":{\"emoji\":\"🐙\",\"primaryEnv\":\"GH_TOKEN\",\"skillKey\":\"gh\",\"os\":\"linux, darwin\",\
             \"requires\":{\"bins\":[\"gh\"],\"anyBins\":[\"a\",\"b\"],\"env\":[\"GH_TOKEN\"],\"config\":[\"channels.x\"]}}}'";
        let expected = Head {
            name: "github".into(),
            description: "Work with issues".into(),
            key: "gh".into(),
            homepage: Some("https://x".into()),
            emoji: Some("🐙".into()),
            primary_env: Some("GH_TOKEN".into()),
            is_user_invocable: true,
            is_model_invocable: true,
            requires: Requires {
                bins: vec!["gh".into()],
                any_bins: vec!["a".into(), "b".into()],
                env: vec!["GH_TOKEN".into()],
                config: vec!["channels.x".into()],
                os: vec!["linux".into(), "darwin".into()],
            },
            ..Head::default()
        };
        assert_eq!(head(&yaml).unwrap(), expected);
        assert_eq!(head(json).unwrap(), expected);
    }

    #[test]
    fn switches_and_defaults_are_those_of_the_format() {
        let head =
            head("description: >\n  Long\n  text\nuser-invocable: no\ndisable-model-invocation: \"true\"\n\
                  command-dispatch: tool\ncommand-tool: exec\nmetadata: {openclaw: {always: true}}")
                .unwrap();
        assert_eq!((head.name.as_str(), head.key.as_str()), ("folder", "folder"));
        assert_eq!(head.description, "Long text");
        assert!(!head.is_user_invocable && !head.is_model_invocable && head.is_always);
        assert_eq!(head.command_tool.as_deref(), Some("exec"));
    }

    #[test]
    fn a_head_that_is_no_strict_yaml_is_read_by_lines() {
        let head = head("name: \"x\"\ndescription: Use when: asked for it\n  and more\nmetadata: {\"openclaw\": {\"emoji\": \"🧩\"}}")
            .unwrap();
        assert_eq!((head.name.as_str(), head.emoji.as_deref()), ("x", Some("🧩")));
        assert_eq!(head.description, "Use when: asked for it and more");
    }

    #[test]
    fn what_is_no_skill_is_told_why() {
        assert_eq!(Head::parse("# Title\n", "f"), Err(HeadError::NoHead));
        assert_eq!(Head::parse("---\nname: x\n", "f"), Err(HeadError::NoHead));
        assert_eq!(head("name: x"), Err(HeadError::NoDescription));
        let broken = head("name: x\n description: d");
        assert!(matches!(broken, Err(HeadError::BadYaml(2..=4))), "{broken:?}");
        assert_eq!(
            head(&format!("name: {}\ndescription: d", "x".repeat(65))),
            Err(HeadError::BadName)
        );
        assert_eq!(head("name: \"a\\nb\"\ndescription: d"), Err(HeadError::BadName));
        assert_eq!(head(&"x: y\n".repeat(10_000)), Err(HeadError::TooLong));
    }

    #[test]
    fn scalars_are_texts_as_they_are_written() {
        let members =
            yaml("a: 007\nb: y\nc: ~\nd: null\ne: \"null\"\nf:\ng: [1.0, no, ]\na: 1e3 # x")
                .unwrap();
        let expected = json!({
            "a": "1e3", "b": "y", "c": null, "d": null, "e": "null", "f": null, "g": ["1.0", "no"],
        });
        assert_eq!(Value::Object(members), expected);
        for none in ["- a", "text", "", "a: 1\n---\nb: 2", "? [a]\n: b", "a: [", "&a a: *a"] {
            assert_eq!(yaml(none), None, "{none}");
        }
    }

    #[test]
    fn texts_that_unfold_are_not_unfolded() {
        let bomb = "description: d\na: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n\
                    c: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c]";
        assert!(yaml(bomb).is_none());
        assert_eq!(head(bomb).unwrap().description, "d");
        assert!(yaml(&format!("a: {}1{}", "[".repeat(200), "]".repeat(200))).is_none());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}", inner in "[-a-z:{}\\[\\]&*!|>'\"\\n ]{0,200}") {
            let _ = Head::parse(&text, "f");
            let _ = head(&inner);
        }
    }
}
