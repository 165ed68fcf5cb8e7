//! The list against the readers: what it refuses they refuse, with the same
//! path, and what it offers they take.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::*;
use crate::config::edit::{Step, ValuePath};
use crate::config::redact::SlotKind;
use crate::config::{ConfigError, Env, check};
use crate::support::json;

/// What else has to stand in a config so that a place means something: the
/// beginning of its path, the last name in it (any when empty), and the config.
type Surrounding = (&'static str, &'static str, Value);

fn around_hooks() -> [Surrounding; 7] {
    let hook = |rules: Value| json!({"hooks": {"mappings": [{"transform": rules}]}});
    let when = |rule: &Value| hook(json!({"when": [rule]}));
    let case = |rule: &Value| hook(json!({"cases": [{"when": [rule]}]}));
    let (field, exists) = (json!({"field": "x"}), json!({"field": "x", "exists": true}));
    [
        ("hooks.enabled", "", json!({"hooks": {"token": "t"}})),
        ("hooks.mappings.*.transform.when.*", "field", when(&exists)),
        ("hooks.mappings.*.transform.when.*", "not", when(&exists)),
        ("hooks.mappings.*.transform.when.*", "", when(&field)),
        ("hooks.mappings.*.transform.cases.*.when.*", "field", case(&exists)),
        ("hooks.mappings.*.transform.cases.*.when.*", "not", case(&exists)),
        ("hooks.mappings.*.transform.cases.*.when.*", "", case(&field)),
    ]
}

fn surroundings() -> Vec<Surrounding> {
    let provider = |members: Value| json!({"models": {"providers": {"a": members}}});
    let secrets = |members: Value| json!({"secrets": {"providers": {"a": members}}});
    let program = || secrets(json!({"source": "exec", "command": "/bin/true"}));
    let mut surroundings = vec![
        ("agents.list.*", "", json!({"agents": {"list": [{"id": "main"}]}})),
        ("models.providers.*.models.*", "", provider(json!({"models": [{"id": "m"}]}))),
        (
            "models.providers.*.request.auth.mode",
            "",
            provider(json!({"request":
            {"auth": {"token": "t", "headerName": "x", "value": "v"}}})),
        ),
        (
            "models.providers.*.request.auth",
            "token",
            provider(json!({"request": {"auth": {"mode": "authorization-bearer"}}})),
        ),
        (
            "models.providers.*.request.auth",
            "",
            provider(json!({"request":
            {"auth": {"mode": "header", "headerName": "x", "value": "v"}}})),
        ),
        (
            "models.providers.*.request.proxy",
            "",
            provider(json!({"request":
            {"proxy": {"mode": "explicit-proxy", "url": "http://p:1"}}})),
        ),
        (
            "auth.profiles.*",
            "",
            json!({"auth": {"profiles": {"a":
            {"provider": "openai", "mode": "token"}}}}),
        ),
        ("secrets.providers.*.source", "", secrets(json!({"path": "/p", "command": "/bin/true"}))),
        ("secrets.providers.*", "allowlist", secrets(json!({"source": "env"}))),
        ("secrets.providers.*", "path", secrets(json!({"source": "file", "path": "/p"}))),
        ("secrets.providers.*", "mode", secrets(json!({"source": "file", "path": "/p"}))),
        ("secrets.providers.*", "maxBytes", secrets(json!({"source": "file", "path": "/p"}))),
        ("secrets.providers.*", "", program()),
        (
            "bindings.*.match.peer",
            "",
            json!({"bindings": [{"agentId": "main",
            "match": {"channel": "telegram", "peer": {"kind": "direct", "id": "1"}}}]}),
        ),
        ("bindings", "", json!({"bindings": [{"agentId": "main", "match": {"channel": "x"}}]})),
        (
            "gateway.auth.mode",
            "",
            json!({"gateway": {"trustedProxies": ["10.0.0.1"],
            "auth": {"password": "p", "trustedProxy": {"userHeader": "x-user"}}}}),
        ),
        ("gateway.bind", "", json!({"gateway": {"customBindHost": "127.0.0.1"}})),
        (
            "tools.guardrails.rules.*",
            "",
            json!({"tools": {"guardrails": {"rules": [{"id": "a", "pattern": "x"}]}}}),
        ),
        ("mcp.servers.*", "", json!({"mcp": {"servers": {"a": {"command": "x"}}}})),
    ];
    surroundings.extend(surroundings_of_channels());
    surroundings
}

