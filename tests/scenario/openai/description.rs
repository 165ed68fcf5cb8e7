//! What `docs/openapi.json` says is what a third-party program finds.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use super::{answer, offering, post};
use crate::support::{SECRET, get_json, python};

#[tokio::test]
async fn the_gateway_gives_its_own_description() {
    let (gateway, _mock) = offering().await;
    let given = get_json(&gateway.address(), "/openapi.json").await;
    let written: Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
    assert_eq!(given, written);
}

#[tokio::test]
async fn requests_made_from_the_description_meet_no_failure_and_no_other_shape() {
    let (gateway, _mock) = offering().await;
    // A session that requests can name.
    let said = json!({"model": "openclaw", "messages": [{"role": "user", "content": "hello"}]});
    let said = post(&gateway, "/v1/chat/completions", &said);
    assert_eq!(answer(said.header("x-openclaw-session-key", "main")).await.0, 200);
    let interpreter = tokio::task::spawn_blocking(python::interpreter).await.unwrap();
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,\
        response_schema_conformance,ignored_auth,unsupported_method";
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(interpreter.with_file_name("schemathesis"));
    command.args(["run", document, "--url"]).arg(format!("http://{}", gateway.address()));
    command.args(["--header", &format!("Authorization: Bearer {SECRET}")]);
    command.args(["--checks", checks, "--max-examples", "40", "--seed", "1"]);
    command.args(["--phases", "coverage,fuzzing", "--generation-database", "none"]);
    command.env("NO_PROXY", "127.0.0.1").current_dir(folder.path());
    command.env("SCHEMATHESIS_HOOKS", "openapi_hooks");
    command.env("PYTHONPATH", python::script("openapi_hooks.py").parent().unwrap());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let done = tokio::time::timeout(std::time::Duration::from_secs(300), command.output());
    let output = done.await.expect("it ends").unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let written: Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
    let operations: usize = written["paths"]
        .as_object()
        .unwrap()
        .values()
        .map(|path| path.as_object().unwrap().len())
        .sum();
    assert!(text.contains(&format!("Tested: {operations}\n")), "{text}");
}
