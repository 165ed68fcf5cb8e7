//! Tests of the tool policy.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::config::{Env, Overrides, load};
use crate::support::json;

const NAMES: [&str; 9] = [
    "read",
    "exec",
    "web_fetch",
    "sessions_list",
    "sessions_spawn",
    "session_status",
    "message",
    "gateway",
    "docs__search",
];

/// The settings of a config file that says this.
fn settings(document: &Value) -> Settings {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("openclaw.json"), document.to_string()).unwrap();
    let state = dir.path().to_str().unwrap();
    let env = Env::fixed([("OPENCLAW_STATE_DIR", state)], dir.path());
    load(&env, &Overrides { read_only: true, ..Overrides::default() }).unwrap()
}

fn link(agent: &str, depth: u64) -> Link {
    let model = ModelRef { provider: "mock".into(), model: "m-1".into() };
    Link {
        agent: agent.into(),
        is_main: depth == 0,
        model,
        depth,
        limits: Vec::new(),
        plans: false,
        is_bound: false,
    }
}

fn of(links: Vec<Link>) -> ToolScope {
    ToolScope { links, by_client: false, is_owner: false, limits: Vec::new() }
}

fn allowed(settings: &Settings, scope: &ToolScope) -> Vec<&'static str> {
    NAMES.into_iter().filter(|name| scope.allows(settings, name)).collect()
}

#[test]
fn profiles_lists_and_groups_take_tools_away() {
    let main = of(vec![link("main", 0)]);
    for (tools, expected) in [
        (json!({}), NAMES.to_vec()),
        (json!({"profile": "minimal"}), vec!["session_status"]),
        // Tools of MCP servers are in all profiles but the smallest.
        (
            json!({"profile": "messaging"}),
            vec!["sessions_list", "session_status", "message", "docs__search"],
        ),
        (
            json!({"profile": "messaging", "deny": ["bundle-mcp", "message"]}),
            vec!["sessions_list", "session_status"],
        ),
        (
            json!({"profile": "minimal", "alsoAllow": ["docs_*"]}),
            vec!["session_status", "docs__search"],
        ),
        (json!({"allow": ["group:fs", "bash"]}), vec!["read", "exec"]),
        (json!({"allow": ["*"], "deny": ["group:openclaw"]}), vec!["docs__search"]),
        (json!({"allow": ["exec"], "deny": ["exec"]}), vec![]),
        (
            json!({"deny": ["group:plugins", "group:sessions", "group:automation"]}),
            vec!["read", "exec", "web_fetch", "message"],
        ),
        (json!({"byProvider": {"mock": {"allow": ["read"]}}}), vec!["read"]),
        (
            json!({"byProvider": {"mock": {"allow": ["read"]}, "mock/m-1": {"allow": ["exec"]}}}),
            vec![],
        ),
        (
            json!({"byProvider": {"mock": {"deny": ["exec"]},
                "mock/m-1": {"allow": ["read", "exec", "message"]}}}),
            vec!["read", "message"],
        ),
        (json!({"byProvider": {"other": {"allow": ["read"]}}}), NAMES.to_vec()),
    ] {
        let settings = settings(&json!({ "tools": tools }));
        assert_eq!(allowed(&settings, &main), expected, "{tools}");
    }
}

#[test]
fn an_agent_has_its_own_rules_on_top() {
    let settings = settings(&json!({
        "tools": {"deny": ["exec"]},
        "agents": {"list": [
            {"id": "main"},
            {"id": "reader", "tools": {"allow": ["read", "exec"]}},
            {"id": "talker", "tools": {"profile": "messaging"}},
        ]},
    }));
    assert!(!allowed(&settings, &of(vec![link("main", 0)])).contains(&"exec"));
    assert_eq!(allowed(&settings, &of(vec![link("reader", 0)])), ["read"]);
    let talker = of(vec![link("talker", 0)]);
    let talks = ["sessions_list", "session_status", "message", "docs__search"];
    assert_eq!(allowed(&settings, &talker), talks);
    assert_eq!(talker.profile(&settings), ToolProfile::Messaging);
}

