//! Reading and writing real files.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::config::{REDACTED, SaveError, Settings};
use crate::support::json;

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
        write(change, &ConfigBase::Hash(base), &self.env, |_| Ok(()))
            .map_err(|error| error.to_string())
    }
}

#[test]
fn a_snapshot_shows_the_file_without_secrets() {
    let place = Place::new(Some(FILE));
    let seen = place.look();
    assert!(seen.exists && seen.issues.is_empty() && seen.raw.is_none());
    assert_eq!(seen.hash, hex(Sha256::digest(FILE)));
    assert_eq!(seen.parsed["gateway"], json!({"port": 1, "auth": {"token": REDACTED}}));
    assert_eq!(seen.parsed["models"]["providers"]["p"]["apiKey"], "${KEY}");
    assert_eq!(seen.resolved["models"]["providers"]["p"]["apiKey"], REDACTED);
    assert!(!format!("{seen:?}").contains("secret-"));
    let plain = Place::new(Some("{ session: { mainKey: 'm' } } // plain"));
    assert_eq!(plain.look().raw.as_deref(), Some("{ session: { mainKey: 'm' } } // plain"));
    // A secret that was only taken out of use is one as well.
    let file = "{ session: { mainKey: 'm' } } // auth: { token: 'secret-2' }";
    let commented = Place::new(Some(file)).look();
    assert_eq!((commented.raw.as_deref(), commented.is_readable), (None, true));
    assert!(!format!("{commented:?}").contains("secret-"));
    // And one that is overruled.
    let file = "{\"gateway\": {\"auth\": {\"token\": \"secret-3\"}}, \"gateway\": {}}";
    let overruled = Place::new(Some(file)).look();
    assert_eq!(overruled.raw.as_deref(), Some("{\n  \"gateway\": {}\n}\n"));
    assert!(!format!("{overruled:?}").contains("secret-"));
    let none = Place::new(None).look();
    assert!(!none.exists);
    assert_eq!((none.hash, none.parsed), (hex(Sha256::digest("")), json!({})));
}

#[test]
fn the_text_of_a_plain_json_file_can_be_edited_without_its_secrets() {
    let file = "{\"gateway\":{\"auth\":{\"token\":\"old-1\",\"token\":\"secret-1\"},\"port\":1}}";
    let place = Place::new(Some(file));
    let raw = place.look().raw.unwrap();
    assert!(!raw.contains("old-1") && !raw.contains("secret-1"), "{raw}");
    assert!(!place.set(&raw).unwrap().changed, "what was shown is what is there");
    place.set(&raw.replace("\"port\": 1", "\"port\": 2")).unwrap();
    let after = parse(&place.text(), &place.path()).unwrap();
    assert_eq!(after, json!({"gateway": {"auth": {"token": "secret-1"}, "port": 2}}));
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
fn a_file_that_is_not_utf_8_is_shown_as_that_and_gives_way_to_another_text_only() {
    let place = Place::new(None);
    for (bytes, at) in [(&b"{a: '\xe4'}"[..], ":1:6: "), (&b"{mine: 1} // \xe4"[..], ":1:14: ")] {
        fs::write(place.path(), bytes).unwrap();
        let seen = place.look();
        let [issue] = &seen.issues[..] else { panic!("{:?}", seen.issues) };
        assert!(issue.message.contains(at) && issue.message.contains("UTF-8"), "{issue:?}");
        assert!(seen.exists && !seen.is_readable && seen.raw.is_none());
        assert_eq!(seen.hash, hex(Sha256::digest(bytes)));
        let refused = place.patch(&json!({"session": {"mainKey": "m"}})).unwrap_err();
        assert!(refused.contains("save it as UTF-8"), "{refused}");
        assert_eq!(fs::read(place.path()).unwrap(), bytes);
        assert!(place.set("{session: {mainKey: 'm'}}").unwrap().changed);
        assert_eq!(place.text(), "{session: {mainKey: 'm'}}");
        assert_eq!(fs::read(place.path().with_extension("json.bak")).unwrap(), bytes);
    }
}

#[test]
fn an_empty_file_is_shown_as_wrong_and_gives_way_to_another_text_only() {
    let place = Place::new(None);
    let unset = ConfigWrite::Unset("session".parse().unwrap());
    assert!(!place.put(&unset).unwrap().changed && !place.path().exists());
    let nothing = "the text is empty; write {} to go on without settings";
    let refused = place.set(" ").unwrap_err();
    assert!(refused.ends_with(nothing) && !place.path().exists(), "{refused}");
    fs::write(place.path(), "\n").unwrap();
    assert!(place.set(" ").unwrap_err().ends_with(nothing));
    let told = format!("{} is empty; write {{}} to go on without settings", place.path().display());
    let seen = place.look();
    let [issue] = &seen.issues[..] else { panic!("{:?}", seen.issues) };
    assert_eq!((issue.path.as_str(), &issue.message), ("", &told));
    let set = ConfigWrite::Set("session.mainKey".parse().unwrap(), json!("m"));
    for change in [set, unset, ConfigWrite::Merge("{}".into())] {
        let refused = place.put(&change).unwrap_err();
        assert!(refused.ends_with(&told), "{change:?}: {refused}");
    }
    let edited = crate::config::edit_file(&place.path(), |text| Ok(text.to_owned()));
    assert_eq!(edited.unwrap_err().to_string(), told);
    assert_eq!(place.text(), "\n");
    assert!(place.set("{}").unwrap().changed);
    assert_eq!((place.text().trim(), place.look().issues), ("{}", vec![]));
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
        let base = base.map_or(ConfigBase::Missing, |hash| ConfigBase::Hash(hash.into()));
        write(&change, &base, &place.env, |_| Ok(())).map(drop).map_err(|error| error.to_string())
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
            let error = write(&change, &ConfigBase::Hash(base.clone()), &place.env, |_| Ok(()))
                .unwrap_err()
                .to_string();
            assert!(error.starts_with("SyntaxError: JSON5: nested too deep at "), "{error}");
        }
    }
    let items = ConfigWrite::Merge("[]".into());
    let error = write(&items, &ConfigBase::Hash(base), &place.env, |_| Ok(())).unwrap_err();
    assert_eq!(error.to_string(), "config.patch raw must be an object");
    assert_eq!(place.text(), FILE);
    let beside = fs::read_dir(place.path().parent().unwrap()).unwrap().count();
    assert_eq!(beside, 2, "and no backup, but the lock");
    // Without a file there is nothing to have read.
    let empty = Place::new(None);
    write(&ConfigWrite::Replace("{}".into()), &ConfigBase::Missing, &empty.env, |_| Ok(()))
        .unwrap();
    assert!(Path::new(&empty.path()).exists());
}

