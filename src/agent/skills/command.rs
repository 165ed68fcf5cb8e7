//! Skills as commands of a chat: `/skill <name> [words]` and `/<name> [words]`.

use serde_json::Value;

use crate::support::json;

use super::check::Verdict;

/// The command that takes the name of a skill.
const SKILL: &str = "skill";
/// Longest name of a command, as in the original.
const MAX_NAME: usize = 32;
/// Longest description of one, as in the original.
const MAX_DESCRIPTION: usize = 100;

/// A skill that a chat may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillCommand {
    /// The word after the slash: `a-z`, `0-9`, `_`.
    pub name: String,
    /// The skill's own name.
    pub skill: String,
    /// What it is for, in a few words.
    pub description: String,
    file: String,
    tool: Option<String>,
}

/// What a message that names a skill asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// The model is to get this instead of the message.
    Message(String),
    /// A tool is to be called, without the model.
    Tool {
        /// Its name.
        tool: String,
        /// Its arguments: `command`, `commandName`, `skillName`.
        arguments: Value,
    },
    /// `/skill` with a name that no skill has.
    Unknown(String),
}

/// The commands of the skills that a chat may name; none has a `reserved` name.
pub fn commands(verdicts: &[Verdict], reserved: &[&str]) -> Vec<SkillCommand> {
    let mut commands: Vec<SkillCommand> = Vec::new();
    for verdict in verdicts.iter().filter(|verdict| verdict.is_command_visible()) {
        let head = &verdict.skill.head;
        let is_taken = |name: &str| {
            name == SKILL
                || reserved.contains(&name)
                || commands.iter().any(|command| command.name == name)
        };
        let base = word(&head.name);
        let mut name = base.clone();
        let mut number = 2_usize;
        while is_taken(&name) {
            let end = format!("_{number}");
            name = base.chars().take(MAX_NAME - end.len()).collect::<String>() + &end;
            number += 1;
        }
        commands.push(SkillCommand {
            name,
            skill: head.name.clone(),
            description: short(&head.description),
            file: verdict.skill.file().to_string_lossy().into_owned(),
            tool: head.command_tool.clone(),
        });
    }
    commands
}

/// What `message` asks for; `None` when it names no skill. `/skill` alone is a
/// question to the model, as in the original: it has the list.
pub fn invoke(commands: &[SkillCommand], message: &str) -> Option<Invocation> {
    let (name, words) = split(message.trim().strip_prefix('/')?);
    if !name.eq_ignore_ascii_case(SKILL) {
        let command = commands.iter().find(|command| command.name.eq_ignore_ascii_case(name))?;
        return Some(command.invocation(words));
    }
    let (asked, words) = split(words);
    if asked.is_empty() {
        return None;
    }
    let found = commands
        .iter()
        .find(|command| command.skill.eq_ignore_ascii_case(asked))
        .or_else(|| commands.iter().find(|command| command.name == word(asked)));
    let unknown = || Invocation::Unknown(asked.to_owned());
    Some(found.map_or_else(unknown, |command| command.invocation(words)))
}

impl SkillCommand {
    fn invocation(&self, words: &str) -> Invocation {
        if let Some(tool) = &self.tool {
            let arguments =
                json!({"command": words, "commandName": self.name, "skillName": self.skill});
            return Invocation::Tool { tool: tool.clone(), arguments };
        }
        let mut message = format!(
            "Use the skill \"{}\" for this: read {} and do what it says.",
            self.skill, self.file
        );
        if !words.is_empty() {
            message.push_str("\n\n");
            message.push_str(words);
        }
        Invocation::Message(message)
    }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (first, rest.trim())
}

/// The name as one word of small letters, digits and underscores.
fn word(name: &str) -> String {
    let mut word = String::new();
    for c in name.to_lowercase().chars() {
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            word.push(c);
        } else if !word.is_empty() && !word.ends_with('_') {
            word.push('_');
        }
    }
    let word: String = word.chars().take(MAX_NAME).collect();
    let word = word.trim_end_matches('_');
    if word.is_empty() { SKILL.into() } else { word.into() }
}

fn short(text: &str) -> String {
    if text.chars().nth(MAX_DESCRIPTION).is_none() {
        return text.to_owned();
    }
    text.chars().take(MAX_DESCRIPTION - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::agent::skills::check::Surroundings;
    use crate::agent::skills::scan::{Heads, tests as scan};
    use crate::config::Env;

    fn commands_in(home: &Path, reserved: &[&str]) -> Vec<SkillCommand> {
        let (settings, env) = (scan::settings(home), Env::fixed([], home));
        let config = json!({});
        let mut surroundings = Surroundings::new(&settings, &config, &env);
        let skills = Heads::default().find(&settings, home).into_iter();
        let verdicts: Vec<_> = skills.map(|skill| surroundings.judge(skill, "main")).collect();
        commands(&verdicts, reserved)
    }

    #[test]
    fn names_become_words_and_none_is_taken_twice() {
        let home = tempfile::tempdir().unwrap();
        let skills = home.path().join("skills");
        for (dir, name, more) in [
            ("1", "My Skill!", ""),
            ("2", "my-skill", ""),
            ("3", "status", ""),
            ("4", "ä", ""),
            ("5", "quiet", "user-invocable: false"),
        ] {
            scan::make(&skills.join(dir), name, more);
        }
        let names: Vec<_> = commands_in(home.path(), &["status"])
            .into_iter()
            .map(|command| (command.skill, command.name))
            .collect();
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            names,
            [
                pair("My Skill!", "my_skill"),
                pair("my-skill", "my_skill_2"),
                pair("status", "status_2"),
                pair("ä", "skill_2"),
            ]
        );
    }

    #[test]
    fn a_message_names_a_skill_by_its_command_or_by_its_name() {
        let home = tempfile::tempdir().unwrap();
        scan::make(&home.path().join("skills/n"), "note-taker", "");
        scan::make(
            &home.path().join("skills/r"),
            "run",
            "command-dispatch: tool\ncommand-tool: exec",
        );
        let commands = commands_in(home.path(), &[]);
        let file = home.path().join("skills/n/SKILL.md");
        let expected = format!(
            "Use the skill \"note-taker\" for this: read {} and do what it says.\n\nbuy milk\nand tea",
            file.display()
        );
        for message in [
            "/note_taker buy milk\nand tea",
            "/skill note-taker  buy milk\nand tea",
            "/SKILL Note_Taker buy milk\nand tea",
        ] {
            let invocation = invoke(&commands, message);
            assert_eq!(invocation, Some(Invocation::Message(expected.clone())), "{message}");
        }
        let arguments = json!({"command": "ls -l", "commandName": "run", "skillName": "run"});
        assert_eq!(
            invoke(&commands, "/run ls -l"),
            Some(Invocation::Tool { tool: "exec".into(), arguments })
        );
        assert_eq!(invoke(&commands, "/skill x y"), Some(Invocation::Unknown("x".into())));
        for message in ["note_taker", "/skill", "/other", "/", ""] {
            assert_eq!(invoke(&commands, message), None, "{message}");
        }
    }
}