#[test]
fn sub_agents_and_clients_have_less_by_default_and_more_when_it_is_said() {
    let plain = settings(&json!({}));
    let child = of(vec![link("main", 1), link("main", 0)]);
    assert_eq!(allowed(&plain, &child), ["read", "exec", "web_fetch", "message", "docs__search"]);
    let client = of(vec![link("main", 0)]).by_client();
    let for_clients = ["web_fetch", "sessions_list", "session_status", "message", "docs__search"];
    assert_eq!(allowed(&plain, &client), for_clients);
    let more = settings(&json!({
        "tools": {"subagents": {"tools": {"alsoAllow": ["session_status"], "deny": ["exec"]}}},
        "gateway": {"tools": {"allow": ["read"], "deny": ["message"]}},
        "agents": {"defaults": {"subagents": {"maxSpawnDepth": 2}}},
    }));
    assert_eq!(
        allowed(&more, &child),
        [
            "read",
            "web_fetch",
            "sessions_list",
            "sessions_spawn",
            "session_status",
            "message",
            "docs__search"
        ]
    );
    assert_eq!(
        allowed(&more, &client),
        ["read", "web_fetch", "sessions_list", "session_status", "docs__search"]
    );
}

#[test]
fn a_chain_that_is_too_long_gets_nothing() {
    let plain = settings(&json!({}));
    let links: Vec<_> = (0..=LINE_MAX).map(|_| link("main", 1)).collect();
    assert!(allowed(&plain, &of(links)).is_empty());
}

#[test]
fn where_nothing_may_be_written_to_no_tool_changes_files() {
    let all = ["read", "write", "edit", "apply_patch"];
    let changing = |settings: &Settings, scope: &ToolScope| {
        all.into_iter().filter(|name| scope.allows(settings, name)).collect::<Vec<_>>()
    };
    let (main, child) = (of(vec![link("main", 0)]), of(vec![link("main", 1), link("main", 0)]));
    let confined =
        |sandbox: Value| settings(&json!({"agents": {"defaults": {"sandbox": sandbox}}}));
    let non_main = confined(json!({"mode": "non-main", "workspaceAccess": "ro"}));
    assert_eq!(changing(&non_main, &main), all);
    assert_eq!(changing(&non_main, &child), ["read"]);
    // Without a word on the workspace nothing is written to it.
    assert_eq!(changing(&confined(json!({"mode": "all"})), &main), ["read"]);
    assert_eq!(changing(&confined(json!({"mode": "all", "workspaceAccess": "rw"})), &child), all);
    // What confines a session confines those that it spawns, whoever their agent is.
    let one_agent = settings(&json!({"agents": {"list": [
        {"id": "main", "sandbox": {"mode": "all"}}, {"id": "ops"}]}}));
    let spawned = of(vec![link("ops", 1), link("main", 0)]);
    assert_eq!(changing(&one_agent, &spawned), ["read"]);
    assert_eq!(changing(&one_agent, &of(vec![link("ops", 0)])), all);
    // An agent that there is not is confined as the default one is.
    assert_eq!(changing(&one_agent, &of(vec![link("ghost", 0)])), ["read"]);
}

#[test]
fn who_may_write_may_patch_and_an_empty_list_takes_nothing_away() {
    let main = of(vec![link("main", 0)]);
    let allows =
        |tools: Value, name: &str| main.allows(&settings(&json!({ "tools": tools })), name);
    assert!(allows(json!({"allow": ["write"]}), "apply_patch"));
    assert!(allows(json!({"profile": "minimal", "alsoAllow": ["write"]}), "apply_patch"));
    assert!(!allows(json!({"allow": ["edit"]}), "apply_patch"));
    assert!(!allows(json!({"allow": ["write"], "deny": ["apply_patch"]}), "apply_patch"));
    assert!(!allows(json!({"allow": ["apply_patch"]}), "write"));
    for tools in [json!({"allow": []}), json!({"byProvider": {"mock": {"allow": []}}})] {
        assert!(allows(tools.clone(), "read"), "{tools}");
    }
    // The plugin of OpenClaw that has the tools for memory.
    assert!(!allows(json!({"deny": ["memory-core"]}), "memory_get"));
    assert!(allows(json!({"allow": ["memory-core"]}), "memory_search"));
    // What a run is given is another matter: nothing is nothing.
    assert!(!main.limited(&[vec![]]).allows(&settings(&json!({})), "read"));
}

