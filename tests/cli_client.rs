//! The real `clawgate` binary against a scripted gateway.
//!
//! Owns: what the client commands print, send and return. The frames are
//! recorded ones. Must not: wait for time to pass, unless that a command waits is the matter.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/tested.rs"]
mod tested;

use std::io::{Read, Seek, Write};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use tested::program;

/// Far beyond what any of these tests needs; only a hang reaches it.
const HANG: Duration = Duration::from_secs(60);

/// The gateway's end of one connection.
struct Peer(WebSocketStream<TcpStream>);

impl Peer {
    async fn send(&mut self, frame: Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    async fn event(&mut self, event: &str, payload: Value) {
        self.send(json!({"type": "event", "event": event, "payload": payload, "seq": 1})).await;
    }

    async fn answer(&mut self, request: &Value, payload: Value) {
        self.send(json!({"type": "res", "id": request["id"], "ok": true, "payload": payload}))
            .await;
    }

    async fn refuse(&mut self, request: &Value, error: Value) {
        self.send(json!({"type": "res", "id": request["id"], "ok": false, "error": error})).await;
    }

    async fn close(mut self, code: u16, reason: &'static str) {
        let frame = CloseFrame { code: code.into(), reason: reason.into() };
        self.0.close(Some(frame)).await.unwrap();
        while let Some(Ok(_)) = self.0.next().await {}
    }

    /// The next request, which must be of this method.
    async fn request(&mut self, method: &str) -> Value {
        loop {
            let message = self.0.next().await.expect("the client went away").unwrap();
            if let Message::Text(text) = message {
                let frame: Value = serde_json::from_str(&text).unwrap();
                assert_eq!((&frame["type"], &frame["method"]), (&json!("req"), &json!(method)));
                return frame;
            }
        }
    }

    /// Until the client says goodbye.
    async fn end(mut self) {
        while let Some(Ok(message)) = self.0.next().await {
            assert!(!matches!(message, Message::Text(_)), "unexpected {message:?}");
        }
    }

    async fn assistant(&mut self, run: &Value, text: &str, delta: &str) {
        let data = json!({"text": text, "delta": delta});
        self.event("agent", json!({"runId": run, "stream": "assistant", "data": data})).await;
    }

    async fn final_text(&mut self, run: &Value, text: &str) {
        let message = json!({"role": "assistant", "content": [{"type": "text", "text": text}]});
        self.event("chat", json!({"runId": run, "state": "final", "message": message})).await;
    }

    /// Takes a `chat.send` and acknowledges it; gives its run and text.
    async fn take_message(&mut self) -> (Value, Value) {
        let send = self.request("chat.send").await;
        let run = send["params"]["idempotencyKey"].clone();
        self.answer(&send, json!({"runId": run, "status": "started"})).await;
        (run, send["params"]["message"].clone())
    }
}

struct Gateway {
    listener: TcpListener,
    url: String,
}

impl Gateway {
    async fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        Self { listener, url }
    }

    /// A connection whose `connect` is still to be answered.
    async fn accept(&self) -> (Peer, Value) {
        let (stream, _) = self.listener.accept().await.unwrap();
        let mut peer = Peer(tokio_tungstenite::accept_async(stream).await.unwrap());
        peer.event("connect.challenge", json!({"nonce": "n", "ts": 1})).await;
        let connect = peer.request("connect").await;
        (peer, connect)
    }

    /// A connection that has been let in.
    async fn welcome(&self) -> Peer {
        let (mut peer, connect) = self.accept().await;
        let hello = json!({
            "type": "hello-ok",
            "protocol": 3,
            "server": {"version": "2026.5.7", "connId": "c"},
            "snapshot": {"uptimeMs": 4680},
        });
        peer.answer(&connect, hello).await;
        peer
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = clawgate(args);
        command.env("OPENCLAW_GATEWAY_URL", &self.url);
        command
    }
}

/// The command, away from the settings of whoever runs the tests: their
/// variables, and the config and token in their home.
fn clawgate(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).env_clear().env("HOME", env!("CARGO_TARGET_TMPDIR")).stdin(Stdio::null());
    command
}

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

async fn run(mut command: Command) -> Ran {
    let ran = tokio::task::spawn_blocking(move || command.output().unwrap());
    tokio::time::timeout(HANG, ran).await.expect("the command hangs").unwrap().into()
}

