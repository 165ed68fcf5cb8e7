//! The text that defines the service, made of the samples in `config/`.
//!
//! Promises: nothing of it is secret; a path with any letter in it means itself.

use std::path::{Path, PathBuf};

use super::ServiceError;
use super::manager::Manager;

const UNIT: &str = include_str!("../../../config/clawgate.service");
const PLIST: &str = include_str!("../../../config/ai.clawgate.gateway.plist");

/// What begins every definition of ours.
const WRITTEN_BY: &str = "Written by `clawgate gateway install`, which replaces it when told so.";
/// What the samples have in the place of what is true here.
const SAMPLE_PROGRAM: &str = "/Users/YOU/.local/bin/clawgate";
const SAMPLE_HOME: &str = "/Users/YOU";
/// Behind this come further variables in the plist.
const SAMPLE_VARIABLES: &str = "  <key>EnvironmentVariables</key>\n  <dict>\n";
/// Says which gateway it is.
const STATE_DIR: &str = "OPENCLAW_STATE_DIR";
const LOG_DIR: &str = "OPENCLAW_LOG_DIR";
/// Says where programs are.
pub const SEARCH_PATH: &str = "PATH";

/// What is written into it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// The program.
    pub program: String,
    /// Home of its user.
    pub home: String,
    /// Variables, none of them secret.
    pub variables: Vec<(&'static str, String)>,
    /// Folders that it may write to, beside the usual state directory.
    pub writable: Vec<String>,
}

impl Wanted {
    /// The text of the definition.
    ///
    /// # Errors
    /// When a name cannot stand in it.
    pub fn text(&self, manager: Manager) -> Result<String, ServiceError> {
        let values = self.variables.iter().map(|(_, value)| value);
        let names = [&self.program, &self.home].into_iter().chain(values).chain(&self.writable);
        for name in names {
            if name.chars().any(char::is_control) {
                return Err(ServiceError::Name(name.clone()));
            }
        }
        Ok(match manager {
            Manager::Systemd => self.unit(),
            Manager::Launchd => self.plist(),
        })
    }

    fn unit(&self) -> String {
        let mut text = format!("# {WRITTEN_BY}\n");
        let has = |name: &str| self.variables.iter().any(|(known, _)| *known == name);
        for line in UNIT.lines().skip_while(|line| *line != "[Unit]") {
            match line.split_once('=') {
                // It names the usual config file.
                Some(("Documentation", _)) => {}
                Some(("ExecStart", _)) => {
                    text.extend(["ExecStart=", &quoted(&self.program), " gateway\n"]);
                    for (name, value) in &self.variables {
                        let assigned = quoted(&format!("{name}={value}"));
                        text.extend(["Environment=", &assigned, "\n"]);
                    }
                }
                Some(("Environment", value)) if value.starts_with(LOG_DIR) && has(LOG_DIR) => {}
                Some(("ReadWritePaths", _)) => {
                    text.extend([line, "\n"]);
                    // One that is not there is made by nobody, and is no reason to fail.
                    for folder in &self.writable {
                        let folder = quoted(&format!("-{folder}"));
                        text.extend(["ReadWritePaths=", &folder, "\n"]);
                    }
                }
                _ => text.extend([line, "\n"]),
            }
        }
        text
    }

    fn plist(&self) -> String {
        let (head, rest) = PLIST.split_once("<!--").unwrap_or_default();
        let (_, body) = rest.split_once("-->").unwrap_or_default();
        let variables = self.variables.iter().map(|(name, value)| {
            let value = for_xml(value);
            format!("    <key>{name}</key>\n    <string>{value}</string>\n")
        });
        let variables = variables.collect::<Vec<_>>().concat();
        let body = body
            .replace(SAMPLE_PROGRAM, &for_xml(&self.program))
            .replace(SAMPLE_HOME, &for_xml(&self.home))
            .replace(SAMPLE_VARIABLES, &format!("{SAMPLE_VARIABLES}{variables}"));
        format!("{head}<!-- {WRITTEN_BY} -->{body}")
    }
}

/// The state directory of the gateway that a definition runs.
pub fn state_dir(text: &str, manager: Manager, home: &Path) -> PathBuf {
    let written = variable(text, manager, home, STATE_DIR);
    written.map_or_else(|| home.join(".openclaw"), PathBuf::from)
}

/// The value that a definition gives to a variable.
pub fn variable(text: &str, manager: Manager, home: &Path, name: &str) -> Option<String> {
    match manager {
        Manager::Systemd => text
            .lines()
            .filter(|line| line.trim_start().starts_with("Environment="))
            .find_map(|line| assigned(line, name, &home.display().to_string())),
        Manager::Launchd => text
            .split_once(&format!("<key>{name}</key>"))
            .and_then(|(_, rest)| rest.split_once("<string>")?.1.split_once("</string>"))
            .map(|(value, _)| from_xml(value)),
    }
}