fn surroundings_of_channels() -> [Surrounding; 4] {
    let account = || json!({"allowFrom": ["*"]});
    let telegram = |members: Value| json!({"channels": {"telegram": members}});
    let webhook = |members: Value| json!({"channels": {"webhook": members}});
    [
        ("channels.telegram.accounts.*", "", telegram(json!({"accounts": {"a": account()}}))),
        ("channels.webhook.accounts.*", "", webhook(json!({"accounts": {"a": account()}}))),
        ("channels.telegram", "", telegram(account())),
        ("channels.webhook", "", webhook(account())),
    ]
}

/// The top of what readers need in one piece, so that they name the piece.
const WHOLE: [&str; 4] = [
    "models.providers.*.request.auth",
    "models.providers.*.request.proxy",
    "channels.telegram.streaming",
    "channels.telegram.accounts.*.streaming",
];

/// Every place of the list but the free ones, with its path in an example.
fn places() -> Vec<(String, ValuePath, Kind, Option<Key>)> {
    let mut places = Vec::new();
    for section in SECTIONS {
        let key = section.key;
        let steps = vec![Step::Key(key.name.into())];
        place(key.name.into(), steps, key.kind, Some(key), &mut places);
    }
    places
}

fn place(
    pattern: String,
    steps: Vec<Step>,
    kind: Kind,
    key: Option<Key>,
    places: &mut Vec<(String, ValuePath, Kind, Option<Key>)>,
) {
    let mut below = |name: &str, step: Step, kind: Kind, key: Option<Key>| {
        let steps = [steps.clone(), vec![step]].concat();
        place(format!("{pattern}.{name}"), steps, kind, key, places);
    };
    let mut parts = vec![kind];
    while let Some(part) = parts.pop() {
        match part {
            Kind::Object(keys) | Kind::Open(keys, _) => {
                for key in keys {
                    below(key.name, Step::Key(key.name.into()), key.kind, Some(*key));
                }
            }
            Kind::Map(kind) => below("*", Step::Key("a".into()), *kind, None),
            Kind::List(kind) => {
                // What an item is like is said for the list.
                let item = key.filter(|key| !key.example.is_empty());
                below("*", Step::Index(0), *kind, item);
            }
            Kind::Either(kinds) => parts.extend(kinds),
            _ => {}
        }
    }
    places.push((pattern, steps.into(), kind, key));
}

fn with(pattern: &str, path: &ValuePath, value: Value) -> Value {
    let fits = |start: &str, name: &str| {
        pattern.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            && (name.is_empty() || pattern[start.len()..].split('.').any(|part| part == name))
    };
    let mut all = surroundings().into_iter().chain(around_hooks());
    let around = all.find(|(start, name, _)| fits(start, name));
    let mut config = around.map_or_else(|| json!({}), |(_, _, config)| config);
    if path.set_in(&mut config, value.clone()).is_err() {
        config = json!({});
        path.set_in(&mut config, value).unwrap();
    }
    config
}

/// Values that do not fit, whatever else they are.
fn wrong(kind: &Kind) -> Vec<Value> {
    match kind {
        Kind::Boolean => vec![json!("true"), json!(1), json!([])],
        Kind::Text | Kind::TextOrFalse => vec![json!(5), json!(true), json!(["x"])],
        Kind::Secret => vec![json!(5), json!(["x"])],
        Kind::Integer(least, most) => {
            let mut values = vec![json!("x"), json!(1.5), json!(-1), json!(true)];
            values.extend(least.checked_sub(1).map(|less| json!(less)));
            values.extend(Some(json!(most.saturating_add(1))).filter(|_| *most < MAX));
            values
        }
        Kind::Number(_, most) if *most < f64::MAX => vec![json!("x"), json!(-1), json!(most + 1.0)],
        Kind::Number(..) => vec![json!("x"), json!(true)],
        Kind::Within(kind, ..) => wrong(kind),
        Kind::Word(_) => vec![json!("no-such-word"), json!(5), json!(true)],
        Kind::Quantity | Kind::QuantityOrFalse => vec![json!(true), json!([])],
        Kind::List(_) => vec![json!("x"), json!(5), json!({"a": 1})],
        Kind::Map(_) | Kind::Object(_) | Kind::Open(..) => vec![json!("x"), json!(5)],
        Kind::Either(_) => vec![json!([["x"]])],
        Kind::Any => vec![],
    }
}