#[test]
fn what_goes_from_a_list_leaves_its_file_to_nobody() {
    let text = "{\n  agents: { list: [{ id: 'main' }, { $include: './a.json5' }, \
                { id: 'c', name: 'C' }] },\n}\n";
    let place = Place::new(Some(text));
    fs::write(place.path().with_file_name("a.json5"), "{ id: 'a', name: 'A' }").unwrap();
    let mut wanted = place.look().source;
    let removed = wanted["agents"]["list"].as_array_mut().unwrap().remove(1);
    assert_eq!(removed, json!({"id": "a", "name": "A"}));
    place.set(&wanted.to_string()).unwrap();
    assert_eq!(place.look().source, wanted);
    assert!(!place.text().contains("$include"), "{}", place.text());
}

#[test]
fn sections_alone_leave_the_others_as_they_are() {
    let place = Place::new(Some(FILE));
    let sections = json!({"gateway": {"auth": {"token": REDACTED}}, "session": {"mainKey": "m"}});
    let sections = sections.as_object().unwrap().clone();
    let change = ConfigWrite::Sections(sections);
    let written = write(&change, &ConfigBase::Any, &place.env, |_| Ok(())).unwrap();
    assert_eq!(written.config["gateway"], json!({"auth": {"token": REDACTED}}));
    let text = place.text();
    let after = parse(&text, &place.path()).unwrap();
    assert_eq!(after["gateway"], json!({"auth": {"token": "secret-1"}}));
    assert_eq!(
        (&after["mine"], &after["session"]),
        (&json!({"kept": true}), &json!({"mainKey": "m"}))
    );
    assert!(text.contains("// the door") && text.contains("${KEY}"), "{text}");
}

fn with_includes() -> Place {
    let text = "{\n  // who answers\n  agents: { $include: './agents.json5' },\n  \
                gateway: { port: 1, auth: { token: 'secret-1' } },\n  extra: 1,\n}\n";
    let place = Place::new(Some(text));
    let part = "{ defaults: { model: 'a/b', timeoutSeconds: 5 }, list: [{ id: 'main' }] } // part";
    fs::write(place.path().with_file_name("agents.json5"), part).unwrap();
    place
}

