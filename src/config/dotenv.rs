//! `.env` in the state directory, where people put the keys of a service.
//!
//! Owns: its format, and which of its variables hold. Promises: it is only read; what is
//! wrong with it is told by the number of the line, never by what stands there. Must not:
//! read a file of this name anywhere else, such as in the folder that a program happens to
//! be started in.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::{Env, Paths, decides_code, hiding, is_variable};
use crate::support::{Secret, open_file};

/// Far more than the keys of anybody; keeps a wrong file from filling memory.
const LIMIT: u64 = 1024 * 1024;
/// More lines than these are not told one by one.
const MOST: usize = 10;
/// Variables that say where this file and the config are.
const PLACES: [&str; 4] = ["HOME", "OPENCLAW_CONFIG_PATH", "OPENCLAW_HOME", "OPENCLAW_STATE_DIR"];
/// What a value may be written in.
const QUOTES: [char; 3] = ['"', '\'', '`'];

/// `env` with what the file says beside it, and what is wrong with the file. Its
/// values stay out of the log from now on.
pub(super) fn beside(env: &Env, paths: &Paths) -> (Env, Option<String>) {
    let path = paths.dotenv_file();
    let file = path.display();
    let (variables, wrong) = match read(&path) {
        Ok(text) => variables(&text),
        Err(error) => {
            let wrong = format!("cannot read {file}: {error}; its variables are not set");
            return (env.with_dotenv(Arc::default()), Some(wrong));
        }
    };
    for (name, value) in &variables {
        hiding::variable(name, value);
    }
    let shown: Vec<_> = wrong.iter().take(MOST).map(String::as_str).collect();
    let more = if wrong.len() > MOST { " and more" } else { "" };
    let wrong = (!wrong.is_empty())
        .then(|| format!("{file} is read without what is wrong in it: {}{more}", shown.join(", ")));
    (env.with_dotenv(Arc::new(variables)), wrong)
}

/// What is wrong with the file, if anything is.
pub fn fault(env: &Env, paths: &Paths) -> Option<String> {
    beside(env, paths).1
}

/// The text of the file; an empty one when there is none.
fn read(path: &Path) -> io::Result<String> {
    let file = match open_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        opened => opened?,
    };
    let mut text = String::new();
    file.take(LIMIT + 1).read_to_string(&mut text)?;
    if u64::try_from(text.len()).is_ok_and(|length| length <= LIMIT) {
        Ok(text)
    } else {
        Err(io::Error::other(format!("it has more than {LIMIT} bytes")))
    }
}

/// The variables that hold, and what is wrong in each line that has none. Of two
/// with one name the last one counts; an empty one is as good as none.
fn variables(text: &str) -> (BTreeMap<String, Secret>, Vec<String>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let (mut variables, mut wrong) = (BTreeMap::new(), Vec::new());
    let (mut rest, mut number) = (text.as_str(), 1);
    while !rest.is_empty() {
        let (line, below) = rest.split_once('\n').unwrap_or((rest, ""));
        let mut after = below;
        if let Some((name, value, behind)) = assignment(rest, line) {
            after = behind;
            if decides_code(name) || PLACES.contains(&name) {
                wrong.push(format!("line {number} sets {name}, which is not taken from here"));
            } else if value.trim().is_empty() {
                variables.remove(name);
            } else {
                variables.insert(name.to_owned(), Secret::new(value));
            }
        } else if !is_nothing(line) {
            wrong.push(format!("line {number} is not NAME=value"));
        }
        number += rest.strip_suffix(after).unwrap_or_default().matches('\n').count();
        rest = after;
    }
    (variables, wrong)
}