#[test]
fn the_rules_of_the_model_that_answers_hold() {
    let settings = settings(&json!({"tools": {"byProvider": {"other": {"deny": ["exec"]}}}}));
    let main = of(vec![link("main", 0)]);
    assert!(main.allows(&settings, "exec"));
    let other = ModelRef { provider: "other".into(), model: "m".into() };
    assert!(!main.answered_by(other).allows(&settings, "exec"));
}

fn any_patterns() -> impl Strategy<Value = Vec<String>> {
    let pattern = prop_oneof![
        proptest::sample::select(NAMES.to_vec()).prop_map(str::to_owned),
        proptest::sample::select(vec![
            "group:fs",
            "group:sessions",
            "*",
            "session*",
            "group:plugins"
        ])
        .prop_map(str::to_owned),
    ];
    proptest::collection::vec(pattern, 0..4)
}

fn any_rules() -> impl Strategy<Value = Value> {
    let profile = proptest::option::of(proptest::sample::select(vec![
        "minimal",
        "coding",
        "messaging",
        "full",
    ]));
    let lists = (proptest::option::of(any_patterns()), any_patterns(), any_patterns());
    (profile, lists).prop_map(|(profile, (allow, also, deny))| {
        let mut rules = json!({"deny": deny});
        if let Some(profile) = profile {
            rules["profile"] = json!(profile);
        }
        match allow {
            Some(allow) => rules["allow"] = json!(allow),
            None => rules["alsoAllow"] = json!(also),
        }
        rules
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Who spawns a session, and under whatever rules, never gives it more than
    /// it has itself; and a denial holds for the whole chain.
    #[test]
    fn a_sub_agent_never_has_what_its_parent_has_not(
        everyone in any_rules(),
        parent in any_rules(),
        child in any_rules(),
        subagents in any_rules(),
    ) {
        let mut tools = everyone;
        tools["subagents"] = json!({"tools": subagents});
        let settings = settings(&json!({
            "tools": tools,
            "agents": {"list": [{"id": "main", "tools": parent}, {"id": "kid", "tools": child}]},
        }));
        let parent = of(vec![link("main", 0)]);
        let child = of(vec![link("kid", 1), link("main", 0)]);
        let grandchild = of(vec![link("main", 2), link("kid", 1), link("main", 0)]);
        for name in NAMES {
            prop_assert!(parent.allows(&settings, name) || !child.allows(&settings, name));
            prop_assert!(child.allows(&settings, name) || !grandchild.allows(&settings, name));
        }
    }

    /// What a job says of tools only takes some away: from its run, from
    /// sub-agents of that, and from jobs that they make.
    #[test]
    fn a_run_of_a_job_never_has_what_its_lists_or_its_agent_have_not(
        everyone in any_rules(),
        agent in any_rules(),
        lists in proptest::collection::vec(any_patterns(), 0..3),
    ) {
        let settings = settings(&json!({
            "tools": everyone,
            "agents": {"list": [{"id": "main", "tools": agent}]},
        }));
        let whole = of(vec![link("main", 0)]);
        let run = of(vec![link("main", 0)]).limited(&lists);
        let begun = Link { limits: limits(&lists), ..link("main", 0) };
        let child = of(vec![link("main", 1), begun]);
        for name in NAMES {
            let in_all = limits(&lists).iter().all(|rules| allows(rules, name));
            prop_assert_eq!(run.allows(&settings, name), in_all && whole.allows(&settings, name));
            prop_assert!(run.allows(&settings, name) || !child.allows(&settings, name));
        }
        prop_assert_eq!(run.is_narrowed(), !lists.is_empty());
        prop_assert!(!run.allows(&settings, "cron") && !child.owned(false).allows(&settings, "cron"));
    }
}