#[test]
fn a_snapshot_has_what_is_included_and_says_what_is_not_known() {
    let place = with_includes();
    let seen = place.look();
    assert_eq!(seen.issues, []);
    assert_eq!(seen.parsed["agents"], json!({"$include": "./agents.json5"}));
    assert_eq!(seen.source["agents"]["defaults"]["model"], "a/b");
    assert_eq!(seen.resolved["agents"]["list"][0]["id"], "main");
    assert_eq!(seen.source["gateway"]["auth"]["token"], REDACTED);
    let told: Vec<_> = seen.warnings.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(told, ["extra"]);
    fs::remove_file(place.path().with_file_name("agents.json5")).unwrap();
    let issue = &place.look().issues[0];
    assert_eq!(issue.path, "agents.$include");
}

#[test]
fn what_is_included_stays_where_it_is_whoever_writes() {
    let place = with_includes();
    let before = place.text();
    let part = || fs::read_to_string(place.path().with_file_name("agents.json5")).unwrap();
    let part_before = part();
    // A form sends back what it was shown, as a whole, with one change elsewhere.
    let mut wanted = place.look().source;
    wanted["gateway"]["port"] = json!(2);
    place.set(&wanted.to_string()).unwrap();
    assert_eq!(place.text(), before.replace("port: 1", "port: 2"));
    // What it changes in the included part stands beside it.
    let mut wanted = place.look().source;
    wanted["agents"]["defaults"]["model"] = json!("c/d");
    place.set(&wanted.to_string()).unwrap();
    let seen = place.look();
    let beside = json!({"$include": "./agents.json5", "defaults": {"model": "c/d"}});
    assert_eq!(seen.parsed["agents"], beside);
    assert_eq!(seen.source["agents"]["defaults"], json!({"model": "c/d", "timeoutSeconds": 5}));
    place.patch(&json!({"agents": {"defaults": {"timeoutSeconds": 6}}})).unwrap();
    assert_eq!(place.look().source["agents"]["defaults"]["timeoutSeconds"], 6);
    assert!(place.text().contains("// who answers") && place.text().contains("secret-1"));
    // What cannot be said there is refused, with the file that has it.
    let patch = json!({"agents": {"defaults": {"timeoutSeconds": null}}});
    let error = place.patch(&patch).unwrap_err();
    assert_eq!(
        error,
        "invalid config: agents.defaults.timeoutSeconds: comes from ./agents.json5, which the \
         config includes; change it there"
    );
    let place_of = |text: &str| text.parse::<ValuePath>().unwrap();
    let unset = ConfigWrite::Unset(place_of("agents.list[0]"));
    assert!(place.put(&unset).unwrap_err().contains("agents.list: comes from ./agents.json5"));
    let set = ConfigWrite::Set(place_of("agents.defaults.mediaMaxMb"), json!(7));
    place.put(&set).unwrap();
    assert_eq!(place.look().source["agents"]["defaults"]["mediaMaxMb"], 7);
    assert_eq!(part(), part_before);
}

#[test]
fn nobody_writes_what_an_included_file_does_not_say_any_more() {
    let place = with_includes();
    let part = place.path().with_file_name("agents.json5");
    let (seen, before) = (place.look(), place.text());
    let mut wanted = seen.source.clone();
    wanted["gateway"]["port"] = json!(2);
    let set = ConfigWrite::Replace(wanted.to_string());
    let put = || {
        let base = ConfigBase::Hash(seen.hash.clone());
        write(&set, &base, &place.env, |_| Ok(())).map(drop).map_err(|error| error.to_string())
    };
    let stale = Err("config changed since last load; re-run config.get and retry".to_owned());
    let text = fs::read_to_string(&part).unwrap();
    fs::write(&part, text.replace("a/b", "c/d")).unwrap();
    assert_eq!(put(), stale);
    assert_eq!(place.look().source["agents"]["defaults"]["model"], "c/d");
    fs::remove_file(&part).unwrap();
    assert_eq!(put(), stale);
    assert_eq!(place.text(), before);
    // It is what was read again, whatever a comment says.
    fs::write(&part, text + "// as it was\n").unwrap();
    assert_eq!(put(), Ok(()));
    assert_eq!(place.text(), before.replace("port: 1", "port: 2"));
    // Without the file the config can still be mended.
    fs::remove_file(&part).unwrap();
    assert!(place.set("{}").unwrap().changed);
}