/// The value that a line of a unit gives to the variable.
fn assigned(line: &str, name: &str, home: &str) -> Option<String> {
    let assignment = format!("{name}=");
    let found = line.match_indices(assignment.as_str());
    let mut places = found.filter_map(|(at, _)| line.split_at_checked(at));
    // The name may be the end of another one.
    let (before, rest) = places.find(|(before, _)| before.ends_with(['=', ' ', '"', '\'']))?;
    let rest = rest.strip_prefix(assignment.as_str())?;
    let quote = before.chars().next_back().filter(|letter| matches!(letter, '"' | '\''));
    let mut value = String::new();
    let mut letters = rest.chars();
    while let Some(letter) = letters.next() {
        match letter {
            letter if quote == Some(letter) => break,
            ' ' if quote.is_none() => break,
            '\\' => value.extend(letters.next()),
            // A placeholder, or a `%` that means itself.
            '%' => match letters.next() {
                Some('h') => value.push_str(home),
                other => value.extend(other),
            },
            letter => value.push(letter),
        }
    }
    Some(value)
}

/// A word of a unit. Between quotes, spaces mean themselves; `%` begins a
/// placeholder in any case. A `$` means itself in paths, that of the program too, and in what is
/// assigned to variables.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@,".contains(c);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    let word = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{word}\"")
}

