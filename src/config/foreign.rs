//! Values of OpenClaw that mean nothing here.
//!
//! Owns: which words of OpenClaw are known and not built in, which templates and places
//! come to nothing, there as here, and where they stand in a config. Promises: whoever writes
//! one is told what it turns off, and what is built in. Must not: turn anything off;
//! the readers of the sections do that.

use jiff::tz::TimeZone;
use serde_json::Value;

use super::ProxyRange;
use super::edit::{Step, ValuePath};
use super::hooks::Template;
use super::profiles::ProfileMode;
use super::web::SearchProvider;

/// Words for one thing.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// Those that mean something here.
    pub built_in: &'static [&'static str],
    /// Those that only OpenClaw understands.
    foreign: &'static [&'static str],
}

/// `api` of a provider, or of one of its models.
pub const APIS: Words = Words {
    built_in: &[
        "openai-completions",
        "openai-responses",
        "anthropic-messages",
        "google-generative-ai",
        "ollama",
        "offline",
    ],
    foreign: &[
        "azure-openai-responses",
        "bedrock-converse-stream",
        "github-copilot",
        "google-vertex",
        "openai-chatgpt-responses",
        "openai-codex-responses",
    ],
};

/// `tools.web.search.provider`.
pub const SEARCHES: Words = Words {
    built_in: &[
        SearchProvider::Brave.as_str(),
        SearchProvider::Tavily.as_str(),
        SearchProvider::Searxng.as_str(),
    ],
    foreign: &[
        "duckduckgo",
        "exa",
        "firecrawl",
        "gemini",
        "grok",
        "kimi",
        "minimax",
        "ollama",
        "perplexity",
    ],
};

/// `mode` of one of `auth.profiles`.
pub const PROFILE_MODES: Words = Words {
    built_in: &[
        ProfileMode::ApiKey.as_str(),
        ProfileMode::Token.as_str(),
        ProfileMode::OAuth.as_str(),
    ],
    foreign: &["aws-sdk"],
};

/// What is said of a program in the place of rules.
const PROGRAM: &str = "is for JavaScript, which is not run here, and turns the mapping off; say \
    the same by transform.when, .defaults, .set and .cases (docs/webhooks.md)";
/// What is said of a template for a session that no request may choose.
const NOT_CHOSEN: &str = "is a template, and requests may not choose their session, so each that \
    fills it is answered with 400; give the mapping a sessionKeyPrefix, or set \
    hooks.allowRequestSessionKey (docs/webhooks.md)";
/// What is said of a time zone that is none.
const NO_ZONE: &str = "is no time zone that this machine knows, such as Europe/Berlin: it counts \
    as if it were not there";
/// What is said of a proxy without an address.
const NO_PROXY: &str = "is no IP address and no network such as 10.0.0.0/8: nobody is believed \
    for it";
/// What is said of a web server without an address.
const NO_ADDRESS: &str = "is webhook, and without `to` beside it, the address of a web server, \
    that is no place: failures are told as if there were none";

impl Words {
    /// Whether only OpenClaw understands it.
    pub fn is_foreign(&self, word: &str) -> bool {
        self.foreign.contains(&word)
    }

    /// Those that mean something here, for people.
    pub fn names(&self) -> String {
        self.built_in.join(", ")
    }

    /// The value, when it is such a word, which turns `what` off.
    fn verdict(&self, path: ValuePath, value: &Value, what: &str) -> Option<Foreign> {
        let word = value.as_str().map(str::trim).filter(|word| self.is_foreign(word))?;
        let known = self.names();
        let message =
            format!("{word:?} is not built in and turns {what} off; built in are {known}");
        Some(Foreign { path, message })
    }
}

/// A value that turns off what it is written for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// Where it stands.
    pub path: ValuePath,
    /// What is off, and what would be understood.
    pub message: String,
}