#[test]
fn what_is_included_may_not_change_while_a_change_is_worked_out() {
    let place = with_includes();
    let part = |model: &str| {
        let text = format!("{{ defaults: {{ model: '{model}' }} }}");
        fs::write(place.path().with_file_name("agents.json5"), text).unwrap();
    };
    let before = place.text();
    let set = ConfigWrite::Set("gateway.port".parse().unwrap(), json!(2));
    let would_work = |_: &str| {
        part("c/d");
        Ok(())
    };
    let error = write(&set, &ConfigBase::Any, &place.env, would_work).unwrap_err();
    assert!(matches!(error, ConfigWriteError::Save(SaveError::Stale(_))), "{error}");
    assert_eq!(place.text(), before);
    // What the gateway works out itself it works out anew.
    let mut models = Vec::new();
    let plan = |config: &Value| {
        let mut config = config.clone();
        models.push(config["agents"]["defaults"]["model"].clone());
        config["gateway"]["port"] = json!(2);
        Ok(config)
    };
    let prepare = |_: &Settings| {
        part("e/f");
        Ok(())
    };
    change::<ConfigWriteError>(&place.env, plan, prepare, |_| Ok(())).unwrap();
    assert_eq!(models, [json!("c/d"), json!("e/f")]);
    assert_eq!(place.text(), before.replace("port: 1", "port: 2"));
}

const FOREIGN: &str = "{\n  // as it was\n  tools: { web: { search: { provider: 'perplexity' } } },\n  \
                       models: { providers: { azure: { api: 'azure-openai-responses' } } },\n  \
                       hooks: { mappings: [{ id: 'a' }, { transform: { module: 'x.mjs', export: 'f' } }] },\n}\n";

#[test]
fn what_only_the_original_understands_is_told_and_stops_nothing() {
    let place = Place::new(Some(FOREIGN));
    let seen = place.look();
    assert_eq!(seen.issues, []);
    let told: Vec<_> = seen.warnings.iter().map(|it| it.path.as_str()).collect();
    let expected = [
        "hooks.mappings[1].transform.export",
        "tools.web.search.provider",
        "models.providers.azure.api",
        "hooks.mappings[1].transform.module",
    ];
    assert_eq!(told, expected);
    let search = &seen.warnings[1].message;
    assert!(search.contains("built in are brave, tavily, searxng"), "{search}");
    let wrong = FOREIGN.replace("perplexity", "gopher");
    assert_eq!(Place::new(Some(&wrong)).look().issues[0].path, "tools.web.search.provider");
}

#[test]
fn what_only_the_original_understands_stays_and_is_not_begun() {
    let place = Place::new(Some(FOREIGN));
    place.patch(&json!({"gateway": {"port": 7}})).unwrap();
    assert!(place.text().contains("// as it was") && place.text().contains("'perplexity'"));
    // The mapping is at another place of the list, and the same.
    place.patch(&json!({"hooks": {"mappings": [{"transform": {"module": "x.mjs"}}]}})).unwrap();
    for (patch, path) in [
        (json!({"tools": {"web": {"search": {"provider": "kimi"}}}}), "tools.web.search.provider"),
        (
            json!({"models": {"providers": {"b": {"api": "google-vertex"}}}}),
            "models.providers.b.api",
        ),
        (
            json!({"auth": {"profiles": {"a:b": {"provider": "a", "mode": "aws-sdk"}}}}),
            "auth.profiles.a:b.mode",
        ),
    ] {
        let error = place.patch(&patch).unwrap_err();
        assert!(error.starts_with(&format!("invalid config: {path}: ")), "{error}");
    }
    let set = ConfigWrite::Set("tools.web.search.provider".parse().unwrap(), json!("brave"));
    place.put(&set).unwrap();
    let set = ConfigWrite::Set("tools.web.search.provider".parse().unwrap(), json!("perplexity"));
    assert!(place.put(&set).unwrap_err().contains("is not built in"));
}