fn right(kind: &Kind, key: Option<&Key>) -> Vec<Value> {
    let said = key.into_iter().flat_map(|key| [key.default, key.example]);
    let said = said.filter_map(|text| serde_json::from_str(text).ok());
    let is_list = matches!(kind, Kind::List(_));
    let said: Vec<Value> = said
        .map(|value: Value| match value {
            Value::Array(items) if !is_list => items.into_iter().next().unwrap_or_default(),
            value => value,
        })
        .collect();
    let has_example = key.is_some_and(|key| !key.example.is_empty());
    let of_kind = match kind {
        Kind::Boolean => vec![json!(true), json!(false)],
        Kind::Text if !has_example => vec![json!("text")],
        Kind::Secret if !has_example => {
            vec![json!("text"), json!({"source": "file", "provider": "f", "id": "/a"})]
        }
        Kind::Integer(least, most) => vec![json!(least), json!(most)],
        Kind::Number(..) => vec![json!(0.5), json!(1)],
        Kind::Within(kind, ..) => right(kind, None),
        Kind::Word(words) => words.iter().map(|word| json!(word)).collect(),
        Kind::Quantity if said.is_empty() => vec![json!("1h")],
        Kind::QuantityOrFalse | Kind::TextOrFalse => vec![json!(false)],
        Kind::Either(kinds) => kinds.iter().flat_map(|kind| right(kind, key)).collect(),
        Kind::List(_) => vec![json!([])],
        Kind::Any => vec![json!({"a": [1]})],
        _ => vec![],
    };
    [said, of_kind].concat()
}

/// What the schema says of a config: the paths of what is wrong.
fn refusals(validator: &jsonschema::Validator, config: &Value) -> Vec<String> {
    validator.iter_errors(config).map(|error| error.to_string()).collect()
}

fn read(config: &Value, env: &Env) -> Result<(), (String, String)> {
    check(&config.to_string(), env).map_err(|error| match error {
        ConfigError::Invalid { key, reason, .. } => (key, reason),
        other => ("?".into(), other.to_string()),
    })
}