impl Foreign {
    /// Whether the other one says the same, be it for another item of a list.
    pub fn is_like(&self, other: &Self) -> bool {
        let (own, others) = (self.path.steps(), other.path.steps());
        let is_same = |pair: (&Step, &Step)| {
            pair.0 == pair.1 || matches!(pair, (Step::Index(_), Step::Index(_)))
        };
        self.message == other.message
            && own.len() == others.len()
            && own.iter().zip(others).all(is_same)
    }
}

/// Every such value of a config.
pub fn found(config: &Value) -> Vec<Foreign> {
    let path = ValuePath::of(&["tools", "web", "search", "provider"]);
    let search = &config["tools"]["web"]["search"]["provider"];
    let mut found: Vec<_> = SEARCHES.verdict(path, search, "web_search").into_iter().collect();
    for (id, provider) in members(&config["models"]["providers"]) {
        found.extend(of_provider(id, provider));
    }
    for (id, profile) in members(&config["auth"]["profiles"]) {
        let path = ValuePath::of(&["auth", "profiles", id, "mode"]);
        found.extend(PROFILE_MODES.verdict(path, &profile["mode"], "the profile"));
    }
    found.extend(unread(config));
    let place = &config["cron"]["failureDestination"];
    let is_webhook = place["mode"].as_str().is_some_and(|mode| mode.trim() == "webhook");
    if is_webhook && place["to"].as_str().is_none_or(|to| to.trim().is_empty()) {
        let path = ValuePath::of(&["cron", "failureDestination", "mode"]);
        found.push(Foreign { path, message: NO_ADDRESS.into() });
    }
    let hooks = &config["hooks"];
    let is_bound = hooks["enabled"] == true && hooks["allowRequestSessionKey"] != true;
    for (index, mapping) in items(&hooks["mappings"]) {
        let above = [key("hooks"), key("mappings"), Step::Index(index)];
        if mapping["transform"]["module"].is_string() {
            let path = [&above[..], &[key("transform"), key("module")]].concat();
            found.push(Foreign { path: path.into(), message: PROGRAM.into() });
        } else if is_bound && !mapping["sessionKeyPrefix"].is_string() {
            let all = of_sessions(mapping).into_iter();
            let all = all.map(|place| ValuePath::from([&above[..], &place[..]].concat()));
            found.extend(all.map(|path| Foreign { path, message: NOT_CHOSEN.into() }));
        }
    }
    found
}

/// Zones and addresses that nothing is made of, as in OpenClaw.
fn unread(config: &Value) -> Vec<Foreign> {
    let text = |value: &Value| {
        let text = value.as_str().map(str::trim).filter(|text| !text.is_empty())?;
        // What a variable says is not known here.
        (!text.contains("${")).then(|| text.to_owned())
    };
    let is_zone = |name: &str| matches!(name, "user" | "local") || TimeZone::get(name).is_ok();
    let defaults = &config["agents"]["defaults"];
    let mut zones = vec![
        (vec![key("agents"), key("defaults"), key("userTimezone")], &defaults["userTimezone"]),
        (
            ["agents", "defaults", "heartbeat", "activeHours", "timezone"].map(key).into(),
            &defaults["heartbeat"]["activeHours"]["timezone"],
        ),
    ];
    for (index, agent) in items(&config["agents"]["list"]) {
        let above = vec![key("agents"), key("list"), Step::Index(index)];
        let path = [above, ["heartbeat", "activeHours", "timezone"].map(key).into()].concat();
        zones.push((path, &agent["heartbeat"]["activeHours"]["timezone"]));
    }
    let unknown = zones.into_iter().filter(|(_, zone)| text(zone).is_some_and(|it| !is_zone(&it)));
    let mut found: Vec<_> =
        unknown.map(|(path, _)| Foreign { path: path.into(), message: NO_ZONE.into() }).collect();
    for (index, proxy) in items(&config["gateway"]["trustedProxies"]) {
        if text(proxy).is_some_and(|it| it.parse::<ProxyRange>().is_err()) {
            let path = vec![key("gateway"), key("trustedProxies"), Step::Index(index)];
            found.push(Foreign { path: path.into(), message: NO_PROXY.into() });
        }
    }
    found
}

