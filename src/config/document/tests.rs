//! Reading and writing real files.

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::config::REDACTED;

const FILE: &str = "{\n  // the door\n  gateway: { port: 1, auth: { token: 'secret-1' } },\n  \
                    models: { providers: { p: { apiKey: \"${KEY}\", baseUrl: 'http://h' } } },\n  \
                    mine: { kept: true },\n}\n";

struct Place {
    home: TempDir,
    env: Env,
}

impl Place {
    fn new(text: Option<&str>) -> Self {
        let home = TempDir::new().unwrap();
        let env = Env::fixed([("KEY", "secret-2")], home.path());
        let place = Self { home, env };
        fs::create_dir_all(place.path().parent().unwrap()).unwrap();
        if let Some(text) = text {
            fs::write(place.path(), text).unwrap();
        }
        place
    }

    fn path(&self) -> PathBuf {
        self.home.path().join(".openclaw/openclaw.json")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn look(&self) -> ConfigSnapshot {
        ConfigSnapshot::read(&self.env).unwrap()
    }

    fn set(&self, raw: &str) -> Result<ConfigWritten, String> {
        self.put(&ConfigWrite::Replace(raw.into()))
    }

    fn patch(&self, raw: &Value) -> Result<ConfigWritten, String> {
        self.put(&ConfigWrite::Merge(raw.to_string()))
    }

    fn put(&self, change: &ConfigWrite) -> Result<ConfigWritten, String> {
        let base = self.look().hash;
        write(change, Some(&base), &self.env, |_| Ok(())).map_err(|error| error.to_string())
    }
}

#[test]
fn a_snapshot_shows_the_file_without_secrets() {
    let place = Place::new(Some(FILE));
    let seen = place.look();
    assert!(seen.exists && seen.issues.is_empty() && seen.raw.is_none());
    assert_eq!(seen.hash, hash_of(FILE));
    assert_eq!(seen.parsed["gateway"], json!({"port": 1, "auth": {"token": REDACTED}}));
    assert_eq!(seen.parsed["models"]["providers"]["p"]["apiKey"], "${KEY}");
    assert_eq!(seen.resolved["models"]["providers"]["p"]["apiKey"], REDACTED);
    assert!(!format!("{seen:?}").contains("secret-"));
    let plain = Place::new(Some("{ session: { mainKey: 'm' } } // plain"));
    assert_eq!(plain.look().raw.as_deref(), Some("{ session: { mainKey: 'm' } } // plain"));
    let none = Place::new(None).look();
    assert!(!none.exists);
    assert_eq!((none.hash, none.parsed), (hash_of(""), json!({})));
}

#[test]
fn what_is_wrong_is_told_with_its_path_and_without_its_text() {
    for (text, path, part) in [
        ("{gateway: {port: 'secret-x'}}", "gateway.port", "must be an integer"),
        ("{gateway: {auth: {token: \"${GONE}\"}}}", "gateway.auth.token", "GONE is not set"),
        ("{gateway: {auth: {token: 'secret-x'}", "", "not valid JSON5"),
    ] {
        let seen = Place::new(Some(text)).look();
        let [issue] = &seen.issues[..] else { panic!("{:?}", seen.issues) };
        assert_eq!(issue.path, path);
        assert!(issue.message.contains(part), "{issue:?}");
        assert!(path == "gateway.port" || !format!("{seen:?}").contains("secret-x"));
    }
}

#[test]
fn what_was_shown_is_written_back_with_its_secrets_and_the_comments_of_the_file() {
    let place = Place::new(Some(FILE));
    let mut shown = place.look().parsed;
    shown["gateway"]["port"] = json!(2);
    let written = place.set(&shown.to_string()).unwrap();
    assert!(written.changed);
    assert_eq!(written.config["gateway"]["auth"]["token"], REDACTED);
    assert_eq!(place.text(), FILE.replace("port: 1", "port: 2"));
    // A text of its own replaces comments too, and keeps the secret.
    let own = format!("{{ /* mine */ gateway: {{ auth: {{ token: '{REDACTED}' }} }} }}");
    place.set(&own).unwrap();
    let text = place.text();
    assert!(text.starts_with("{ /* mine */") && text.contains("secret-1"), "{text}");
    assert!(
        fs::read_to_string(place.path().with_extension("json.bak"))
            .unwrap()
            .contains("// the door")
    );
}

#[test]
fn a_patch_changes_its_places_only_and_one_without_effect_nothing() {
    let place = Place::new(Some(FILE));
    let patch = json!({"gateway": {"port": 3, "auth": {"token": REDACTED}}, "mine": {"kept": null, "new": 1}});
    assert!(place.patch(&patch).unwrap().changed);
    let text = place.text();
    assert!(
        text.contains("// the door") && text.contains("port: 3") && text.contains("'secret-1'")
    );
    assert_eq!(place.look().parsed["mine"], json!({"new": 1}));
    assert!(!place.patch(&json!({"gateway": {"port": 3}})).unwrap().changed);
    assert_eq!(place.text(), text);
}

#[test]
fn nothing_is_written_that_is_stale_wrong_or_lost() {
    let place = Place::new(Some(FILE));
    let set = |raw: &str, base: Option<&str>| {
        let change = ConfigWrite::Replace(raw.to_owned());
        write(&change, base, &place.env, |_| Ok(())).map(drop).map_err(|error| error.to_string())
    };
    let base = place.look().hash;
    let refused = |raw: &str| set(raw, Some(&base)).unwrap_err();
    let required = "config base hash required; re-run config.get and retry";
    let changed = "config changed since last load; re-run config.get and retry";
    assert_eq!(set("{}", None).unwrap_err(), required);
    assert_eq!(set("{}", Some("x")).unwrap_err(), changed);
    assert!(refused("{oops").starts_with("SyntaxError: JSON5: "));
    assert_eq!(refused("[]"), "invalid config: <root>: must be an object");
    assert!(refused("{gateway: {port: 'x'}}").starts_with("invalid config: gateway.port: must be"));
    let lost = refused(&format!("{{session: {{mainKey: '{REDACTED}'}}}}"));
    assert!(lost.starts_with("invalid config: session.mainKey: the placeholder"), "{lost}");
    for deep in ["[".repeat(100_000), format!("{}1{}", "{a:".repeat(200), "}".repeat(200))] {
        for change in [ConfigWrite::Merge(deep.clone()), ConfigWrite::Replace(deep)] {
            let error =
                write(&change, Some(&base), &place.env, |_| Ok(())).unwrap_err().to_string();
            assert!(error.starts_with("SyntaxError: JSON5: nested too deep at "), "{error}");
        }
    }
    let items = ConfigWrite::Merge("[]".into());
    let error = write(&items, Some(&base), &place.env, |_| Ok(())).unwrap_err();
    assert_eq!(error.to_string(), "config.patch raw must be an object");
    assert_eq!(place.text(), FILE);
    assert_eq!(fs::read_dir(place.path().parent().unwrap()).unwrap().count(), 1, "and no backup");
    // Without a file there is nothing to have read.
    let empty = Place::new(None);
    write(&ConfigWrite::Replace("{}".into()), None, &empty.env, |_| Ok(())).unwrap();
    assert!(Path::new(&empty.path()).exists());
}
