//! From file, environment and flags to settings.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::explain::Ledger;
use super::gateway::{self, Sources};
use super::schema::Node;
use super::{
    ConfigError, ConfigFile, Env, Overrides, Paths, Settings, agents, channels, cli_backend,
    commands, cron, dotenv, env_section, exec, exec_policy, fillings, foreign, heartbeat, hiding,
    hooks, include, keys, logging, mcp, messages, models, nesting, nodes, otel, profiles, push,
    secrets, session, skills, substitute, tools, unset, voice, web, workspace,
};
use crate::support::open_file;

/// The sections that are read; the rest is kept as it is.
const SECTIONS: [&str; 18] = [
    "gateway",
    "session",
    "agents",
    "messages",
    "tools",
    "commands",
    "models",
    "auth",
    "secrets",
    "skills",
    "mcp",
    "cron",
    "hooks",
    "bindings",
    "env",
    "logging",
    "talk",
    "diagnostics",
];
/// Far more than anybody writes by hand; keeps a wrong path from filling memory.
const FILE_LIMIT: u64 = 8 * 1024 * 1024;

/// Puts the settings together. Unless `overrides.read_only`, this makes the
/// token file when token mode has no token; the user's file is never written.
/// What of it means nothing here is logged.
pub fn load(env: &Env, overrides: &Overrides) -> Result<Settings, ConfigError> {
    let paths = Paths::resolve(env)?;
    let (env, wrong) = dotenv::beside(env, &paths);
    if let Some(wrong) = wrong {
        tracing::warn!("{wrong}");
    }
    let text = read_text(&paths.config_path)?;
    let settings = settings(text.as_deref(), paths, &env, overrides)?;
    for foreign::Foreign { path, message } in foreign::found(&settings.raw) {
        tracing::warn!("{path}: {message}");
    }
    for (path, message) in keys::beyond(&settings.raw) {
        tracing::warn!("{path} {message}");
    }
    for unset in &settings.unset {
        tracing::warn!("{} {unset}", unset.path);
    }
    Ok(settings)
}

/// The same of this text in the place of the file's.
pub fn load_text(text: &str, env: &Env, overrides: &Overrides) -> Result<Settings, ConfigError> {
    let paths = Paths::resolve(env)?;
    // Once it stood there nobody could read it again.
    check_length(text.len(), &paths.config_path)?;
    let (env, _) = dotenv::beside(env, &paths);
    settings(Some(text), paths, &env, overrides)
}

/// Whether a gateway would take this text of a config file; nothing is made or
/// written.
///
/// # Errors
/// What is wrong with it.
pub fn check(text: &str, env: &Env) -> Result<(), ConfigError> {
    preview(text, env).map(|_| ())
}

/// The same where `env` has the variables of `.env` already.
pub(super) fn check_with(text: &str, paths: Paths, env: &Env) -> Result<(), ConfigError> {
    let looking = Overrides { read_only: true, ..Overrides::default() };
    settings(Some(text), paths, env, &looking).map(drop)
}

/// The settings of a gateway that starts with this text; nothing is made or
/// written.
///
/// # Errors
/// What is wrong with it.
pub fn preview(text: &str, env: &Env) -> Result<Settings, ConfigError> {
    load_text(text, env, &Overrides { read_only: true, ..Overrides::default() })
}