/// Runs the command and the gateway's part together.
async fn play(command: Command, script: impl Future<Output = ()>) -> Ran {
    let (ran, ()) = tokio::time::timeout(HANG, async { tokio::join!(run(command), script) })
        .await
        .expect("the command and the script do not come to an end");
    ran
}

#[tokio::test]
async fn a_message_streams_and_only_the_own_run_is_shown() {
    let gateway = Gateway::bind().await;
    let command = gateway.command(&["chat", "hi", "--session", "work", "--thinking", "low"]);
    let ran = play(command, async {
        let mut peer = gateway.welcome().await;
        let send = peer.request("chat.send").await;
        let run = send["params"]["idempotencyKey"].clone();
        assert_eq!(
            send["params"],
            json!({"sessionKey": "work", "message": "hi", "idempotencyKey": run, "thinking": "low"})
        );
        // Events may come before the acknowledgement.
        peer.assistant(&run, "w1", "w1").await;
        peer.answer(&send, json!({"runId": run, "status": "started"})).await;
        peer.assistant(&json!("another"), "not ours", "not ours").await;
        peer.final_text(&json!("another"), "not ours").await;
        peer.0.send(Message::Ping(vec![1].into())).await.unwrap();
        peer.assistant(&run, "w1 w2", " w2").await;
        peer.final_text(&run, "w1 w2 w3").await;
        peer.end().await;
    })
    .await;
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "w1 w2 w3\n", ""));
}

#[tokio::test]
async fn a_message_taken_into_another_run_prints_nothing() {
    let gateway = Gateway::bind().await;
    let ran = play(gateway.command(&["chat", "hi"]), async {
        let mut peer = gateway.welcome().await;
        let (run, _) = peer.take_message().await;
        peer.event("chat", json!({"runId": run, "seq": 1, "state": "final"})).await;
        peer.end().await;
    })
    .await;
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
}

#[tokio::test]
async fn a_message_taken_into_a_run_that_is_named_is_answered_by_that() {
    let gateway = Gateway::bind().await;
    let ran = play(gateway.command(&["chat", "hi"]), async {
        let mut peer = gateway.welcome().await;
        let (run, _) = peer.take_message().await;
        let other = json!("another");
        peer.assistant(&other, "not ours", "not ours").await;
        let taken = json!({"runId": run, "seq": 1, "state": "final", "takenInto": other});
        peer.event("chat", taken).await;
        peer.assistant(&other, "w1", "w1").await;
        peer.assistant(&other, "w1 w2", " w2").await;
        peer.final_text(&other, "not ours w1 w2").await;
        peer.end().await;
    })
    .await;
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "w1 w2\n", ""));
}

#[tokio::test]
async fn a_stop_word_ends_without_a_run() {
    let gateway = Gateway::bind().await;
    let ran = play(gateway.command(&["chat", "stop"]), async {
        let mut peer = gateway.welcome().await;
        let send = peer.request("chat.send").await;
        peer.answer(&send, json!({"ok": true, "aborted": true, "runIds": ["r"]})).await;
        peer.end().await;
    })
    .await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), "runs stopped: 1\n"));
}

#[tokio::test]
async fn a_failed_run_goes_to_stderr_and_the_exit_code() {
    let gateway = Gateway::bind().await;
    let ran = play(gateway.command(&["chat", "hi"]), async {
        let mut peer = gateway.welcome().await;
        let (run, _) = peer.take_message().await;
        peer.assistant(&run, "w1", "w1").await;
        let failed = json!({"runId": run, "state": "error", "errorMessage": "Unknown model: x"});
        peer.event("chat", failed).await;
        peer.end().await;
    })
    .await;
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (Some(1), "w1\n", "error: Unknown model: x\n")
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_answer_that_cannot_be_written_is_said() {
    let gateway = Gateway::bind().await;
    let mut command = gateway.command(&["chat", "hi"]);
    command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let ran = play(command, async {
        let mut peer = gateway.welcome().await;
        let (run, _) = peer.take_message().await;
        peer.assistant(&run, "w1", "w1").await;
        peer.end().await;
    })
    .await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.starts_with("error: cannot read or write: "), "{}", ran.err);
}

