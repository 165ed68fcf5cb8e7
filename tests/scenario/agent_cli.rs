//! `clawgate agent` and `clawgate sessions list` against a gateway.

use serde_json::json;

use crate::program::{clawgate, json_of, said};
use crate::stage::{Api, scripted};

#[tokio::test]
async fn an_agent_answers_a_script_and_its_sessions_are_listed() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let hello = ["agent", "--message", "@mock text text=hello"];
    let by_agent = [&hello[..], &["--agent", "main"]].concat();
    assert_eq!(said(&clawgate(&gateway, &by_agent).await), "hello\n");
    let work = ["--session-key", "agent:main:work", "--timeout", "60", "--json"];
    let answer = json_of(&clawgate(&gateway, &[&hello[..], &work].concat()).await);
    assert_eq!((&answer["status"], &answer["summary"]), (&json!("ok"), &json!("completed")));
    assert_eq!(answer["result"]["payloads"][0]["text"], "hello");
    let nowhere = clawgate(&gateway, &hello).await;
    assert_eq!(nowhere.status.code(), Some(2), "{nowhere:?}");
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("--session-key"), "{nowhere:?}");
    let unknown = clawgate(&gateway, &[&hello[..], &["--agent", "nobody"]].concat()).await;
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
    let told = String::from_utf8(unknown.stderr).unwrap();
    assert!(told.contains("unknown agent id \"nobody\"; `clawgate agents list` shows"), "{told}");

    for list in [
        &["sessions"][..],
        &["sessions", "list", "--agent", "main", "--active", "60"],
        &["sessions", "--all-agents", "--limit", "all"],
    ] {
        let shown = said(&clawgate(&gateway, list).await);
        let mut lines = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(lines.next().unwrap(), ["KEY", "KIND", "MODEL", "TOKENS", "AGE"]);
        let rows: Vec<_> = lines.map(|line| (line[0].to_owned(), line[2].to_owned())).collect();
        let expected = ["agent:main:work", "agent:main:main"];
        assert_eq!(rows, expected.map(|key| (key.to_owned(), "mock-1".to_owned())), "{shown}");
    }
    let one = json_of(&clawgate(&gateway, &["sessions", "list", "--limit", "1", "--json"]).await);
    assert_eq!(one["sessions"].as_array().unwrap().len(), 1, "{one}");
    let one = clawgate(&gateway, &["sessions", "list", "--limit", "1"]).await;
    assert_eq!(said(&one).lines().count(), 2, "{one:?}");
    let told = String::from_utf8(one.stderr).unwrap();
    assert_eq!(told, "1 of 2 sessions; --limit 2 lists all\n");
}