/// Whether there is nothing in a line but a comment.
fn is_nothing(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// The name and the value that a text begins with, whose first line is `line`, and
/// what comes below them.
fn assignment<'a>(text: &'a str, line: &'a str) -> Option<(&'a str, String, &'a str)> {
    let (name, _) = line.split_once('=')?;
    let value = text.strip_prefix(name)?.strip_prefix('=')?.trim_start_matches([' ', '\t']);
    let name = name.trim();
    let exported = name.strip_prefix("export").filter(|it| it.starts_with(char::is_whitespace));
    let name = exported.map_or(name, str::trim_start);
    if !is_variable(name) {
        return None;
    }
    if let Some(quote) = value.chars().next().filter(|first| QUOTES.contains(first)) {
        let (value, below) = quoted(value, quote)?;
        return Some((name, value, below));
    }
    let (value, below) = value.split_once('\n').unwrap_or((value, ""));
    // As in the original, whose values without quotes have no such sign.
    let value = value.split_once('#').map_or(value, |(value, _)| value);
    Some((name, value.trim().to_owned(), below))
}

/// A text in quotes, which may have several lines, and what comes below it; `None`
/// when they do not end, or when more follows than a comment.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let inside = text.strip_prefix(quote)?;
    let mut is_escaped = false;
    let end = inside.find(|letter: char| {
        let ends = letter == quote && !is_escaped;
        is_escaped = quote == '"' && letter == '\\' && !is_escaped;
        ends
    })?;
    let (value, behind) = inside.split_at(end);
    let behind = behind.strip_prefix(quote)?;
    let (line, below) = behind.split_once('\n').unwrap_or((behind, ""));
    let value = if quote == '"' {
        value.replace("\\n", "\n").replace("\\r", "\r")
    } else {
        value.to_owned()
    };
    is_nothing(line).then_some((value, below))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::telemetry;

    fn read_from(text: &str) -> (Vec<String>, Vec<String>) {
        let (found, wrong) = variables(text);
        let found = found.into_iter().map(|(name, value)| format!("{name}={}", value.expose()));
        (found.collect(), wrong)
    }

    #[test]
    fn every_form_of_a_value_is_read_and_nothing_is_filled_in() {
        let text = "\u{feff}# keys\r\n\r\nA=1\r\n  export B = two words # and a comment\n\
                    C='it is #3 \\n'\nD=\"a\\nb\"\nE=\"over\nlines\"\nF=${A}\nG=`x`# y\n\
                    H=\nexportI=9\nA=again\nJ=\"a \\\" b\"\nK=x=y\nL=no#comment\n";
        let (found, wrong) = read_from(text);
        let expected = [
            "A=again",
            "B=two words",
            "C=it is #3 \\n",
            "D=a\nb",
            "E=over\nlines",
            "F=${A}",
            "G=x",
            "J=a \\\" b",
            "K=x=y",
            "L=no",
            "exportI=9",
        ];
        assert_eq!((found, wrong), (expected.map(str::to_owned).to_vec(), Vec::new()));
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line_and_not_by_what_it_says() {
        let text = "A=1\nsecret-1\nB=\"x\ny\"\n1C=secret-2\nD=\"secret-3\nE='secret-4' more\n\
                    LD_PRELOAD=/secret-5\nOPENCLAW_STATE_DIR=/secret-6\nNODE_OPTIONS=secret-7\nF=2";
        let (found, wrong) = read_from(text);
        assert_eq!(found, ["A=1", "B=x\ny", "F=2"]);
        let expected = [
            "line 2 is not NAME=value",
            "line 5 is not NAME=value",
            "line 6 is not NAME=value",
            "line 7 is not NAME=value",
            "line 8 sets LD_PRELOAD, which is not taken from here",
            "line 9 sets OPENCLAW_STATE_DIR, which is not taken from here",
            "line 10 sets NODE_OPTIONS, which is not taken from here",
        ];
        assert_eq!(wrong, expected);
    }

    #[test]
    fn the_environment_beats_the_file_and_the_file_the_section() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::fixed([("A", "process")], home.path());
        let paths = Paths::resolve(&env).unwrap();
        fs::create_dir(&paths.state_dir).unwrap();
        fs::write(paths.dotenv_file(), "A=file\nB=file\nC=\nno line\n").unwrap();
        let section = |name: &str| (name.to_owned(), Secret::new("section"));
        let added = ["A", "B", "C", "D"].map(section);
        let (env, wrong) = beside(&env.with(Arc::new(added.into())), &paths);
        let found = ["A", "B", "C", "D", "E"].map(|name| env.get(name));
        let expected = [Some("process"), Some("file"), Some("section"), Some("section"), None];
        assert_eq!(found, expected.map(|value| value.map(str::to_owned)));
        assert!(wrong.unwrap().ends_with(": line 4 is not NAME=value"));
        assert_eq!(env.of_process().get("B"), None);
    }

    #[test]
    fn a_file_that_was_emptied_takes_the_values_of_before_away() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::fixed([], home.path());
        let paths = Paths::resolve(&env).unwrap();
        fs::create_dir(&paths.state_dir).unwrap();
        fs::write(paths.dotenv_file(), "A=before\n").unwrap();
        let before = beside(&env, &paths).0;
        assert_eq!(before.get("A").as_deref(), Some("before"));
        fs::write(paths.dotenv_file(), "").unwrap();
        let (after, wrong) = beside(&before, &paths);
        assert_eq!((after.get("A"), wrong), (None, None));
    }

    #[test]
    fn a_file_that_is_not_there_is_none_and_one_that_cannot_be_read_is_told() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::fixed([], home.path());
        let paths = Paths::resolve(&env).unwrap();
        assert_eq!(beside(&env, &paths).1, None);
        fs::create_dir_all(paths.dotenv_file()).unwrap();
        let wrong = beside(&env, &paths).1.unwrap();
        assert!(wrong.starts_with("cannot read ") && wrong.contains(".env: "), "{wrong}");
        fs::remove_dir(paths.dotenv_file()).unwrap();
        let (here, all) = (rustix::fs::CWD, rustix::fs::Mode::RWXU);
        rustix::fs::mkfifoat(here, paths.dotenv_file(), all).unwrap();
        assert!(beside(&env, &paths).1.unwrap().contains(".env: it is no file; its variables"));
        fs::remove_file(paths.dotenv_file()).unwrap();
        std::os::unix::fs::symlink("/dev/null", paths.dotenv_file()).unwrap();
        assert_eq!(beside(&env, &paths).1, None);
        fs::remove_file(paths.dotenv_file()).unwrap();
        fs::write(paths.dotenv_file(), vec![b'#'; 1024 * 1024 + 1]).unwrap();
        assert!(beside(&env, &paths).1.unwrap().contains("more than 1048576 bytes"));
    }

    #[test]
    fn what_the_file_says_is_not_logged() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().to_str().unwrap();
        let text = format!(
            "MY_API_KEY=dotenv-canary-1\nADDRESS=http://u:dotenv-canary-2@h\n\
             MY_KEY_FILE={folder}\nMY_SECRET_FILE={folder}\n\
             FEED_URL=https://h/dotenv-canary-path?token=dotenv-3&sig=DotenvCanarySignature\n"
        );
        let env = Env::fixed([], home.path());
        let paths = Paths::resolve(&env).unwrap();
        fs::create_dir(&paths.state_dir).unwrap();
        fs::write(paths.dotenv_file(), text).unwrap();
        beside(&env, &paths);
        let said = telemetry::without_secrets("dotenv-canary-1 and dotenv-canary-2").into_owned();
        assert_eq!(said, "*** and ***");
        // Where a key is kept is no secret, nor is a word of an address.
        assert_eq!(telemetry::without_secrets(folder), folder);
        let said = "dotenv-canary-path dotenv-3 DotenvCanarySignature";
        let mask = "[hidden: a secret of the gateway]";
        let shown = format!("dotenv-canary-path {mask} {mask}");
        assert_eq!(telemetry::result_without_secrets(said), shown);
    }
}
