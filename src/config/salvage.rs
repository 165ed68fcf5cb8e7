//! What a gateway needs to help mend a config file that it cannot use.
//!
//! Promises: such a gateway listens on this machine only and never without
//! authentication. Must not: use anything of the file but its port and its secret.

use std::path::Path;

use serde_json::{Map, Value};

use crate::support::json;

use super::load::{load_text, parse, read, readable_start};
use super::{AuthMode, BindChoice, ConfigError, ConfigFile, Env, Overrides, Paths, Settings};

/// Ends of the readable part that are tried, going back from the fault. The
/// secret stands near the top of most files, so more would seldom find more.
const MAX_CUTS: usize = 200;

/// Settings for mending the file: those of no file at all, but for the port and
/// the secret, where these can be read. `None` when the fault is not the file's:
/// without it nothing would work either.
pub fn salvage(env: &Env, overrides: &Overrides) -> Option<Settings> {
    let file = Paths::resolve(env).ok()?.config_path;
    let bytes = read(&file).ok().flatten().map(|found| found.bytes).unwrap_or_default();
    let text = readable_start(&bytes);
    let quiet = Overrides { read_only: true, ..overrides.clone() };
    load_text("{}", env, &quiet).ok()?;
    let near = Overrides { bind: Some(BindChoice::Loopback), ..overrides.clone() };
    let guarded = Overrides { auth: Some(AuthMode::Token), ..near.clone() };
    let gateway = readable(text, &file)["gateway"].take();
    let (port, auth) = (&gateway["port"], secrets(&gateway["auth"]));
    let both = json!({"port": port, "auth": auth});
    let wishes = [both, json!({"auth": auth}), json!({"port": port}), json!({})];
    let settled = wishes.iter().find_map(|gateway| {
        let text = json!({"gateway": gateway}).to_string();
        // Neither nobody's word nor that of a proxy is worth anything here.
        let with = |how: &Overrides| load_text(&text, env, how).ok().filter(is_guarded);
        with(&near).or_else(|| with(&guarded))
    });
    let path = Paths::resolve(env).ok()?.config_path;
    let file = ConfigFile { path, ..ConfigFile::of(text) };
    settled.map(|settings| Settings { file, ..settings })
}

fn is_guarded(settings: &Settings) -> bool {
    let auth = &settings.gateway.auth;
    match auth.mode {
        AuthMode::Token => auth.token.is_some(),
        AuthMode::Password => auth.password.is_some(),
        AuthMode::None | AuthMode::TrustedProxy => false,
    }
}

/// The members that say who is let in; a secret that is kept elsewhere is not
/// asked for.
fn secrets(auth: &Value) -> Value {
    let is_meant = |(name, value): &(&String, &Value)| match name.as_str() {
        "mode" => true,
        "token" | "password" => value.is_string() || value["source"] == "env",
        _ => false,
    };
    let kept = auth.as_object().into_iter().flatten().filter(is_meant);
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// The file, or as much of its beginning as can be read.
fn readable(text: &str, path: &Path) -> Value {
    let fault = match parse(text, path) {
        Ok(value) => return value,
        Err(ConfigError::Syntax { line, column, .. }) => offset(text, line, column),
        Err(_) => return Value::Object(Map::new()),
    };
    let ends = ends(text.get(..fault).unwrap_or(text));
    let read = ends.iter().rev().take(MAX_CUTS).find_map(|(end, open)| {
        let closed: String = open.chars().rev().collect();
        parse(&format!("{}{closed}", text.get(..*end)?), path).ok()
    });
    read.unwrap_or_else(|| Value::Object(Map::new()))
}

fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = text.get(before..).unwrap_or_default();
    before + rest.chars().take(column).map(char::len_utf8).sum::<usize>()
}