#[tokio::test]
async fn json_prints_each_event_of_the_run_on_a_line() {
    let gateway = Gateway::bind().await;
    let ran = play(gateway.command(&["chat", "hi", "--json"]), async {
        let mut peer = gateway.welcome().await;
        let (run, _) = peer.take_message().await;
        peer.event("tick", json!({"ts": 1})).await;
        peer.assistant(&run, "w1", "w1").await;
        peer.final_text(&run, "w1").await;
        peer.end().await;
    })
    .await;
    let lines: Vec<Value> = ran.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let kinds: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!((ran.code, kinds), (Some(0), vec!["agent", "chat"]));
    assert_eq!(lines[1]["payload"]["state"], "final");
}

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_aborts_the_run_at_the_gateway() {
    let gateway = Gateway::bind().await;
    let mut command = gateway.command(&["chat", "hi"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let script = async {
        let mut peer = gateway.welcome().await;
        let (run, _) = peer.take_message().await;
        peer.assistant(&run, "w1", "w1").await;
        let abort = peer.request("chat.abort").await;
        assert_eq!(abort["params"], json!({"sessionKey": "main", "runId": run}));
        peer.answer(&abort, json!({"ok": true, "aborted": true, "runIds": [run]})).await;
        peer.end().await;
    };
    let user = tokio::task::spawn_blocking(move || {
        let mut shown = [0; 2];
        child.stdout.as_mut().unwrap().read_exact(&mut shown).unwrap();
        assert_eq!(&shown, b"w1");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        Ran::from(child.wait_with_output().unwrap())
    });
    let (ran, ()) = tokio::time::timeout(HANG, async { tokio::join!(user, script) }).await.unwrap();
    assert_eq!(ran.unwrap().code, Some(130));
}

/// A conversation whose lines come from a pipe.
fn piped(gateway: &Gateway, lines: &str) -> Command {
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    input.rewind().unwrap();
    let mut command = gateway.command(&["chat"]);
    command.stdin(input);
    command
}

#[tokio::test]
async fn a_pipe_is_answered_line_by_line() {
    let gateway = Gateway::bind().await;
    let ran = play(piped(&gateway, "one\n\n/new\n/quit\nnever sent\n"), async {
        let mut peer = gateway.welcome().await;
        for (message, text) in [("one", "first"), ("/new", "✅ New session started.")] {
            let (run, said) = peer.take_message().await;
            assert_eq!(said, message);
            peer.final_text(&run, text).await;
        }
        peer.end().await;
    })
    .await;
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (Some(0), "first\n✅ New session started.\n", "")
    );
}

#[tokio::test]
async fn a_connection_lost_during_a_run_is_renewed_once_with_the_same_key() {
    let gateway = Gateway::bind().await;
    let ran = play(piped(&gateway, "one\n"), async {
        let mut peer = gateway.welcome().await;
        let (run, _) = peer.take_message().await;
        peer.assistant(&run, "w1", "w1").await;
        peer.event("shutdown", json!({"reason": "gateway restarting"})).await;
        peer.close(1012, "service restart").await;

        let mut peer = gateway.welcome().await;
        let send = peer.request("chat.send").await;
        assert_eq!(send["params"]["idempotencyKey"], run);
        peer.answer(&send, json!({"runId": run, "status": "in_flight"})).await;
        peer.assistant(&run, "w1 w2 w3", " w3").await;
        peer.final_text(&run, "w1 w2 w3").await;
        peer.end().await;
    })
    .await;
    assert_eq!((ran.code, ran.out.replace('\n', "")), (Some(0), "w1 w2 w3".to_owned()));
    assert!(
        ran.err.contains("1012: service restart), because of gateway restarting"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("reconnecting"), "{}", ran.err);
}

#[tokio::test]
async fn a_run_that_begins_anew_after_a_loss_is_shown_anew() {
    let gateway = Gateway::bind().await;
    let ran = play(piped(&gateway, "one\n"), async {
        let mut peer = gateway.welcome().await;
        let (run, _) = peer.take_message().await;
        peer.assistant(&run, "w1", "w1").await;
        peer.close(1012, "service restart").await;

        let mut peer = gateway.welcome().await;
        let (run, _) = peer.take_message().await;
        peer.assistant(&run, "v1", "v1").await;
        peer.final_text(&run, "v1 v2").await;
        peer.end().await;
    })
    .await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "w1\nv1 v2\n"));
}

