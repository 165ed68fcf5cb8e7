//! The tools for files, memory and pictures, called by a scripted model.

use std::fs;

use serde_json::{Value, json};

use crate::stage::{
    Api, admin, ask, call, config, connect, events, history, scripted, spent_by, text_of, until,
};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// A gateway with these `tools`.
async fn gateway_with(tools: Value) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"] = tools;
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// A connection that is told of tool calls.
async fn owner(gateway: &Gateway) -> WsClient {
    let mut params = standard_connect(&ALL_SCOPES);
    params["caps"] = json!(["tool-events"]);
    connect(gateway, &params).await
}

/// Lets the model call a tool; the data of the result.
async fn tool(client: &mut WsClient, run: &str, name: &str, args: &Value) -> Value {
    let line = format!("@mock tool name={name} args={args} then=\"done\"");
    let end = ask(client, run, &line, run).await;
    // After a picture the mock sees another message of the user.
    let said = text_of(&end["message"]);
    assert!(said == "done" || said.contains("image"), "{end}");
    let told = events(client, "agent", run);
    let result = told.into_iter().find(|payload| payload["data"]["phase"] == "result");
    result.expect("a result")["data"].clone()
}

fn text(data: &Value) -> &str {
    data["result"]["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn a_model_writes_reads_edits_and_patches_files_of_the_workspace() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let file = gateway.workspace().join("notes/day.txt");

    let written = tool(
        &mut client,
        "write",
        "write",
        &json!({"path": "notes/day.txt", "content": "one\ntwo\n"}),
    )
    .await;
    assert_eq!(text(&written), "Successfully wrote 8 bytes to notes/day.txt");
    assert_eq!(
        (&written["meta"], &written["isError"]),
        (&json!("to notes/day.txt (8 chars)"), &json!(false))
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\n");

    let read =
        tool(&mut client, "read", "read", &json!({"path": "notes/day.txt", "limit": 1})).await;
    assert_eq!(text(&read), "one\n\n[2 more lines in file. Use offset=2 to continue.]");
    assert_eq!(read["meta"], "first 1 line of notes/day.txt");

    let edits = json!([{"oldText": "two", "newText": "zwei"}]);
    let edited =
        tool(&mut client, "edit", "edit", &json!({"path": "notes/day.txt", "edits": edits})).await;
    assert_eq!(text(&edited), "Successfully replaced 1 block(s) in notes/day.txt.");
    let details = json!({"diff": " 1 one\n-2 two\n+2 zwei", "firstChangedLine": 2});
    assert_eq!(edited["result"]["details"], details);

    let patch = "*** Begin Patch\n*** Update File: notes/day.txt\n*** Move to: notes/night.txt\n\
        @@\n-one\n+eins\n*** Add File: new.txt\n+hi\n*** End Patch";
    let patched = tool(&mut client, "patch", "apply_patch", &json!({"input": patch})).await;
    assert_eq!(
        text(&patched),
        "Success. Updated the following files:\nA new.txt\nM notes/night.txt"
    );
    let moved = gateway.workspace().join("notes/night.txt");
    assert_eq!(fs::read_to_string(moved).unwrap(), "eins\nzwei\n");
    assert!(!file.exists());
}

#[tokio::test]
async fn what_a_file_tool_cannot_do_is_told_to_the_model_and_changes_nothing() {
    let (gateway, _mock) = gateway_with(json!({"fs": {"workspaceOnly": true}})).await;
    fs::write(gateway.workspace().join("a.txt"), "one\n").unwrap();
    let outside = gateway.root().join("outside.txt");
    fs::write(&outside, "canary-outside").unwrap();
    let mut client = owner(&gateway).await;
    let patch = |body: &str| json!({"input": format!("*** Begin Patch\n{body}\n*** End Patch")});
    let cases = [
        ("read", json!({"path": "none.txt"}), "ENOENT: no such file or directory, access '"),
        ("read", json!({"path": "a.txt", "offset": 9}), "Offset 9 is beyond end of file (2 lines"),
        ("read", json!({"path": outside}), "Path escapes workspace root: "),
        ("write", json!({"path": outside, "content": "x"}), "Path escapes workspace root: "),
        ("write", json!({"path": "a.txt/b", "content": "x"}), "ENOTDIR: not a directory"),
        (
            "edit",
            json!({"path": "a.txt", "oldText": "two", "newText": "x"}),
            "Could not find the exact text in a.txt.",
        ),
        ("edit", json!({"path": "a.txt"}), "Edit tool input is invalid."),
        ("edit", json!({"path": outside, "oldText": "canary", "newText": "x"}), "Path escapes"),
        ("apply_patch", patch("*** Delete File: a.txt\n*** Delete File: none"), "ENOENT"),
        ("apply_patch", patch("*** Add File: ../outside.txt\n+x"), "Path escapes"),
        ("image", json!({"image": "a.txt"}), "Unsupported media type: text/plain"),
        ("image", json!({"image": outside}), "Path escapes"),
    ];
    for (index, (name, args, error)) in cases.into_iter().enumerate() {
        let data = tool(&mut client, &format!("run-{index}"), name, &args).await;
        assert_eq!(data["isError"], true, "{name} {args}: {data}");
        let told = data["result"]["details"]["error"].as_str().unwrap();
        assert!(told.starts_with(error), "{name}: {told}");
        assert!(!text(&data).contains("canary"), "{data}");
    }
    assert_eq!(fs::read_to_string(outside).unwrap(), "canary-outside");
    assert_eq!(fs::read_to_string(gateway.workspace().join("a.txt")).unwrap(), "one\n");
}

#[tokio::test]
async fn a_picture_that_is_read_goes_to_the_model() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    fs::write(gateway.workspace().join("dot.png"), b"\x89PNG\r\n\x1a\n..").unwrap();
    let mut client = owner(&gateway).await;
    let data = tool(&mut client, "run-1", "read", &json!({"path": "dot.png"})).await;
    assert_eq!(text(&data), "Read image file [image/png]");
    let asked = mock.requests().pop().unwrap().body.to_string();
    assert!(asked.contains("data:image/png;base64,iVBORw0KGgouLg=="), "{asked}");
    // Who follows the run is told of its size alone.
    let shown = json!({"type": "image", "mimeType": "image/png", "omitted": true, "bytes": 16});
    assert_eq!(data["result"]["content"][1], shown);
}

#[tokio::test]
async fn a_picture_is_described_by_the_image_model() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["defaults"]["imageModel"] =
        json!({"primary": "mocka/mock-think", "fallbacks": ["mock/mock-2"]});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    fs::write(gateway.workspace().join("dot.png"), b"\x89PNG\r\n\x1a\n..").unwrap();
    let mut client = owner(&gateway).await;
    let args = json!({"image": "dot.png", "prompt": "Which colour?"});
    let data = tool(&mut client, "run-1", "image", &args).await;
    assert_eq!(text(&data), "Echo: Which colour?");
    assert_eq!(data["result"]["details"]["model"], "mocka/mock-think");
    let asked = mock.requests().into_iter().find(|it| it.body["model"] == "mock-think").unwrap();
    assert!(asked.body.to_string().contains("iVBORw0KGgouLg=="), "{}", asked.body);
    // When it cannot, the next one does.
    mock.fail("mock-think", 400, "broken");
    let data = tool(&mut client, "run-2", "image", &args).await;
    assert_eq!(data["result"]["details"]["model"], "mock/mock-2", "{data}");
}

