//! Tools that change files while the configuration changes.

use std::fs;
use std::sync::Arc;

use clawgate::agent::tools::ToolContext;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{Duration, LIMIT, key, place};

/// Bytes that take a while to write.
const LARGE: usize = 64 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_write_waits_for_one_that_began_before_the_configuration_changed() {
    let place = place().await;
    let parts = place.runs.parts();
    let settings = parts.settings.now();
    let agent = settings.agents.agent_or_default("main");
    let folder = agent.workspace.join("notes");
    fs::create_dir(&folder).unwrap();
    let write = |content: String| {
        let tools = parts.tools.builtin();
        let cx = ToolContext::new(Arc::clone(&place.runs), key(0), agent.clone());
        async move {
            let tool = tools.iter().find(|tool| tool.name() == "write").unwrap();
            let arguments = json!({"path": "notes/day.txt", "content": content});
            tool.call(&cx, &arguments).await.is_error
        }
    };
    let mut first = JoinSet::new();
    first.spawn(write("a".repeat(LARGE)));
    let begun = async {
        while fs::read_dir(&folder).unwrap().next().is_none() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LIMIT, begun).await.expect("the first one writes");
    parts.tools.reconfigure(&settings);
    assert!(!write("b".into()).await);
    assert!(!first.join_next().await.unwrap().unwrap());
    let left = fs::read(folder.join("day.txt")).unwrap();
    assert!(left == b"b", "{} bytes are left", left.len());
}