#[tokio::test]
async fn a_refused_line_of_a_pipe_does_not_stop_the_next_but_is_not_forgotten() {
    let gateway = Gateway::bind().await;
    let ran = play(piped(&gateway, "one\ntwo\n"), async {
        let mut peer = gateway.welcome().await;
        let send = peer.request("chat.send").await;
        peer.refuse(&send, json!({"code": "INVALID_REQUEST", "message": "send blocked"})).await;
        let (run, _) = peer.take_message().await;
        peer.final_text(&run, "second").await;
        peer.end().await;
    })
    .await;
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (Some(1), "second\n", "error: INVALID_REQUEST: send blocked\n")
    );
}

#[tokio::test]
async fn a_run_beyond_its_limit_is_aborted() {
    let gateway = Gateway::bind().await;
    let ran = play(gateway.command(&["chat", "hi", "--timeout-ms", "1"]), async {
        let mut peer = gateway.welcome().await;
        let send = peer.request("chat.send").await;
        assert_eq!(send["params"]["timeoutMs"], 1);
        let abort = peer.request("chat.abort").await;
        assert_eq!(abort["params"]["runId"], send["params"]["idempotencyKey"]);
        peer.answer(&abort, json!({"ok": true})).await;
        peer.end().await;
    })
    .await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("--timeout-ms"), "{}", ran.err);
}

#[tokio::test]
async fn the_run_of_another_message_goes_on_beyond_the_limit() {
    let gateway = Gateway::bind().await;
    let ran = play(gateway.command(&["chat", "hi", "--timeout-ms", "2000"]), async {
        let mut peer = gateway.welcome().await;
        let send = peer.request("chat.send").await;
        let run = &send["params"]["idempotencyKey"];
        peer.answer(&send, json!({"runId": run, "status": "started"})).await;
        let taken = json!({"runId": run, "seq": 1, "state": "final", "takenInto": "another"});
        peer.event("chat", taken).await;
        // Nothing is asked for, an abort neither.
        peer.end().await;
    })
    .await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("--timeout-ms"), "{}", ran.err);
}

#[tokio::test]
async fn call_prints_the_payload_and_errors_with_their_details() {
    let params = r#"{"limit":5}"#;
    let (of_lines, of_one) = ("{\n  \"count\": 1\n}\n", "{\"count\":1}\n");
    for (args, expected) in [
        (&["call", "sessions.list", params] as &[_], of_lines),
        (&["call", "sessions.list", params, "--json"], of_one),
        (&["gateway", "call", "sessions.list", "--params", params, "--json"], of_one),
    ] {
        let gateway = Gateway::bind().await;
        let command = gateway.command(args);
        let ran = play(command, async {
            let mut peer = gateway.welcome().await;
            let request = peer.request("sessions.list").await;
            assert_eq!(request["params"], json!({"limit": 5}));
            peer.answer(&request, json!({"count": 1})).await;
            peer.end().await;
        })
        .await;
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), expected, ""));
    }

    let gateway = Gateway::bind().await;
    let ran = play(gateway.command(&["call", "status"]), async {
        let mut peer = gateway.welcome().await;
        let request = peer.request("status").await;
        assert_eq!(request["params"], json!({}));
        let error =
            json!({"code": "INVALID_REQUEST", "message": "missing scope", "details": {"a": 1}});
        peer.refuse(&request, error).await;
    })
    .await;
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (Some(1), "", "error: INVALID_REQUEST: missing scope\ndetails: {\"a\":1}\n")
    );
}

#[tokio::test]
async fn call_with_expect_final_waits_for_the_second_answer() {
    let gateway = Gateway::bind().await;
    let ran = play(gateway.command(&["call", "agent", "--expect-final", "--json"]), async {
        let mut peer = gateway.welcome().await;
        let request = peer.request("agent").await;
        peer.answer(&request, json!({"runId": "r", "status": "accepted"})).await;
        peer.answer(&request, json!({"runId": "r", "status": "ok"})).await;
        peer.end().await;
    })
    .await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "{\"runId\":\"r\",\"status\":\"ok\"}\n"));
}