#[tokio::test]
async fn a_look_at_a_picture_is_paid_for_whoever_asks_and_whatever_is_said() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    fs::write(gateway.workspace().join("dot.png"), b"\x89PNG\r\n\x1a\n..").unwrap();
    let mut client = owner(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let mut before = spent_by(&mut client, "agent:main:main").await;
    for (prompt, answer) in [
        ("Which colour?", "Echo: Which colour?"),
        ("@mock text text=\"\"", "The model said nothing."),
    ] {
        let args = json!({"image": "dot.png", "prompt": prompt});
        let said = call(&mut client, "tools.invoke", json!({"name": "image", "args": args})).await;
        assert!(said.to_string().contains(answer), "{said}");
        let after = spent_by(&mut client, "agent:main:main").await;
        assert!(after > before, "{prompt}: {after} {before}");
        before = after;
    }
}

#[tokio::test]
async fn an_agent_without_memory_search_is_offered_no_memory() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["list"] =
        json!([{"id": "main"}, {"id": "ops", "memorySearch": {"enabled": false}}]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = owner(&gateway).await;
    for (agent, is_there) in [("main", true), ("ops", false)] {
        let session = format!("agent:{agent}:main");
        let tools = call(&mut client, "tools.effective", json!({"sessionKey": session})).await;
        ask(&mut client, &session, "hello", agent).await;
        let asked = mock.requests().pop().unwrap().body.to_string();
        for name in ["memory_search", "memory_get"] {
            assert_eq!(tools.to_string().contains(name), is_there, "{agent} {name}: {tools}");
            assert_eq!(asked.contains(name), is_there, "{agent} {name}: {asked}");
        }
        let params = json!({"name": "memory_get", "sessionKey": session,
            "args": {"path": "MEMORY.md"}});
        let said = call(&mut client, "tools.invoke", params).await;
        assert_eq!(said["ok"], is_there, "{said}");
    }
}

