//! What well-known programs do, in a few words.
//!
//! Owns: the words, which are the original's. Must not: fail on any arguments.

use super::shell::{name_of, positional, value};

/// Longest argument that is shown beside a program that nobody knows.
const MAX_ARGUMENT: usize = 48;

/// What a program does.
pub struct Summary {
    /// In words.
    pub text: String,
    /// Whether these say more than the command itself.
    pub is_known: bool,
}

fn known(text: impl Into<String>) -> Summary {
    Summary { text: text.into(), is_known: true }
}

/// What these words do.
pub fn summarize(words: &[String]) -> Summary {
    let Some(program) = words.first() else {
        return Summary { text: "run command".into(), is_known: false };
    };
    let program = name_of(program);
    let first = || positional(words, &[]).into_iter().next();
    let about = |with: &str, without: &str| {
        known(first().map_or_else(|| without.to_owned(), |target| format!("{with} {target}")))
    };
    match program.as_str() {
        "echo" | "printf" => known("print text"),
        "ls" => about("list files in", "list files"),
        "cat" => about("show", "show output"),
        "rm" => about("remove", "remove files"),
        "mkdir" => about("create folder", "create folder"),
        "touch" => about("create file", "create file"),
        "cp" => between(words, "copy"),
        "mv" => between(words, "move"),
        "head" => part_of(words, "head", "first"),
        "tail" => part_of(words, "tail", "last"),
        "grep" | "rg" | "ripgrep" => search(words),
        "find" => find(words),
        "sed" => sed(words),
        "git" => git(words),
        "npm" | "pnpm" | "yarn" | "bun" => package(&program, words),
        "node" | "python" | "python3" | "ruby" | "php" => script(&program, words),
        "curl" | "wget" => {
            let is_url =
                |word: &&String| word.starts_with("http://") || word.starts_with("https://");
            let url = words.iter().find(is_url).map_or("url", String::as_str);
            known(format!("fetch {url}"))
        }
        _ => {
            let is_plain = |target: &String| {
                target.len() <= MAX_ARGUMENT
                    && target.bytes().all(|it| it.is_ascii_alphanumeric() || b"._/-".contains(&it))
            };
            let target = first().filter(is_plain).map(|target| format!(" {target}"));
            let text = format!("run {program}{}", target.unwrap_or_default());
            Summary { text, is_known: false }
        }
    }
}

fn between(words: &[String], verb: &str) -> Summary {
    let targets = positional(words, &["-t", "--target-directory", "-S", "--suffix"]);
    known(match targets.as_slice() {
        [from, to, ..] => format!("{verb} {from} to {to}"),
        [from] => format!("{verb} {from}"),
        [] => format!("{verb} files"),
    })
}

fn part_of(words: &[String], program: &str, side: &str) -> Summary {
    let short = words
        .iter()
        .skip(1)
        .find_map(|word| word.strip_prefix('-').filter(|it| !it.is_empty() && is_number(it)));
    let lines = value(words, &["-n", "--lines"]).or_else(|| short.map(str::to_owned));
    let target = positional(words, &["-n", "--lines"]).pop();
    let unit = if lines.as_deref() == Some("1") { "line" } else { "lines" };
    known(match (lines, target) {
        (Some(lines), Some(target)) => format!("show {side} {lines} {unit} of {target}"),
        (Some(lines), None) => format!("show {side} {lines} {unit}"),
        (None, Some(target)) => format!("show {target}"),
        (None, None) => format!("show {program} output"),
    })
}

fn search(words: &[String]) -> Summary {
    const WITH_VALUE: [&str; 12] = [
        "-e",
        "--regexp",
        "-f",
        "--file",
        "-m",
        "--max-count",
        "-A",
        "--after-context",
        "-B",
        "--before-context",
        "-C",
        "--context",
    ];
    let places = positional(words, &WITH_VALUE);
    let pattern = value(words, &["-e", "--regexp"]).or_else(|| places.first().cloned());
    let target = places.last().filter(|_| places.len() > 1);
    known(match (pattern, target) {
        (Some(pattern), Some(target)) => format!("search \"{pattern}\" in {target}"),
        (Some(pattern), None) => format!("search \"{pattern}\""),
        (None, _) => "search text".into(),
    })
}

fn find(words: &[String]) -> Summary {
    let place = words.get(1).filter(|word| !word.starts_with('-')).map_or(".", String::as_str);
    known(match value(words, &["-name", "-iname"]) {
        Some(name) => format!("find files named \"{name}\" in {place}"),
        None => format!("find files in {place}"),
    })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit())
}

fn sed(words: &[String]) -> Summary {
    let given = value(words, &["-e", "--expression"]);
    let places = positional(words, &["-e", "--expression", "-f", "--file"]);
    let (script, target) = match &given {
        Some(script) => (Some(script), places.first()),
        None => (places.first(), places.get(1)),
    };
    let range = script.and_then(|script| script.strip_suffix('p'));
    let printed = range.and_then(|range| match range.split_once(',') {
        Some((from, to)) if is_number(from) && is_number(to) => {
            Some(format!("print lines {from}-{to}"))
        }
        Some(_) => None,
        None => is_number(range).then(|| format!("print line {range}")),
    });
    known(match (printed, target) {
        (Some(printed), Some(target)) => format!("{printed} from {target}"),
        (Some(printed), None) => printed,
        (None, Some(target)) => format!("run sed on {target}"),
        (None, None) => "run sed transform".into(),
    })
}

fn git(words: &[String]) -> Summary {
    let global = ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"];
    let sub = positional(words, &global).into_iter().next();
    known(match sub.as_deref() {
        Some("status") => "check git status",
        Some("diff") => "check git diff",
        Some("log") => "view git history",
        Some("show") => "show git object",
        Some("branch") => "list git branches",
        Some("checkout" | "switch") => "switch git branch",
        Some("commit") => "create git commit",
        Some("pull") => "pull git changes",
        Some("push") => "push git changes",
        Some("fetch") => "fetch git changes",
        Some("merge") => "merge git changes",
        Some("rebase") => "rebase git branch",
        Some("add") => "stage git changes",
        Some("restore") => "restore git files",
        Some("reset") => "reset git state",
        Some("stash") => "stash git changes",
        Some(other) if !other.contains('/') => return known(format!("run git {other}")),
        _ => "run git command",
    })
}

fn package(program: &str, words: &[String]) -> Summary {
    let places = positional(words, &["--prefix", "-C", "--cwd", "--config"]);
    known(match places.first().map_or("command", String::as_str) {
        "install" => "install dependencies".into(),
        "test" => "run tests".into(),
        "build" => "run build".into(),
        "start" => "start app".into(),
        "lint" => "run lint".into(),
        "run" => format!("run {}", places.get(1).map_or("script", String::as_str)),
        other => format!("run {program} {other}"),
    })
}

fn script(program: &str, words: &[String]) -> Summary {
    let inline: &[&str] = if program == "node" { &["-e", "--eval"] } else { &["-c"] };
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(&word.as_str()));
    if words.iter().any(|word| word.starts_with("<<")) {
        return known(format!("run {program} inline script (heredoc)"));
    }
    if has(inline) {
        return known(format!("run {program} inline script"));
    }
    known(match positional(words, &["-c", "-e", "--eval", "-m"]).first() {
        None => format!("run {program}"),
        Some(file) if program == "node" && has(&["--check"]) => {
            format!("check js syntax for {file}")
        }
        Some(file) if program == "node" => format!("run node script {file}"),
        Some(file) => format!("run {program} {file}"),
    })
}