fn settings(
    text: Option<&str>,
    paths: Paths,
    env: &Env,
    overrides: &Overrides,
) -> Result<Settings, ConfigError> {
    let (path, exists) = (paths.config_path.clone(), text.is_some());
    let file = ConfigFile { path, exists, ..ConfigFile::of(text.unwrap_or_default()) };
    let raw = parse(text.unwrap_or_default(), &file.path)?;
    let include::Whole { value: raw, files: included } = include::whole(raw, &file.path)?;
    let place = place(&file.path, &included);
    let env = &with_section(&raw, env, &place)?;
    let (filled, unset) = filled(&raw, env, &place)?;
    let root = Node::root(&filled, &place);
    let from = Sources { env, overrides, paths: &paths, file: &file.path };
    let mut ledger = Ledger::default();
    let session = session::read(&root, &file.path, &mut ledger)?;
    let agents = agents::read(&root, &paths, &file.path, &mut ledger)?;
    let workspace = workspace::read(&root, &file.path, &mut ledger)?;
    let skills = skills::read(&root, &paths, env, &file.path, &mut ledger)?;
    let messages = messages::read(&root, &file.path, &mut ledger)?;
    let exec_policy = exec_policy::read(&root, &file.path, &mut ledger)?;
    let exec = exec::read(&root, env, &paths, &file.path, &mut ledger)?;
    let nodes = nodes::read(&root, &file.path, &mut ledger)?;
    let tools = tools::read(&root, &file.path, &mut ledger)?;
    let history_max_chars = gateway::history_max_chars(&root, &file.path, &mut ledger)?;
    let commands = commands::read(&root, &file.path, &mut ledger)?;
    let claude_cli = cli_backend::read(&root, &paths, &agents.defaults.workspace)?;
    let models = models::read(&root.member("models")?)?;
    let profiles = profiles::read(&root.member("auth")?)?;
    let secrets = secrets::read(&root.member("secrets")?, &paths)?;
    let cron = cron::read(&root.member("cron")?, env, &file.path, &mut ledger)?;
    let heartbeats = heartbeat::read(&root, &agents, &profiles, &file.path, &mut ledger)?;
    let heartbeat_of_others = heartbeat::of_others(&root)?;
    let logging = logging::read(&root, env, &paths, &file.path, &mut ledger)?;
    let (web, mcp) = (web::read(&root)?, mcp::read(&root, &paths)?);
    let (voice, push, otel) = (voice::read(&root)?, push::read(&root)?, otel::read(&root, env)?);
    let (channels, hooks) = (channels::read(&root)?, hooks::read(&root.member("hooks")?, env)?);
    // The gateway last: its token is only made for a valid config.
    let gateway = gateway::read(&root, &from, &mut ledger)?;
    hooks.check_distinct(&root.member("hooks")?, &gateway.auth)?;
    Ok(Settings {
        paths,
        gateway,
        session,
        agents,
        workspace,
        skills,
        messages,
        exec,
        exec_policy,
        nodes,
        tools,
        history_max_chars,
        models,
        claude_cli,
        profiles,
        commands,
        secrets,
        web,
        voice,
        push,
        mcp,
        cron,
        hooks,
        otel,
        logging,
        heartbeats,
        heartbeat_of_others,
        channels,
        raw,
        file,
        included,
        pending: Vec::new(),
        unset,
        variables: env.added(),
        dotenv: env.dotenv(),
        explained: ledger.into_lines(),
    })
}

/// The sections that are read, their variables filled in.
fn filled(raw: &Value, env: &Env, place: &Path) -> Result<(Value, Vec<unset::Unset>), ConfigError> {
    let (left, unset) = unset::without(raw, env);
    let mut filled = substitute::sections(&left, &SECTIONS, env, place)?;
    let built = channels::ChannelKind::ALL.map(channels::ChannelKind::as_str);
    let offered = substitute::members(&left, "channels", &built, env, place)?;
    if let (Value::Object(members), Some(offered)) = (&mut filled, offered) {
        members.insert("channels".into(), offered);
    }
    hiding::credentials(&filled);
    // What nobody here reads is in the file all the same.
    hiding::credentials(raw);
    fillings::hide(raw, env);
    Ok((filled, unset))
}

/// Where a value stands, as an error says it.
fn place(file: &Path, included: &[PathBuf]) -> PathBuf {
    if included.is_empty() {
        return file.to_owned();
    }
    let names = included.iter().filter_map(|it| it.file_name()).map(|it| it.to_string_lossy());
    PathBuf::from(format!("{}, or {}", file.display(), names.collect::<Vec<_>>().join(", ")))
}

/// The environment with the variables of the section `env` beside it.
pub(super) fn with_section(raw: &Value, env: &Env, file: &Path) -> Result<Env, ConfigError> {
    let mut found = env.with(Arc::default());
    let Some(section) = raw.get("env").filter(|section| !section.is_null()) else {
        return Ok(found);
    };
    // Those that name no other variable hold for the rest of the section.
    let mut plain = section.clone();
    substitute::leave_plain(&mut plain);
    let node = Node::root(raw, file).member("env")?;
    let filled = |section: &Value, env: &Env| -> Result<Env, ConfigError> {
        let filled = substitute::fill(section, "env", env, file)?;
        env_section::read(&node.with(&filled)).map(|read| env.with(Arc::new(read)))
    };
    found = filled(&plain, &found)?;
    // One of which a variable is not set counts as absent, until another one has set that.
    loop {
        let (whole, _) = unset::without(raw, &found);
        let next = filled(&whole["env"], &found)?;
        if next.added().len() == found.added().len() {
            return Ok(next);
        }
        found = next;
    }
}