/// Where a mapping has templates for its session that are filled. What was read is asked for
/// the same by `HookMapping::chooses_session`.
fn of_sessions(mapping: &Value) -> Vec<Vec<Step>> {
    let rules = &mapping["transform"];
    let set = &rules["set"];
    // What the rules say stands in the place of what the mapping says itself.
    let is_ruled = set["sessionKey"].as_str().is_some_and(|it| !it.trim().is_empty());
    let own = if is_ruled {
        (vec![key("transform"), key("set")], set, set)
    } else {
        (vec![], mapping, set)
    };
    let cases = items(&rules["cases"]).map(|(index, case)| {
        let place = vec![key("transform"), key("cases"), Step::Index(index), key("set")];
        (place, &case["set"], &case["set"])
    });
    // The main session is always the same.
    let wakes = |first: &Value| {
        let mut all = [first, set, mapping].into_iter();
        all.find_map(|fields| fields["action"].as_str()) == Some("wake")
    };
    let all = [own].into_iter().chain(cases).filter(|(_, fields, first)| {
        let written = fields["sessionKey"].as_str();
        !wakes(first) && written.is_some_and(|written| Template::parse(written).has_values())
    });
    all.map(|(place, ..)| [place, vec![key("sessionKey")]].concat()).collect()
}

/// Those of one of `models.providers`.
fn of_provider(id: &str, provider: &Value) -> Vec<Foreign> {
    let path = ValuePath::of(&["models", "providers", id, "api"]);
    let own = APIS.verdict(path, &provider["api"], "the provider");
    let of_models = items(&provider["models"]).filter_map(|(index, model)| {
        let above = vec![key("models"), key("providers"), key(id), key("models")];
        let path = [above, vec![Step::Index(index), key("api")]].concat();
        APIS.verdict(path.into(), &model["api"], "the model")
    });
    own.into_iter().chain(of_models).collect()
}