/// Where the text may be cut off behind a value, and what is to be closed there.
fn ends(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut open) = (Vec::new(), String::new());
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        match c {
            '{' => open.push('}'),
            '[' => open.push(']'),
            '}' | ']' => {
                open.pop();
                found.push((at + 1, open.clone()));
            }
            ',' => found.push((at, open.clone())),
            quote @ ('"' | '\'') => {
                while let Some((_, c)) = rest.next().filter(|(_, c)| *c != quote) {
                    if c == '\\' {
                        rest.next();
                    }
                }
            }
            '/' if rest.peek().is_some_and(|(_, c)| *c == '/') => {
                let _ = rest.find(|(_, c)| *c == '\n');
            }
            '/' if rest.peek().is_some_and(|(_, c)| *c == '*') => {
                let end = text.get(at + 2..).and_then(|comment| comment.find("*/"));
                let end = end.map_or(text.len(), |length| at + length + 4);
                while rest.next_if(|(at, _)| *at < end).is_some() {}
            }
            _ => {}
        }
        if open.len() > super::nesting::MAX_DEPTH {
            break;
        }
    }
    // A number or a word may be cut off itself; a text in quotes is whole.
    if text.trim_end().ends_with(['"', '\'']) {
        found.push((text.len(), open));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn salvaged(text: &str, overrides: &Overrides) -> Settings {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join(".openclaw");
        fs::create_dir_all(&state).unwrap();
        fs::write(state.join("openclaw.json"), text).unwrap();
        salvage(&Env::fixed([], home.path()), overrides).unwrap()
    }

    #[track_caller]
    fn keeps(text: &str, port: u16, token: Option<&str>) {
        let gateway = salvaged(text, &Overrides::default()).gateway;
        assert!(gateway.bind.host().is_loopback());
        assert_eq!((gateway.port, gateway.auth.mode), (port, AuthMode::Token), "{text}");
        let own = gateway.auth.token.unwrap();
        match token {
            Some(token) => assert!(own.matches(token), "{text}"),
            None => assert_eq!(own.expose().len(), 64, "a generated one: {text}"),
        }
    }

    #[test]
    fn port_and_secret_stay_where_they_can_be_read_and_nothing_else() {
        let auth = "auth: {token: 'secret-1'}";
        keeps(
            &format!("{{gateway: {{port: 7, bind: 'lan', {auth}}}, session: 5}}"),
            7,
            Some("secret-1"),
        );
        keeps(&format!("{{gateway: {{port: 'x', {auth}}}}}"), 18789, Some("secret-1"));
        keeps(
            &format!("{{gateway: {{port: 7, {auth}, // }}\n }}, b: {{c: ['d', oops"),
            7,
            Some("secret-1"),
        );
        keeps(
            &format!("{{gateway: {{port: 7, /* {{, */ {auth}, x: '}},' }} b: }}"),
            7,
            Some("secret-1"),
        );
        keeps(&format!("{{gateway: {{port: 7, {auth}}}\n session: {{}}}}"), 7, Some("secret-1"));
        keeps("{gateway: {port: 7, auth: {token: '__OPENCLAW_REDACTED__'}}}", 7, None);
        keeps("{oops", 18789, None);
        keeps("[1]", 18789, None);
        keeps("{gateway: {auth: {token: 5}}, session: 5}", 18789, None);
    }

    #[test]
    fn of_a_file_that_is_cut_off_is_kept_what_is_whole() {
        let gateway = "gateway: {port: 7, auth: {token: 'secret-1'}}";
        for (text, port) in [
            (format!("{{session: {{}}, {gateway}\n"), 7),
            (format!("{{{gateway}, session: {{\n"), 7),
            (format!("{{{gateway}, session: {{a: [tr"), 7),
            ("{gateway: {port: 7, auth: {token: 'secret-1'\n".into(), 7),
            ("{gateway: {auth: {token: 'secret-1'}, port: 7".into(), 18789),
        ] {
            keeps(&text, port, Some("secret-1"));
        }
        keeps("{gateway: {port: 7, auth: {token: 'secret-", 7, None);
    }

    #[test]
    fn nobody_is_let_in_without_a_secret() {
        for auth in ["{mode: 'none'}", "{mode: 'trusted-proxy'}", "{mode: 'password'}", "5"] {
            keeps(&format!("{{gateway: {{port: 7, auth: {auth}}}, session: 5}}"), 7, None);
        }
        let open = Overrides { auth: Some(AuthMode::None), ..Overrides::default() };
        let gateway = salvaged("{gateway: {bind: 'lan'}, session: 5}", &open).gateway;
        assert_eq!(gateway.auth.mode, AuthMode::Token);
        assert!(gateway.auth.token.is_some() && gateway.bind.host().is_loopback());
    }

    #[test]
    fn what_is_not_the_fault_of_the_file_is_not_mended_there() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::fixed([("OPENCLAW_GATEWAY_PORT", "x")], home.path());
        assert!(salvage(&env, &Overrides::default()).is_none());
    }
}