#[test]
fn secrets_in_arguments_and_variables_are_not_shown_and_come_back() {
    let file = json!({
        "mcp": {"servers": {"far": {"command": "npx", "args": ["mcp-remote", "https://h/mcp",
            "--header", "Authorization: Bearer secret-1"]},
            "docker": {"command": "docker", "args": ["run", "-e", "A_TOKEN=secret-2", "image"]}}},
        "secrets": {"providers": {"x": {"source": "exec", "command": "/bin/true",
            "env": {"VAULT": "secret-3"}}}},
        "agents": {"defaults": {"sandbox": {"docker": {"env": {"A": "secret-4"}}}},
            "list": [{"id": "main", "sandbox": {"docker": {"env": {"A": "secret-5"}}}}]},
    });
    let place = Place::new(Some(&file.to_string()));
    let seen = place.look();
    assert_eq!(seen.issues, []);
    assert!(!format!("{seen:?}").contains("secret-"), "{seen:?}");
    assert!(!place.set(&seen.parsed.to_string()).unwrap().changed);
    let mut shown = seen.parsed;
    shown["gateway"]["port"] = json!(7);
    place.set(&shown.to_string()).unwrap();
    let mut expected = file;
    expected["gateway"]["port"] = json!(7);
    assert_eq!(parse(&place.text(), &place.path()).unwrap(), expected);
}

#[test]
fn variables_of_the_file_dotenv_hold_and_what_is_wrong_there_is_told() {
    let place = Place::new(Some("{session: {mainKey: '${NAME}'}}"));
    assert!(place.look().issues[0].message.contains("NAME is not set"));
    fs::write(place.path().with_file_name(".env"), "NAME=mine\nsecret-x\n").unwrap();
    let seen = place.look();
    assert_eq!(seen.issues, []);
    assert_eq!(seen.resolved["session"]["mainKey"], "${NAME}");
    let [wrong] = &seen.warnings[..] else { panic!("{:?}", seen.warnings) };
    assert!(wrong.path == ".env" && wrong.message.contains("line 2 is not"), "{wrong:?}");
    assert!(!format!("{seen:?}").contains("secret-x"));
}

#[test]
fn what_is_used_only_after_a_restart_is_told_as_that() {
    let place = Place::new(Some(FILE));
    for (key, value, waits) in [
        ("gateway.dialects.ports", json!([18999]), true),
        ("gateway.dialects.claude.projects", json!(false), true),
        ("gateway.dialects.claude.projectsDir", json!("/p"), true),
        ("gateway.dialects.prefix", json!("compat/"), false),
        ("session.mainKey", json!("other"), false),
    ] {
        let set = ConfigWrite::Set(key.parse().unwrap(), value);
        let seen = preview(&set, &ConfigBase::Any, &place.env, |_| Ok(())).unwrap();
        assert_eq!((seen.changed, seen.needs_restart), (true, waits), "{key}");
    }
}

#[test]
fn a_preview_writes_nothing() {
    let place = Place::new(Some(FILE));
    let set = ConfigWrite::Set("gateway.port".parse().unwrap(), json!(5));
    let seen = preview(&set, &ConfigBase::Any, &place.env, |_| Ok(())).unwrap();
    assert!(seen.changed && seen.needs_restart);
    assert_eq!(seen.config["gateway"]["port"], 5);
    assert_eq!(place.text(), FILE);
    let wrong = ConfigWrite::Set("gateway.port".parse().unwrap(), json!("x"));
    assert!(preview(&wrong, &ConfigBase::Any, &place.env, |_| Ok(())).is_err());
}

#[test]
fn variables_of_the_section_env_hold_where_the_environment_has_none() {
    let place = Place::new(Some(
        "{env: {KEY: 'mine', vars: {OTHER: 'hers-${KEY}', PATHS: '/x'}}, \
         models: {providers: {p: {baseUrl: '${OTHER}', api: '${KEY}'}}}, \
         session: {mainKey: '${PATHS}'}}",
    ));
    let seen = place.look();
    assert_eq!(seen.issues, []);
    let meant = crate::config::preview(&place.text(), &place.env).unwrap();
    let provider = meant.models.providers.get("p").unwrap();
    assert_eq!(
        (provider.base_url.as_deref(), provider.api.as_deref(), meant.session.main_key.as_str()),
        (Some("hers-secret-2"), Some("secret-2"), "/x")
    );
    assert_eq!(seen.resolved["session"]["mainKey"], "${PATHS}");
    assert_eq!(seen.parsed["env"]["KEY"], REDACTED);
    // The next text is read without what the last one brought along.
    assert!(
        place.set("{session: {mainKey: '${PATHS}'}}").unwrap_err().contains("PATHS is not set")
    );
}