#[tokio::test]
async fn agent_says_what_is_asked_and_tells_when_nothing_was_delivered() {
    let gateway = Gateway::bind().await;
    let flags = ["--to", "+1555", "--deliver", "--channel", "webhook", "--timeout", "1.5"];
    let command = gateway.command(
        &[&["agent", "-m", "hi", "--thinking", "low", "--model", "m"][..], &flags].concat(),
    );
    let ran = play(command, async {
        let mut peer = gateway.welcome().await;
        let request = peer.request("agent").await;
        let key = request["params"]["idempotencyKey"].clone();
        let expected = json!({"message": "hi", "idempotencyKey": key, "to": "+1555",
            "thinking": "low", "model": "m", "channel": "webhook", "deliver": true, "timeout": 2});
        assert_eq!(request["params"], expected);
        peer.answer(&request, json!({"runId": key, "status": "accepted"})).await;
        let result = json!({"payloads": [{"text": "hello"}], "deliverySucceeded": false});
        peer.answer(&request, json!({"runId": key, "status": "ok", "result": result})).await;
        peer.end().await;
    })
    .await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "hello\n"));
    assert!(ran.err.contains("not delivered"), "{}", ran.err);
}

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_aborts_the_run_of_agent_at_the_gateway() {
    let gateway = Gateway::bind().await;
    let mut command = gateway.command(&["agent", "--message", "hi", "--agent", "main"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (begun, runs) = std::sync::mpsc::channel();
    let script = async {
        let mut peer = gateway.welcome().await;
        let request = peer.request("agent").await;
        let run = request["params"]["idempotencyKey"].clone();
        peer.answer(&request, json!({"runId": run, "status": "accepted"})).await;
        begun.send(()).unwrap();
        let abort = peer.request("sessions.abort").await;
        assert_eq!(abort["params"], json!({"runId": run}));
        peer.answer(&abort, json!({"ok": true, "abortedRunId": run, "status": "aborted"})).await;
        while let Some(Ok(_)) = peer.0.next().await {}
    };
    let user = tokio::task::spawn_blocking(move || {
        runs.recv_timeout(HANG).unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        Ran::from(child.wait_with_output().unwrap())
    });
    let (ran, ()) = tokio::time::timeout(HANG, async { tokio::join!(user, script) }).await.unwrap();
    assert_eq!(ran.unwrap().code, Some(130));
}

#[tokio::test]
async fn an_account_of_a_channel_that_is_not_started_or_stopped_is_a_failure() {
    let gateway = Gateway::bind().await;
    for (verb, done) in [("start", "started"), ("stop", "stopped")] {
        for (is_done, code, not) in [(true, 0, ""), (false, 1, "not ")] {
            let ran = play(gateway.command(&["channels", verb, "webhook"]), async {
                let mut peer = gateway.welcome().await;
                let request = peer.request(&format!("channels.{verb}")).await;
                let mut answer = json!({"channel": "webhook", "accountId": "default"});
                answer[done] = json!(is_done);
                peer.answer(&request, answer).await;
                peer.end().await;
            })
            .await;
            assert_eq!(ran.out, format!("webhook (default) {not}{done}\n"));
            assert_eq!((ran.code, ran.err.as_str()), (Some(code), ""));
        }
    }
}

#[tokio::test]
async fn parameters_that_are_not_json_are_a_usage_error() {
    for (args, why) in [
        (&["{limit:5"] as &[_], "not JSON"),
        (&["--params", "{limit:5"], "not JSON"),
        (&["{}", "--params", "{}"], "cannot be used with"),
    ] {
        let ran = run(clawgate(&[&["call", "status"], args].concat())).await;
        assert_eq!(ran.code, Some(2));
        assert!(ran.err.contains(why), "{}", ran.err);
    }
}

#[tokio::test]
async fn health_is_raw_with_json_and_facts_without() {
    let health = json!({"ok": true, "agents": [{"agentId": "main"}], "sessions": {"count": 1}});
    let facts = "ok        yes\nuptime    4s\nagents    main\nsessions  1\n".to_owned();
    for (flag, expected) in [(Some("--json"), format!("{health}\n")), (None, facts)] {
        let gateway = Gateway::bind().await;
        let mut command = gateway.command(&["health"]);
        command.args(flag);
        let ran = play(command, async {
            let mut peer = gateway.welcome().await;
            let request = peer.request("health").await;
            peer.answer(&request, health.clone()).await;
            peer.end().await;
        })
        .await;
        assert_eq!((ran.code, ran.out, ran.err.as_str()), (Some(0), expected, ""));
    }
}

#[tokio::test]
async fn answers_may_come_in_any_order() {
    let gateway = Gateway::bind().await;
    let ran = play(gateway.command(&["status"]), async {
        let mut peer = gateway.welcome().await;
        let status = peer.request("status").await;
        let presence = peer.request("system-presence").await;
        peer.event("tick", json!({"ts": 1})).await;
        peer.answer(&presence, json!([{"host": "Ref Node", "mode": "node"}])).await;
        peer.answer(&status, json!({"sessions": {"count": 7}})).await;
        peer.end().await;
    })
    .await;
    assert_eq!(ran.code, Some(0));
    assert!(ran.out.contains("2026.5.7 at ws://127.0.0.1:"), "{}", ran.out);
    assert!(ran.out.contains("sessions (7)") && ran.out.contains("Ref Node"), "{}", ran.out);
}

#[tokio::test]
async fn a_loopback_gateway_gets_the_standard_form_with_the_token() {
    let gateway = Gateway::bind().await;
    let mut command = gateway.command(&["call", "health"]);
    command.env("OPENCLAW_GATEWAY_TOKEN", "hunter2");
    let ran = play(command, async {
        let (mut peer, connect) = gateway.accept().await;
        assert_eq!(
            connect["params"],
            json!({
                "minProtocol": 3, "maxProtocol": 3,
                "client": {
                    "id": "gateway-client", "displayName": "clawgate cli",
                    "version": env!("CARGO_PKG_VERSION"), "platform": std::env::consts::OS,
                    "mode": "backend",
                },
                "role": "operator",
                "scopes": [
                    "operator.admin", "operator.read", "operator.write", "operator.approvals",
                    "operator.pairing", "operator.talk.secrets",
                ],
                "caps": ["tool-events"],
                "auth": {"token": "hunter2"},
            })
        );
        let error = json!({
            "code": "INVALID_REQUEST",
            "message": "unauthorized: gateway token mismatch (provide gateway auth token)",
            "details": {"code": "AUTH_TOKEN_MISMATCH"},
        });
        peer.refuse(&connect, error).await;
        peer.close(1008, "unauthorized: gateway token mismatch").await;
    })
    .await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(
        ran.err.contains("gateway token mismatch") && ran.err.contains("--token"),
        "{}",
        ran.err
    );
    assert!(!ran.err.contains("hunter2"), "{}", ran.err);
}

/// 0.0.0.0 leads to this machine as well, but is no loopback address.
#[cfg(unix)]
#[tokio::test]
async fn another_host_gets_the_simple_form_with_the_given_token() {
    let gateway = Gateway::bind().await;
    let url = gateway.url.replace("127.0.0.1", "0.0.0.0");
    let command = clawgate(&["health", "--url", &url, "--token", "hunter2"]);
    let ran = play(command, async {
        let (mut peer, connect) = gateway.accept().await;
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            connect["params"],
            json!({"token": "hunter2", "clientType": "cli", "clientVersion": version})
        );
        let error = json!({"code": "permission_denied", "message": "the token is wrong"});
        peer.refuse(&connect, error).await;
        peer.close(1008, "the token is wrong").await;
    })
    .await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("permission_denied: the token is wrong; give"), "{}", ran.err);
}