fn for_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn from_xml(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Env, Overrides};
    use crate::telemetry::LogPlace;

    const HOME: &str = "/home/u";

    fn wanted() -> Wanted {
        Wanted {
            program: "/opt/claw gate%/clawgate".into(),
            home: HOME.into(),
            ..Wanted::default()
        }
    }

    fn second() -> Wanted {
        Wanted {
            variables: vec![
                ("OPENCLAW_STATE_DIR", "/srv/a \"b\"\\100%".into()),
                ("OPENCLAW_LOG_DIR", "/srv/a \"b\"\\100%/logs".into()),
                ("OPENCLAW_GATEWAY_PORT", "19001".into()),
            ],
            writable: vec!["/srv/a \"b\"\\100%".into(), "/data".into()],
            ..wanted()
        }
    }

    #[test]
    fn the_unit_is_the_sample_with_the_program_of_this_machine() {
        let text = wanted().text(Manager::Systemd).unwrap();
        assert!(text.contains("\nExecStart=\"/opt/claw gate%%/clawgate\" gateway\n"), "{text}");
        assert!(
            text.contains("\nProtectSystem=strict\n") && !text.contains("cp config/"),
            "{text}"
        );
        assert!(text.contains("\nEnvironment=OPENCLAW_LOG_DIR=%h/.openclaw/logs\n"), "{text}");
        let home = Path::new(HOME);
        assert_eq!(state_dir(&text, Manager::Systemd, home), home.join(".openclaw"));
    }

    #[test]
    fn a_dollar_in_the_path_of_the_program_means_itself() {
        let program = "/opt/$HOME 100%h/clawgate".to_owned();
        let text = Wanted { program, ..wanted() }.text(Manager::Systemd).unwrap();
        let line = "ExecStart=\"/opt/$HOME 100%%h/clawgate\" gateway";
        assert!(text.lines().any(|known| known == line), "{text}");
    }

    #[test]
    fn another_state_directory_is_named_and_may_be_written() {
        let text = second().text(Manager::Systemd).unwrap();
        let dir = r#"/srv/a \"b\"\\100%%"#;
        for line in [
            format!("Environment=\"OPENCLAW_STATE_DIR={dir}\""),
            "Environment=OPENCLAW_GATEWAY_PORT=19001".to_owned(),
            format!("ReadWritePaths=\"-{dir}\""),
            "ReadWritePaths=-/data".to_owned(),
            "ReadWritePaths=%h/.openclaw".to_owned(),
        ] {
            assert!(text.lines().any(|known| known == line), "{line} in {text}");
        }
        assert_eq!(text.matches("OPENCLAW_LOG_DIR").count(), 1, "{text}");
        let found = state_dir(&text, Manager::Systemd, Path::new(HOME));
        assert_eq!(found, Path::new("/srv/a \"b\"\\100%"));
        for by_hand in [
            "Environment=HOME=/x OPENCLAW_STATE_DIR=%h/two OTHER=1\n",
            "Environment='OPENCLAW_STATE_DIR=%h/two' OTHER=1\n",
        ] {
            let found = state_dir(by_hand, Manager::Systemd, Path::new(HOME));
            assert_eq!(found, Path::new("/home/u/two"));
        }
    }

    #[test]
    fn the_state_directory_of_a_unit_is_the_one_that_was_written() {
        for dir in ["/srv/a%h/b", "/srv/100%%h", "/srv/it's \"one\"\\"] {
            let variables = vec![(STATE_DIR, dir.to_owned())];
            let text = Wanted { variables, ..wanted() }.text(Manager::Systemd).unwrap();
            assert_eq!(state_dir(&text, Manager::Systemd, Path::new(HOME)), Path::new(dir));
        }
    }

    #[test]
    fn a_variable_is_told_from_one_whose_name_ends_like_it() {
        let path = "/opt/a b/100%:/bin";
        let variables = vec![
            ("OPENCLAW_CONFIG_PATH", "/etc/two.json".to_owned()),
            (SEARCH_PATH, path.to_owned()),
        ];
        let wanted = Wanted { variables, ..wanted() };
        for manager in [Manager::Systemd, Manager::Launchd] {
            let text = wanted.text(manager).unwrap();
            let found = |name: &str| variable(&text, manager, Path::new(HOME), name);
            assert_eq!(found(SEARCH_PATH).as_deref(), Some(path), "{text}");
            assert_eq!(found("OPENCLAW_CONFIG_PATH").as_deref(), Some("/etc/two.json"));
        }
        let without = second().text(Manager::Systemd).unwrap();
        assert_eq!(variable(&without, Manager::Systemd, Path::new(HOME), SEARCH_PATH), None);
    }

    #[test]
    fn the_plist_is_the_sample_with_what_is_true_here() {
        let wanted = Wanted {
            program: "/opt/a&b/clawgate".into(),
            home: "/Users/me".into(),
            variables: vec![("OPENCLAW_STATE_DIR", "/Users/me/a<b".into())],
            writable: Vec::new(),
        };
        let text = wanted.text(Manager::Launchd).unwrap();
        assert!(text.starts_with("<?xml"), "{text}");
        assert!(text.contains("<string>/opt/a&amp;b/clawgate</string>"), "{text}");
        assert!(text.contains("<string>/Users/me/Library/Logs/clawgate.log</string>"), "{text}");
        assert!(!text.contains("YOU"), "{text}");
        let found = state_dir(&text, Manager::Launchd, Path::new("/Users/me"));
        assert_eq!(found, Path::new("/Users/me/a<b"));
        assert_eq!(state_dir(PLIST, Manager::Launchd, Path::new("/h")), Path::new("/h/.openclaw"));
        // A comment of XML has no two dashes in it.
        let (comment, _) = text.split_once("<!--").unwrap().1.split_once("-->").unwrap();
        assert!(!comment.contains("--"), "{comment}");
    }

    #[test]
    fn a_name_that_ends_a_line_is_refused() {
        let wanted = Wanted { writable: vec!["/a\nExecStart=/bin/sh".into()], ..wanted() };
        for manager in [Manager::Systemd, Manager::Launchd] {
            assert!(matches!(wanted.text(manager), Err(ServiceError::Name(_))));
        }
    }

    /// The values of a key of the sample, with the home in the place of `%h`.
    fn values(key: &str, home: &str) -> Vec<String> {
        let lines = UNIT.lines().filter_map(|line| line.split_once('='));
        let of_key = lines.filter(|(name, _)| *name == key);
        of_key
            .flat_map(|(_, value)| value.split(' ').map(move |it| it.replace("%h", home)))
            .collect()
    }

    #[test]
    fn the_log_of_the_unit_lies_where_it_may_write_and_others_can_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().to_str().unwrap();
        let variables = values("Environment", path);
        let lookup = move |name: &str| {
            let mut all = variables.iter().filter_map(|one| one.split_once('='));
            all.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        let looking = Overrides { read_only: true, ..Overrides::default() };
        let of_unit = Env::new(lookup, Some(home.path().to_owned()));
        let settings = config::load(&of_unit, &looking).unwrap();
        let log = LogPlace::of(&settings.logging).current(0);
        let writable = values("ReadWritePaths", path);
        let is_below = |folder: &String| log.starts_with(folder.trim_start_matches('-'));
        assert!(writable.iter().any(is_below), "{log:?} in {writable:?}");

        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        std::fs::write(&log, "a line\n").unwrap();
        let outside = Env::fixed([("TMPDIR", path)], home.path());
        let settings = config::load(&outside, &looking).unwrap();
        let place = LogPlace::last_used(&settings.logging, &settings.paths.state_dir, 0);
        assert_eq!(place.current(0), log);
    }
}