fn key(name: &str) -> Step {
    Step::Key(name.to_owned())
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn items(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn what_only_the_original_understands_is_found_with_its_path() {
        let config = json!({
            "tools": {"web": {"search": {"enabled": false, "provider": "perplexity"}}},
            "models": {"providers": {
                "azure": {"api": "azure-openai-responses", "models": [{"id": "m"}]},
                "b.c": {"api": "ollama", "models": [{"id": "m", "api": "google-vertex"}]},
            }},
            "auth": {"profiles": {"bedrock:x": {"provider": "bedrock", "mode": "aws-sdk"}}},
            "hooks": {"mappings": [{"transform": {"when": []}}, {"transform": {"module": "x.js"}}]},
        });
        let told: Vec<_> =
            found(&config).iter().map(|it| format!("{} {}", it.path, it.message)).collect();
        let apis = "built in are openai-completions, openai-responses, anthropic-messages, \
                    google-generative-ai, ollama, offline";
        let expected = [
            "tools.web.search.provider \"perplexity\" is not built in and turns web_search off; \
             built in are brave, tavily, searxng"
                .to_owned(),
            format!(
                "models.providers.azure.api \"azure-openai-responses\" is not built in and turns \
                 the provider off; {apis}"
            ),
            format!(
                "models.providers[\"b.c\"].models[0].api \"google-vertex\" is not built in and \
                 turns the model off; {apis}"
            ),
            "auth.profiles.bedrock:x.mode \"aws-sdk\" is not built in and turns the profile off; \
             built in are api_key, token, oauth"
                .to_owned(),
            format!("hooks.mappings[1].transform.module {PROGRAM}"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_template_for_a_session_that_no_request_may_choose_is_found() {
        let of = |hooks: Value| -> Vec<_> {
            let all = found(&json!({ "hooks": hooks })).into_iter();
            all.map(|it| format!("{} {}", it.path, it.message)).collect()
        };
        let set = json!({"sessionKey": "x:{{id}}"});
        let mappings = json!([
            {"sessionKey": "{{id}}"},
            {"sessionKey": "hook:x", "transform": {"set": set, "cases": [{}, {"set": set}]}},
            {"sessionKey": "{{id}}", "sessionKeyPrefix": "hook:ci:"},
            {"sessionKey": "{{id}}", "transform": {"set": {"sessionKey": "hook:x"}}},
            {"sessionKey": "{{id}}", "action": "wake"},
            {"action": "wake", "transform": {"cases": [{"set": set}, {"set":
                {"sessionKey": "{{id}}", "action": "agent"}}]}},
        ]);
        let expected = [
            "[0]",
            "[1].transform.set",
            "[1].transform.cases[1].set",
            "[5].transform.cases[1].set",
        ]
        .map(|place| format!("hooks.mappings{place}.sessionKey {NOT_CHOSEN}"));
        assert_eq!(of(json!({"enabled": true, "mappings": mappings})), expected);
        let none: [String; 0] = [];
        let may = json!({"enabled": true, "allowRequestSessionKey": true, "mappings": mappings});
        assert_eq!(of(may), none);
        assert_eq!(of(json!({"mappings": mappings})), none, "there are no hooks");
    }

    #[test]
    fn time_zones_and_proxies_that_are_none_are_found() {
        let hours = |zone: &str| json!({"activeHours": {"timezone": zone}});
        let config = json!({
            "agents": {
                "defaults": {"userTimezone": "Mars/Base", "heartbeat": hours("user")},
                "list": [{"id": "a", "heartbeat": hours("Mars")}, {"id": "b"}],
            },
            "gateway": {"trustedProxies": ["10.0.0.1", "nginx", "${PROXY}", "10.0.0.0/40"]},
        });
        let told: Vec<_> =
            found(&config).iter().map(|it| format!("{} {}", it.path, it.message)).collect();
        let expected = [
            format!("agents.defaults.userTimezone {NO_ZONE}"),
            format!("agents.list[0].heartbeat.activeHours.timezone {NO_ZONE}"),
            format!("gateway.trustedProxies[1] {NO_PROXY}"),
            format!("gateway.trustedProxies[3] {NO_PROXY}"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_web_server_without_an_address_is_found() {
        let of = |place: Value| -> Vec<_> {
            let all = found(&json!({"cron": {"failureDestination": place}})).into_iter();
            all.map(|it| format!("{} {}", it.path, it.message)).collect()
        };
        let told = [format!("cron.failureDestination.mode {NO_ADDRESS}")];
        assert_eq!(of(json!({"mode": "webhook"})), told);
        assert_eq!(of(json!({"mode": "webhook", "channel": "telegram", "to": " "})), told);
        let none: [String; 0] = [];
        assert_eq!(of(json!({"mode": "webhook", "to": "${ADDRESS}"})), none);
        assert_eq!(of(json!({"mode": "announce"})), none);
    }

    #[test]
    fn what_is_built_in_or_misspelt_is_not_among_it() {
        let config = json!({
            "tools": {"web": {"search": {"provider": "brave"}}},
            "models": {"providers": {"a": {"api": "grpc", "models": [{"api": 5}, 5]}, "b": 5}},
            "auth": {"profiles": {"a": {"mode": "magic"}}},
            "hooks": {"mappings": "x"},
        });
        assert_eq!(found(&config), []);
        assert_eq!(found(&Value::Null), []);
    }

    #[test]
    fn another_place_of_a_list_is_like_the_first_and_another_key_is_not() {
        let of = |config: Value| found(&config).remove(0);
        let program = |before: Value| {
            of(json!({"hooks": {"mappings": [before, {"transform": {"module": "x"}}]}}))
        };
        let first = of(json!({"hooks": {"mappings": [{"transform": {"module": "y"}}]}}));
        assert!(program(json!({})).is_like(&first));
        let profile = |id: &str| of(json!({"auth": {"profiles": {id: {"mode": "aws-sdk"}}}}));
        assert!(profile("a").is_like(&profile("a")) && !profile("a").is_like(&profile("b")));
    }
}