#[tokio::test]
async fn a_gateway_without_auth_is_asked_again_in_the_simple_form() {
    let gateway = Gateway::bind().await;
    let ran = play(gateway.command(&["call", "health", "--json"]), async {
        let (mut peer, connect) = gateway.accept().await;
        assert_eq!(connect["params"].get("auth"), None);
        let error = json!({
            "code": "NOT_PAIRED", "message": "device identity required",
            "details": {"code": "DEVICE_IDENTITY_REQUIRED"},
        });
        peer.refuse(&connect, error).await;
        peer.close(1008, "device identity required").await;

        let (mut peer, connect) = gateway.accept().await;
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(connect["params"], json!({"clientType": "cli", "clientVersion": version}));
        peer.answer(&connect, json!({"type": "hello-ok", "protocol": 3})).await;
        let request = peer.request("health").await;
        peer.answer(&request, json!({})).await;
        peer.end().await;
    })
    .await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "{}\n"));
}

#[tokio::test]
async fn a_gateway_that_is_still_starting_is_waited_for() {
    let gateway = Gateway::bind().await;
    let ran = play(gateway.command(&["health"]), async {
        let (mut peer, connect) = gateway.accept().await;
        let error = json!({
            "code": "UNAVAILABLE", "message": "gateway starting; retry shortly",
            "retryable": true, "retryAfterMs": 1,
        });
        peer.refuse(&connect, error).await;
        peer.close(1013, "gateway starting").await;

        let mut peer = gateway.welcome().await;
        let request = peer.request("health").await;
        peer.answer(&request, json!({"ok": true})).await;
        peer.end().await;
    })
    .await;
    assert_eq!(ran.code, Some(0));
}