#[test]
fn what_the_list_refuses_is_refused_with_its_path() {
    let home = tempfile::tempdir().unwrap();
    let env = Env::fixed([], home.path());
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut faults = Vec::new();
    for (pattern, path, kind, _) in places() {
        for value in wrong(&kind) {
            let config = with(&pattern, &path, value.clone());
            if refusals(&validator, &config).is_empty() {
                faults.push(format!("{path} = {value}: the schema takes it"));
            }
            let is_whole = |key: &str| {
                let top = WHOLE.iter().find(|top| pattern.starts_with(**top));
                top.is_some() && path.to_string().starts_with(key)
            };
            match read(&config, &env) {
                Err((key, _)) if key == path.to_string() || is_whole(&key) => {}
                outcome => faults.push(format!("{path} = {value}: read as {outcome:?}")),
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_the_list_offers_is_taken() {
    let home = tempfile::tempdir().unwrap();
    let env = Env::fixed([], home.path());
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut faults = Vec::new();
    for (pattern, path, kind, key) in places() {
        for value in right(&kind, key.as_ref()) {
            let config = with(&pattern, &path, value.clone());
            let refusals = refusals(&validator, &config);
            if !refusals.is_empty() {
                faults.push(format!("{path} = {value}: the schema says {refusals:?}"));
            }
            if let Err(error) = read(&config, &env) {
                faults.push(format!("{path} = {value}: {error:?}"));
            }
            if !unknown(&config).is_empty() {
                faults.push(format!("{path}: unknown"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Where nothing is written, what the list says holds.
#[test]
fn the_defaults_are_those_that_hold() {
    let home = tempfile::tempdir().unwrap();
    let env = Env::fixed([], home.path());
    let looking = crate::config::Overrides { read_only: true, ..Default::default() };
    let settings = crate::config::load(&env, &looking).unwrap();
    let defaults: BTreeMap<String, Value> = places()
        .into_iter()
        .filter_map(|(pattern, _, _, key)| {
            Some((pattern, serde_json::from_str(key?.default).ok()?))
        })
        .collect();
    let mut compared = 0;
    for line in settings.explain() {
        let Some(default) = defaults.get(&line.key) else { continue };
        let shown = match default {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let is_list = matches!(default, Value::Array(_));
        let shown = if shown == "24h" { "86400000 ms".into() } else { shown };
        let holds = line.value == shown || is_list || line.value == "not set";
        assert!(holds, "{}: {} holds, the list says {shown}", line.key, line.value);
        compared += 1;
    }
    assert!(compared > 60, "{compared}");
}

/// The form of the original gives up on a place with more than one shape, and
/// on every list and map around it. These are its rules.
#[test]
fn the_original_form_shows_every_place() {
    fn supported(path: &str, schema: &Value, faults: &mut Vec<String>) {
        let kind = match &schema["type"] {
            Value::Array(types) => types.first().and_then(Value::as_str).map(str::to_owned),
            other => other.as_str().map(str::to_owned),
        };
        let union = schema.get("anyOf").or_else(|| schema.get("oneOf"));
        if let Some(parts) = union.and_then(Value::as_array) {
            let is_literal = |part: &&Value| part.get("const").is_some();
            let literals = parts.iter().filter(is_literal).count();
            let rest: Vec<_> = parts.iter().filter(|part| !is_literal(part)).collect();
            let is_plain = |part: &&&Value| {
                let kind = part["type"].as_str().unwrap_or_default();
                matches!(kind, "string" | "number" | "integer" | "boolean")
            };
            let is_reference = |part: &Value| {
                part["oneOf"].as_array().is_some_and(|forms| {
                    let fits = |form: &Value| form["properties"]["source"]["const"].is_string();
                    forms.iter().all(fits)
                })
            };
            let is_secret = rest.len() == 2
                && rest[0]["type"] == "string"
                && rest.get(1).is_some_and(|part| is_reference(part));
            let fits = rest.is_empty()
                || rest.len() == 1
                || literals == 0 && rest.iter().all(|part| is_plain(&part))
                || is_secret;
            if !fits {
                faults.push(path.to_owned());
            }
            return;
        }
        match kind.as_deref() {
            Some("object") => {
                for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                    supported(&format!("{path}.{name}"), schema, faults);
                }
                let free = &schema["additionalProperties"];
                if free.as_object().is_some_and(|free| !free.is_empty()) {
                    supported(&format!("{path}.*"), free, faults);
                } else if *free == json!(true) {
                    faults.push(path.to_owned());
                }
            }
            Some("array") => supported(&format!("{path}.*"), &schema["items"], faults),
            Some("string" | "number" | "integer" | "boolean") => {}
            _ => faults.push(path.to_owned()),
        }
    }
    let mut faults = Vec::new();
    supported("", &schema(), &mut faults);
    assert_eq!(faults, [""; 0]);
}

#[test]
fn every_place_for_a_credential_is_in_the_list_and_is_marked() {
    let hints = hints();
    for slot in crate::config::redact::SLOTS {
        let steps: Vec<_> = slot.path.split('.').map(|name| Step::Key(name.into())).collect();
        // Any name may be the one of a CLI; the list has those that there are.
        let path = slot.path.replace("cliBackends.*", "cliBackends.claude-cli");
        if path == slot.path {
            assert!(find(&steps).is_some(), "{path}");
        }
        let is_hidden = matches!(slot.kind, SlotKind::Input | SlotKind::Text);
        let marked = hints.get(&path).is_some_and(|hint| hint["sensitive"] == true);
        assert_eq!(marked, is_hidden, "{path}");
    }
}

#[test]
fn the_example_fits_the_schema_and_has_nothing_unknown() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/openclaw.example.json5");
    let text = std::fs::read_to_string(&file).unwrap();
    let config = crate::config::parse(&text, &file).unwrap();
    let validator = jsonschema::validator_for(&schema()).unwrap();
    assert_eq!(refusals(&validator, &config), [""; 0]);
    assert_eq!(unknown(&config), []);
}