/// Parses a JSON5 object; `path` is for the error.
pub fn parse(text: &str, path: &Path) -> Result<Value, ConfigError> {
    if text.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let value = parse_value(text, path)?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(Node::root(&value, path).wrong("must be an object"))
    }
}

/// Parses any JSON5; `path` is for the error. Whatever comes from outside goes
/// through here: the parser itself has no bound of its depth.
pub fn parse_value(text: &str, path: &Path) -> Result<Value, ConfigError> {
    let syntax = |at: Option<json5::Position>, reason: String| {
        let (line, column) = at.map_or((1, 1), |at| (at.line + 1, at.column + 1));
        ConfigError::Syntax { path: path.to_owned(), line, column, reason }
    };
    if let Some(offset) = nesting::too_deep(text) {
        return Err(syntax(
            Some(json5::Position::from_offset(offset, text)),
            "nested too deep".into(),
        ));
    }
    let mut value: Value = json5::from_str(text).map_err(|error| {
        let reason = error.code().map_or_else(|| error.to_string(), |code| code.to_string());
        if !error.code().is_some_and(is_end) {
            return syntax(error.position(), reason);
        }
        // The parser says where the innermost object begins, be it the whole file.
        let end = Some(json5::Position::from_offset(text.len(), text));
        let Some((open, bracket)) = nesting::unclosed(text) else { return syntax(end, reason) };
        let open = json5::Position::from_offset(open, text);
        let (line, column) = (open.line + 1, open.column + 1);
        syntax(end, format!("the `{bracket}` of {line}:{column} is not closed ({reason})"))
    })?;
    make_whole(&mut value);
    Ok(value)
}

/// Makes integers of `6e4` and `5.0`, which JavaScript does not tell from `60000` and `5`.
fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().and_then(|number| number.to_string().parse::<i64>().ok());
            if let Some(whole) = whole {
                *number = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(members) => members.values_mut().for_each(make_whole),
        _ => {}
    }
}

/// Whether the text has ended too early.
const fn is_end(code: json5::ErrorCode) -> bool {
    use json5::ErrorCode as Code;
    matches!(
        code,
        Code::EofParsingArray
            | Code::EofParsingBool
            | Code::EofParsingComment
            | Code::EofParsingEscapeSequence
            | Code::EofParsingIdentifier
            | Code::EofParsingNull
            | Code::EofParsingNumber
            | Code::EofParsingObject
            | Code::EofParsingString
            | Code::EofParsingValue
    )
}

/// The text of the file, `None` when there is no file.
///
/// # Errors
/// When it cannot be read, is no text, or has lost all that it said.
pub fn read_text(path: &Path) -> Result<Option<String>, ConfigError> {
    let Some(found) = read(path)? else { return Ok(None) };
    Ok(Some(found.text(path)?.to_owned()))
}

/// What is in the place of a config file.
pub(super) struct Found {
    /// All of it.
    pub bytes: Vec<u8>,
    /// Whether it is a file, and not `/dev/null`, in which nothing is lost.
    is_file: bool,
}

impl Found {
    /// What it says.
    pub fn text(&self, path: &Path) -> Result<&str, ConfigError> {
        let text = text_of(&self.bytes, path)?;
        if self.is_file { not_blank(text, path) } else { Ok(text) }
    }
}

/// The text that the bytes of the file `path` are.
pub(super) fn text_of<'a>(bytes: &'a [u8], path: &Path) -> Result<&'a str, ConfigError> {
    std::str::from_utf8(bytes).map_err(|_| {
        let before = readable_start(bytes);
        let at = json5::Position::from_offset(before.len(), before);
        ConfigError::Syntax {
            path: path.to_owned(),
            line: at.line + 1,
            column: at.column + 1,
            reason: "the text is not UTF-8; save it as UTF-8".into(),
        }
    })
}

/// The text that the file `path` says by these bytes of it; nothing where there is no file.
pub(super) fn said<'a>(bytes: Option<&'a [u8]>, path: &Path) -> Result<&'a str, ConfigError> {
    bytes.map_or(Ok(""), |bytes| not_blank(text_of(bytes, path)?, path))
}