#[tokio::test]
async fn a_close_instead_of_an_answer_shows_its_reason() {
    let gateway = Gateway::bind().await;
    let ran = play(gateway.command(&["health"]), async {
        let mut peer = gateway.welcome().await;
        peer.request("health").await;
        peer.close(4001, "gateway auth changed").await;
    })
    .await;
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (Some(1), "error: the gateway closed the connection (4001: gateway auth changed)\n")
    );
}

#[tokio::test]
async fn what_is_no_gateway_or_not_there_says_what_to_do() {
    // Bound but not listening: refuses, and nobody else can take the port.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("ws://{}", closed.local_addr().unwrap());
    let refused = format!(
        "error: no gateway answers at {url}; start one with `clawgate gateway`, \
         or name another with --url\n"
    );
    let ran = run(clawgate(&["health", "--url", &url, "--token", "t"])).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), refused.as_str()));

    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("wss://{}", plain.local_addr().unwrap());
    let answer = async {
        let (mut tcp, _) = plain.accept().await.unwrap();
        tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    };
    let pin = "0".repeat(64);
    let pinned = ["health", "--url", &url, "--token", "t", "--tls-fingerprint", &pin];
    let ran = play(clawgate(&pinned), answer).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains(&format!("no TLS with {url}")), "{}", ran.err);

    let ran = run(clawgate(&["health", "--url", "ws://gw.example/?token=hunter2"])).await;
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("--token") && !ran.err.contains("hunter2"), "{}", ran.err);
}

#[tokio::test]
async fn logs_shows_the_last_lines_of_the_level_that_is_wanted() {
    let gateway = Gateway::bind().await;
    let command = gateway.command(&["logs", "--json", "--level", "error", "--limit", "1"]);
    let line =
        |level: &str, text: &str| json!({"_meta": {"logLevelName": level}, "1": text}).to_string();
    let last = line("ERROR", "second");
    let ran = play(command, async {
        let mut peer = gateway.welcome().await;
        let request = peer.request("logs.tail").await;
        assert_eq!(request["params"]["limit"], 5000);
        let lines = [&line("ERROR", "first"), &last, &line("INFO", "third")];
        peer.answer(&request, json!({"cursor": 9, "size": 9, "lines": lines})).await;
        peer.end().await;
    })
    .await;
    assert_eq!((ran.code, ran.out), (Some(0), format!("{last}\n")));
}

#[tokio::test]
async fn logs_is_json_for_programs_also_where_a_line_is_torn() {
    let gateway = Gateway::bind().await;
    let command = gateway.command(&["logs", "--json"]);
    let torn = r#"{"0":"half"#;
    let ran = play(command, async {
        let mut peer = gateway.welcome().await;
        let request = peer.request("logs.tail").await;
        peer.answer(&request, json!({"cursor": 9, "size": 9, "lines": [torn]})).await;
        peer.end().await;
    })
    .await;
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(told, json!({"type": "raw", "raw": torn}));
}

#[tokio::test]
async fn logs_looks_further_back_where_too_few_of_the_last_lines_are_of_the_level() {
    let gateway = Gateway::bind().await;
    let command = gateway.command(&["logs", "--json", "--level", "error", "--limit", "3"]);
    let line =
        |level: &str, text: &str| json!({"_meta": {"logLevelName": level}, "1": text}).to_string();
    let (old, new) = (line("ERROR", "old"), line("ERROR", "new"));
    let ran = play(command, async {
        let mut peer = gateway.welcome().await;
        let end = 9_000_000;
        for (cursor, answer) in [
            (None, json!({"cursor": end, "size": end, "lines": [new], "truncated": true})),
            // The files that far back are gone.
            (Some(1_000_000), json!({"cursor": end, "size": end, "lines": [new], "reset": true})),
            (Some(5_000_000), json!({"cursor": 8_000_000, "size": end, "lines": [old]})),
            (
                Some(8_000_000),
                json!({"cursor": end, "size": end, "lines": [line("INFO", "fine"), new]}),
            ),
        ] {
            let request = peer.request("logs.tail").await;
            assert_eq!(request["params"]["cursor"].as_u64(), cursor);
            peer.answer(&request, answer).await;
        }
        peer.end().await;
    })
    .await;
    assert_eq!((ran.code, ran.out), (Some(0), format!("{old}\n{new}\n")));
    assert!(ran.err.contains("older lines were not looked at"), "{}", ran.err);
}