#[tokio::test]
async fn what_was_written_into_memory_is_found_at_once() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let workspace = gateway.workspace();
    fs::create_dir_all(workspace.join("memory")).unwrap();
    fs::write(workspace.join("MEMORY.md"), "# People\nAnna likes green tea.\n").unwrap();
    fs::write(workspace.join("memory/2026-01-02.md"), "We chose SQLite as the database.\n")
        .unwrap();
    let mut client = owner(&gateway).await;
    let search = |query: &str| json!({"query": query});
    let found = tool(&mut client, "run-1", "memory_search", &search("which databases?")).await;
    let results = &found["result"]["details"]["results"];
    assert_eq!(
        results[0],
        json!({
            "path": "memory/2026-01-02.md", "startLine": 1, "endLine": 1, "score": results[0]["score"],
            "snippet": "We chose SQLite as the database.", "source": "memory",
            "citation": "memory/2026-01-02.md#L1", "corpus": "memory",
        })
    );
    let note = json!({"path": "memory/new.md", "content": "The database is Postgres now.\n"});
    tool(&mut client, "run-2", "write", &note).await;
    fs::remove_file(workspace.join("memory/2026-01-02.md")).unwrap();
    let hostile = search("database\" OR * NEAR( ' ; DROP TABLE memory_files --");
    let found = tool(&mut client, "run-3", "memory_search", &hostile).await;
    let results = found["result"]["details"]["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), 1, "{results:?}");
    assert_eq!(results[0]["path"], "memory/new.md");

    let get = json!({"path": "MEMORY.md", "from": 2, "lines": 1});
    let found = tool(&mut client, "run-4", "memory_get", &get).await;
    let details = &found["result"]["details"];
    assert!(details["text"].as_str().unwrap().starts_with("Anna likes green tea."), "{details}");
    assert_eq!((&details["from"], &details["lines"]), (&json!(2), &json!(1)));
    for path in ["../openclaw.json", "/etc/passwd.md", "AGENTS.md"] {
        let refused =
            tool(&mut client, &format!("get {path}"), "memory_get", &json!({"path": path})).await;
        assert_eq!(refused["result"]["details"]["disabled"], true, "{refused}");
        assert_eq!(refused["result"]["details"]["text"], "");
    }
}

#[tokio::test]
async fn of_too_many_notes_the_newest_are_found_and_the_rest_is_told() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let folder = gateway.workspace().join("memory");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..4_020 {
        fs::write(folder.join(format!("{number}.md")), "old\n").unwrap();
        let file = fs::File::options().write(true).open(folder.join(format!("{number}.md")));
        file.unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    fs::write(folder.join("new.md"), "The gate is green.\n").unwrap();
    let mut client = owner(&gateway).await;
    let found = tool(&mut client, "run-1", "memory_search", &json!({"query": "gate"})).await;
    let details = &found["result"]["details"];
    assert_eq!(details["results"][0]["path"], "memory/new.md", "{details}");
    let note = details["note"].as_str().unwrap();
    assert!(note.contains("newest 4000"), "{note}");
    gateway.logs(note).await;
    let status = call(&mut client, "doctor.memory.status", json!({})).await;
    let left_out = status["memory"]["leftOutFiles"].as_u64().unwrap();
    assert!(note.contains(&format!("; {left_out} older")), "{note} {status}");
    assert_eq!(status["memory"]["files"].as_u64(), Some(4_000 + left_out), "{status}");
    assert_eq!(status["memory"]["indexedFiles"], 4_000, "{status}");
}

#[tokio::test]
async fn edits_of_one_answer_do_not_overwrite_each_other() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let file = gateway.workspace().join("a.txt");
    let mut client = admin(&gateway).await;
    for round in 0..5 {
        fs::write(&file, "one\ntwo\n").unwrap();
        let edit = |old: &str, new: &str| json!({"path": "a.txt", "oldText": old, "newText": new});
        let line = format!(
            "@mock tool parallel=1 name=edit args={} name2=edit args2={} then=\"done\"",
            edit("one", "1"),
            edit("two", "2")
        );
        ask(&mut client, "main", &line, &format!("run-{round}")).await;
        assert_eq!(fs::read_to_string(&file).unwrap(), "1\n2\n");
    }
}

#[tokio::test]
async fn a_patch_tool_that_is_off_is_not_offered() {
    let (gateway, mock) = gateway_with(json!({"exec": {"applyPatch": {"enabled": false}}})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hi", "run-1").await;
    let offered = mock.requests().pop().unwrap().body["tools"].to_string();
    assert!(offered.contains("\"edit\"") && !offered.contains("apply_patch"), "{offered}");
    let rows = until("the answer", async || {
        let rows = history(&mut client, "main").await;
        (rows.len() == 2).then_some(rows)
    })
    .await;
    assert_eq!(rows[1]["role"], "assistant");
}