/// The text of the file `path`, which has lost all that it said when it is empty.
pub(super) fn not_blank<'a>(text: &'a str, path: &Path) -> Result<&'a str, ConfigError> {
    if text.trim().is_empty() {
        return Err(ConfigError::Blank { path: path.to_owned() });
    }
    Ok(text)
}

/// The text before the first byte that is none.
pub(super) fn readable_start(bytes: &[u8]) -> &str {
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

/// What is in the file, `None` when there is no file.
pub(super) fn read(path: &Path) -> Result<Option<Found>, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    let file = match open_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(unreadable)?,
    };
    let is_file = file.metadata().map_err(unreadable)?.is_file();
    let mut bytes = Vec::new();
    file.take(FILE_LIMIT + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    check_length(bytes.len(), path)?;
    Ok(Some(Found { bytes, is_file }))
}

/// Refuses what is too long for a config file.
fn check_length(length: usize, path: &Path) -> Result<(), ConfigError> {
    if u64::try_from(length).is_ok_and(|length| length <= FILE_LIMIT) {
        Ok(())
    } else {
        Err(ConfigError::TooLarge { path: path.to_owned(), limit: FILE_LIMIT })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::support::json;
    use crate::telemetry;

    const MASK: &str = "[hidden: a secret of the gateway]";

    #[test]
    fn a_text_that_ends_too_early_is_told_with_its_end_and_the_bracket_that_is_open() {
        for (text, told) in [
            ("{a: {b: 1}\n", "x.json5:2:1: not valid JSON5: the `{` of 1:1 is not closed"),
            ("{\n  a: [1, 2", "x.json5:2:11: not valid JSON5: the `[` of 2:6 is not closed"),
            ("{a: 'b", "x.json5:1:7: not valid JSON5: the `{` of 1:1 is not closed"),
            ("{a: /* b", "x.json5:1:9: not valid JSON5: the `{` of 1:1 is not closed"),
            ("{a: }", "x.json5:1:5: not valid JSON5: "),
        ] {
            let error = parse(text, Path::new("x.json5")).unwrap_err().to_string();
            assert!(error.starts_with(told), "{text}: {error}");
        }
    }

    #[test]
    fn a_number_without_a_fraction_is_an_integer_however_it_is_written() {
        let text = "{a: [6e4, 5.0, -2e1, -0.0], b: 0.5, c: 1e300, d: 0x10, e: 1.5e1}";
        let value = parse(text, Path::new("x.json5")).unwrap();
        let whole = json!({"a": [60_000, 5, -20, 0], "b": 0.5, "c": 1e300, "d": 16, "e": 15});
        assert_eq!(value, whole);
        let text = "{messages: {tts: {timeoutMs: 3e4}}, channels: {telegram: {historyLimit: 9.0}}}";
        check(text, &Env::fixed([], tempfile::tempdir().unwrap().path())).unwrap();
    }

    #[test]
    fn variables_of_the_section_hold_in_the_rest_of_it() {
        let vars = json!({"HOST": "h", "TEXT": "$${HOST}", "URL": "http://${HOST}:${PORT}"});
        let raw = json!({"env": {"vars": vars, "PORT": "80", "shellEnv": {"timeoutMs": 1}}});
        let env = Env::fixed([("PORT", "81")], "/h");
        let found = with_section(&raw, &env, Path::new("f")).unwrap();
        assert_eq!(found.get("URL").as_deref(), Some("http://h:81"));
        assert_eq!(found.get("TEXT").as_deref(), Some("${HOST}"));
        let text = json!({"A": "${B}", "B": "${C}", "C": "c", "D": "${D}", "E": "${NO}"});
        let found = with_section(&json!({"env": text}), &env, Path::new("f")).unwrap();
        assert_eq!(["A", "D", "E"].map(|name| found.get(name)), [Some("c".into()), None, None]);
        // A setting of the gateway is not forgiven.
        let text = json!({"OPENCLAW_GATEWAY_TOKEN": "${NO}"});
        let error = with_section(&json!({"env": text}), &env, Path::new("f")).unwrap_err();
        assert!(error.to_string().starts_with("env.OPENCLAW_GATEWAY_TOKEN: the env"), "{error}");
        let nothing = with_section(&json!({"env": null}), &env, Path::new("f")).unwrap();
        assert_eq!(nothing.get("HOST"), None);
    }

    #[test]
    fn a_file_that_is_not_utf_8_is_told_with_the_place_of_its_first_such_byte() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.json5");
        assert!(read_text(&path).unwrap().is_none());
        fs::write(&path, b"{\n  a: '\xc3\xa4\xe4'}").unwrap();
        let error = read_text(&path).unwrap_err();
        assert!(!error.is_of_disk(), "another text would help");
        let told = format!("{}:2:8: not valid JSON5: the text is not UTF-8", path.display());
        assert!(error.to_string().starts_with(&told), "{error}");
    }

    #[test]
    fn a_file_without_any_text_is_none_without_settings() {
        let home = tempfile::tempdir().unwrap();
        let load_from = |path: &Path| {
            let variables = [("OPENCLAW_CONFIG_PATH", path.to_str().unwrap())];
            let looking = Overrides { read_only: true, ..Overrides::default() };
            load(&Env::fixed(variables, home.path()), &looking)
        };
        let path = home.path().join("x.json5");
        assert!(!load_from(&path).unwrap().file.exists);
        for text in ["", " \n"] {
            fs::write(&path, text).unwrap();
            let error = load_from(&path).unwrap_err();
            assert!(!error.is_of_disk(), "a gateway helps to mend it");
            let told = format!("{} is empty; write {{}} to go on without settings", path.display());
            assert_eq!(error.to_string(), told);
        }
        // One that comes after the look that has found none says nothing of that.
        let variables = [("OPENCLAW_CONFIG_PATH", path.to_str().unwrap())];
        let env = Env::fixed(variables, home.path());
        let looking = Overrides { read_only: true, ..Overrides::default() };
        let found = settings(None, Paths::resolve(&env).unwrap(), &env, &looking).unwrap();
        assert!(!found.file.exists);
        assert_eq!(said(None, &path).unwrap(), "");
        // Nor does it of a text that is meant for its place.
        check("", &env).unwrap();
        fs::write(&path, "{}").unwrap();
        assert!(load_from(&path).unwrap().file.exists);
        assert!(load_from(Path::new("/dev/null")).unwrap().file.is_blank);
    }

    #[test]
    fn a_text_that_could_not_be_read_again_is_refused_before_it_is_in_the_file() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::fixed([], home.path());
        let text = format!("{{}}{}", " ".repeat(8 * 1024 * 1024));
        let refused = check(&text, &env).unwrap_err().to_string();
        let path = Paths::resolve(&env).unwrap().config_path;
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(&path, &text).unwrap();
        assert_eq!(refused, read_text(&path).unwrap_err().to_string());
        assert!(refused.contains("is larger than 8388608 bytes"), "{refused}");
    }

    #[test]
    fn a_variable_of_the_file_is_kept_out_as_its_name_says() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().to_str().unwrap();
        let variables = [
            ("BASE_URL", "https://gw.corp/loading-compatible/v1"),
            ("A_VARIABLE_OF_LOADING", "load9-canary3"),
        ];
        let env = Env::fixed(variables, home.path());
        let (variables, headers) = (
            json!({"BASE_URL": "${BASE_URL}", "DB_PASSWORD": "load7-canary1",
                "GH_TOKEN": "loadingcanaryofletters", "DB_PASSWORD_FILE": folder}),
            json!({"Authorization": "Bearer load8-canary2", "X-Team": "loading-team-9",
                "X-Api-Key": "Bearer ${A_VARIABLE_OF_LOADING}"}),
        );
        let raw = json!({"mcp": {"servers": {"m": {"env": variables, "headers": headers}}}});
        filled(&raw, &env, Path::new("openclaw.json")).unwrap();
        let said = "load7-canary1 loadingcanaryofletters load8-canary2 loading-team-9 \
                    loading-compatible load9-canary3 ${A_VARIABLE_OF_LOADING}";
        let shown = format!(
            "{MASK} {MASK} {MASK} loading-team-9 loading-compatible {MASK} \
             ${{A_VARIABLE_OF_LOADING}}"
        );
        assert_eq!(telemetry::result_without_secrets(said), shown);
        assert_eq!(telemetry::without_secrets(folder), folder);
    }
}