#[tokio::test]
async fn who_follows_the_log_does_not_ask_without_end_for_a_line_that_is_not_whole() {
    let gateway = Gateway::bind().await;
    let follow = ["logs", "--json", "--follow", "--interval", "700", "--max-bytes", "250000"];
    let ran = play(gateway.command(&follow), async {
        let mut peer = gateway.welcome().await;
        let began = tokio::time::Instant::now();
        for cursor in [None, Some(5)] {
            let request = peer.request("logs.tail").await;
            assert_eq!(request["params"]["cursor"].as_u64(), cursor);
            peer.answer(&request, json!({"cursor": 5, "size": 9, "lines": []})).await;
        }
        let request = peer.request("logs.tail").await;
        assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
        peer.answer(&request, json!({"cursor": 12, "size": 12, "lines": ["{}"]})).await;
        let request = peer.request("logs.tail").await;
        assert_eq!(request["params"]["cursor"], 12);
        peer.refuse(&request, json!({"code": "UNAVAILABLE", "message": "enough"})).await;
        peer.end().await;
    })
    .await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "{}\n"), "{}", ran.err);
}

#[tokio::test]
async fn a_skill_that_is_not_there_is_no_mistake_in_the_line() {
    let gateway = Gateway::bind().await;
    let ran = play(gateway.command(&["skills", "info", "nobody"]), async {
        let mut peer = gateway.welcome().await;
        let request = peer.request("skills.status").await;
        peer.answer(&request, json!({"skills": []})).await;
        peer.end().await;
    })
    .await;
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("there is no skill nobody"), "{}", ran.err);
}

#[tokio::test]
async fn commands_of_openclaw_that_are_called_otherwise_here_are_told() {
    for (words, told) in [
        (&["setup"][..], "use `clawgate onboard`"),
        (&["channels", "login"], "use `clawgate configure --section channels`"),
        (&["chat", "two", "words"], "a message of several words needs quotes"),
    ] {
        let ran = run(clawgate(words)).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{words:?}");
        assert!(ran.err.starts_with("error: ") && ran.err.contains(told), "{}", ran.err);
    }
}

#[tokio::test]
async fn a_credential_is_not_sent_to_other_machines_in_plain_text() {
    // Reserved for documentation, so nobody is there.
    let ran = run(clawgate(&["health", "--url", "ws://192.0.2.7", "--token", "hunter2"])).await;
    assert_eq!(ran.code, Some(2));
    let expected = "error: SECURITY ERROR: Gateway URL \"ws://192.0.2.7\" uses plaintext ws:// \
                    to a non-loopback address";
    assert!(ran.err.starts_with(expected) && !ran.err.contains("hunter2"), "{}", ran.err);
    assert!(ran.err.contains("OPENCLAW_ALLOW_INSECURE_PRIVATE_WS=1"), "{}", ran.err);
}

/// What bash offers when Tab is pressed after a line that begins like this.
fn offered(words: &str) -> String {
    let line = format!(
        "source <('{}' completion bash) || exit; COMP_WORDS=({words}); \
         COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_LINE='{words}'; \
         _clawgate clawgate \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; \
         echo \"${{COMPREPLY[@]}}\"",
        program()
    );
    let output = Command::new("bash").args(["--norc", "-c", &line]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_shell_completes_commands_and_flags() {
    assert_eq!(offered("clawgate devi"), "devices");
    assert_eq!(offered("clawgate devices appr"), "approve");
    assert_eq!(offered("clawgate qr --setup"), "--setup-code-only");
    let of = |shell: &[&str], named: &str| {
        let mut command = Command::new(program());
        command.arg("completion").args(shell).env("SHELL", named).output().unwrap()
    };
    let own = String::from_utf8(of(&[], "/usr/bin/zsh").stdout).unwrap();
    assert!(own.starts_with("#compdef clawgate"), "{own}");
    assert_eq!(own.as_bytes(), of(&["-s", "zsh"], "/bin/bash").stdout);
    let unknown = of(&[], "/bin/sh");
    assert_eq!(unknown.status.code(), Some(1));
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(said.contains("clawgate completion bash"), "{said}");
}
