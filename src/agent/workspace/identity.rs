//! What `IDENTITY.md` says of an agent's name and face.

use crate::config::AgentIdentity;

/// Longest value that counts; a longer line is prose.
const MAX_CHARS: usize = 200;
/// Longest picture inside of the file: it is part of every list of agents.
const MAX_DATA_BYTES: usize = 128 * 1024;

/// Members of `IDENTITY.md`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileIdentity {
    /// What it calls itself.
    pub name: Option<String>,
    /// Its emoji.
    pub emoji: Option<String>,
    /// A few words on its manner: theme, vibe or creature.
    pub theme: Option<String>,
    /// Its picture.
    pub avatar: Option<Avatar>,
    /// Where its picture is, when the file says a path.
    pub avatar_path: Option<String>,
}

/// A picture that a client can show by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Avatar {
    /// An address.
    Remote(String),
    /// The picture itself.
    Data(String),
    /// The same, read out of a file of the workspace.
    Local(String),
}

impl Avatar {
    /// The picture that `text` stands for; `None` for a path.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let lower = text.get(..11).unwrap_or(text).to_lowercase();
        if lower.starts_with("https://") || lower.starts_with("http://") {
            return (text.chars().nth(MAX_CHARS * 10).is_none()).then(|| Self::Remote(text.into()));
        }
        let fits = lower.starts_with("data:image/") && text.len() <= MAX_DATA_BYTES;
        fits.then(|| Self::Data(text.into()))
    }

    /// What a client puts into an image element.
    pub fn source(&self) -> &str {
        match self {
            Self::Remote(text) | Self::Data(text) | Self::Local(text) => text,
        }
    }

    /// Whether it is an address.
    pub const fn is_remote(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// `avatarStatus` on the wire.
    pub const fn status(&self) -> &'static str {
        match self {
            Self::Remote(_) => "remote",
            Self::Data(_) => "data",
            Self::Local(_) => "local",
        }
    }
}

/// Reads lines such as `- **Name:** Inky`. What stands in parentheses or is
/// empty is a place to be filled in.
pub fn parse(text: &str) -> FileIdentity {
    let mut identity = FileIdentity::default();
    let (mut vibe, mut creature) = (None, None);
    for line in text.lines() {
        let line = line.trim().trim_start_matches(['-', '*', '+']).trim_start();
        let Some((label, value)) = line.split_once(':') else { continue };
        let marks: &[char] = &['*', '_', '`', ' ', '\t'];
        let value = value.trim_matches(marks);
        if value.is_empty() || (value.starts_with('(') && value.ends_with(')')) {
            continue;
        }
        let label = label.trim_matches(marks).to_lowercase();
        if label == "avatar" {
            if identity.avatar.is_none() && identity.avatar_path.is_none() {
                identity.avatar = Avatar::parse(value);
                let is_path = identity.avatar.is_none() && value.len() <= MAX_CHARS;
                identity.avatar_path = is_path.then(|| value.to_owned());
            }
            continue;
        }
        if value.chars().nth(MAX_CHARS).is_some() {
            continue;
        }
        let member = match label.as_str() {
            "name" => &mut identity.name,
            "emoji" => &mut identity.emoji,
            "theme" => &mut identity.theme,
            "vibe" => &mut vibe,
            "creature" => &mut creature,
            _ => continue,
        };
        member.get_or_insert_with(|| value.to_owned());
    }
    identity.theme = identity.theme.or(vibe).or(creature);
    identity
}

/// `text` with what is known of an agent: a line that is there gets the value, a
/// missing one is added behind the last of its kind.
pub fn presented(text: &str, identity: &AgentIdentity) -> String {
    let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
    let known = [
        ("Name", &identity.name),
        ("Theme", &identity.theme),
        ("Emoji", &identity.emoji),
        ("Avatar", &identity.avatar),
    ];
    for (label, value) in known {
        let Some(value) = value else { continue };
        let is_label = |line: &String, wanted: &str| label_of(line).is_some_and(|it| it == wanted);
        let wanted = label.to_lowercase();
        if let Some(line) = lines.iter_mut().find(|line| is_label(line, &wanted)) {
            let colon = line.find(':').map_or(line.len(), |at| at + 1);
            let marks = line.get(colon..).unwrap_or_default();
            let marks = marks.len() - marks.trim_start_matches(['*', '_']).len();
            line.truncate(colon + marks);
            line.push(' ');
            line.push_str(value);
        } else {
            let last = lines.iter().rposition(|line| LABELS.iter().any(|it| is_label(line, it)));
            let at = last.map_or(lines.len(), |last| last + 1);
            lines.insert(at, format!("- **{label}:** {value}"));
        }
    }
    lines.join("\n") + "\n"
}

/// The labels of an identity, lowered.
const LABELS: [&str; 6] = ["name", "emoji", "theme", "vibe", "creature", "avatar"];

/// What stands before the colon of a line, lowered and without marks.
fn label_of(line: &str) -> Option<String> {
    let (label, _) = line.trim().trim_start_matches(['-', '*', '+']).split_once(':')?;
    Some(label.trim_matches(['*', '_', '`', ' ', '\t']).to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::workspace::BootstrapFile;

    #[test]
    fn the_usual_ways_of_writing_a_line_are_understood() {
        let identity = parse(
            "# IDENTITY.md\n- **Name:** Inky\n* _Emoji_: 🐙\nCreature: octopus\n- Vibe: **calm**\n\
             - **Avatar:** https://example.org/a.png\n- Name: Second\n",
        );
        assert_eq!(
            identity,
            FileIdentity {
                name: Some("Inky".into()),
                emoji: Some("🐙".into()),
                theme: Some("calm".into()),
                avatar: Some(Avatar::Remote("https://example.org/a.png".into())),
                avatar_path: None,
            }
        );
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let identity = AgentIdentity {
            name: Some("Ref: Two".into()),
            emoji: Some("🦀".into()),
            theme: Some("calm".into()),
            avatar: None,
        };
        let template = BootstrapFile::Identity.template();
        let text = presented(template, &identity);
        let read = parse(&text);
        assert_eq!(
            (read.name, read.emoji, read.theme),
            (identity.name.clone(), identity.emoji.clone(), identity.theme.clone())
        );
        assert!(text.ends_with("data URI.\n") && text.contains("- **Creature:**\n"), "{text}");
        assert_eq!(presented(&text, &identity), text);
        let own = presented(
            "I am me.\n* _Name_: Old\n",
            &AgentIdentity { name: Some("New".into()), ..identity },
        );
        assert_eq!(own, "I am me.\n* _Name_: New\n- **Theme:** calm\n- **Emoji:** 🦀\n");
    }

    #[test]
    fn places_to_be_filled_in_are_no_identity() {
        assert_eq!(parse(BootstrapFile::Identity.template()), FileIdentity::default());
        assert_eq!(parse("- Name: _(pick one)_\n- Emoji:\n"), FileIdentity::default());
    }

    #[test]
    fn a_picture_is_an_address_or_the_picture_itself() {
        assert_eq!(Avatar::parse(" HTTPS://x/y").unwrap().status(), "remote");
        assert_eq!(Avatar::parse("data:image/png;base64,AA").unwrap().status(), "data");
        for text in ["a.png", "data:text/html,x", "javascript:alert(1)", "", "ü"] {
            assert_eq!(Avatar::parse(text), None, "{text}");
        }
    }
}
