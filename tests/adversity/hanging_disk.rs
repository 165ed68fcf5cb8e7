//! A disk whose syncs do not return: `strace` holds those of a gateway that works.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::seen::{health, page, readiness};
use crate::stage::{
    Api, RUN_LIMIT, admin, ask, call, deltas, end_of, ends_of, history, scripted, start, text_of,
    until,
};
use crate::strace::Injection;
use crate::support::guest::Guest;
use crate::support::{Gateway, WsClient, not_run};

/// Messages that come before anybody knows that the disk hangs.
const EARLY: usize = 8;
/// Messages that come later, each of this size, and how much the memory may grow.
const LATE: usize = 64;
const SIZE: usize = 512 * 1024;
const MOST_KIB: u64 = 16 * 1024;

/// Holds all syncs until it is dropped; `None` where nobody may.
fn hang(gateway: &Gateway) -> Option<Injection> {
    let calls = "fsync,fdatasync";
    let args = [format!("trace={calls}"), format!("inject={calls}:delay_enter=1000000000")];
    let args = args.into_iter().flat_map(|arg| ["-e".to_owned(), arg]);
    let held = Injection::with(gateway.pid().unwrap(), &args.collect::<Vec<_>>());
    held.inspect_err(|why| not_run(&format!("a disk that hangs needs strace: {why}"))).ok()
}

/// Asks for something and does not wait for the answer.
async fn ask_for(client: &mut WsClient, id: &str, method: &str, params: Value) {
    let frame = json!({"type": "req", "id": id, "method": method, "params": params});
    client.send(&frame).await;
}

fn message(run: &str) -> Value {
    let text = format!("{run} @mock text text=answer-{run}");
    json!({"sessionKey": format!("s-{run}"), "message": text, "idempotencyKey": run})
}

fn answers(client: &WsClient) -> usize {
    client.frames().iter().filter(|frame| frame["type"] == "res").count()
}

/// What needs no write is answered.
async fn serves_readers(gateway: &Gateway, before: &[Value], guest: &Guest) {
    let mut client = admin(gateway).await;
    // What is being written to it may be in it.
    assert_eq!(history(&mut client, "main").await[..before.len()], *before);
    let listed = call(&mut client, "sessions.list", json!({})).await;
    assert!(!listed["sessions"].as_array().unwrap().is_empty());
    health(&mut client).await;
    guest.come(gateway).await;
    assert!(page(gateway, "/health").await.contains(" 200 "));
}

/// Each message that is late is refused, and forgotten.
async fn refuses(gateway: &Gateway, client: &mut WsClient) {
    let before = gateway.resident_kib().unwrap();
    let mut params = message("late");
    params["message"] = format!("{} {}", "x".repeat(SIZE), params["message"]).into();
    for _ in 0..LATE {
        let answer = client.request("chat.send", params.clone()).await;
        let error = &answer["error"];
        assert_eq!((&error["code"], &error["retryable"]), (&json!("UNAVAILABLE"), &json!(true)));
    }
    let grown = gateway.resident_kib().unwrap().saturating_sub(before);
    assert!(grown < MOST_KIB, "{grown} KiB more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_disk_hangs_readers_are_served_and_what_waits_is_stored_once_when_it_answers() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "@mock text text=before", "run-before").await;
    let before = history(&mut client, "main").await;
    let guest = Guest::new("guest", &["operator.read"]);
    let guest = guest.clone().with(json!({"deviceToken": guest.token(&gateway).await}));
    start(&mut client, "streams", "@mock stream n=100000 delay=50", "run-streams").await;
    deltas(&client, "run-streams", 1).await;

    let Some(hanging) = hang(&gateway) else { return };
    let began = Instant::now();
    let mut early = admin(&gateway).await;
    let answered = answers(&early);
    let note = json!({"sessionKey": "main", "message": "a note"});
    ask_for(&mut early, "note", "chat.inject", note).await;
    for number in 0..EARLY {
        let run = format!("run-{number}");
        ask_for(&mut early, &run, "chat.send", message(&run)).await;
    }
    serves_readers(&gateway, &before, &guest).await;
    until("a disk that hangs is told", async || {
        let (is_ready, failing) = readiness(&gateway).await;
        (!is_ready && failing == json!(["store", "transcripts"])).then_some(())
    })
    .await;
    let told = health(&mut client).await;
    assert_eq!(told["ok"], false, "{told}");
    let error = told["services"]["store"]["error"].as_str().unwrap();
    assert!(error.contains("has not answered for "), "{error}");
    serves_readers(&gateway, &before, &guest).await;
    refuses(&gateway, &mut client).await;
    let streamed = deltas(&client, "run-streams", 1).await.len();
    until("a run goes on", async || {
        let now = deltas(&client, "run-streams", 1).await.len();
        (now > streamed).then_some(())
    })
    .await;
    assert_eq!(answers(&early), answered, "nothing is acknowledged");
    println!("it has hung for {:?}", began.elapsed());

    drop(hanging);
    for number in 0..EARLY {
        let run = format!("run-{number}");
        assert_eq!(early.answer(&run).await.unwrap()["ok"], true);
        assert_eq!(text_of(&end_of(&early, &run).await["message"]), format!("answer-{run}"));
        assert_eq!(ends_of(&early, &run).len(), 1, "{run}");
        assert_eq!(history(&mut client, &format!("s-{run}")).await.len(), 2, "{run}");
    }
    assert_eq!(early.answer("note").await.unwrap()["ok"], true);
    assert_eq!(history(&mut client, "main").await.len(), before.len() + 1);
    until("readiness", async || readiness(&gateway).await.0.then_some(())).await;
    assert_eq!(health(&mut client).await["ok"], true);
    // The one that was refused is taken now.
    call(&mut client, "chat.send", message("late")).await;
    assert_eq!(text_of(&end_of(&client, "late").await["message"]), "answer-late");
    call(&mut client, "chat.abort", json!({"sessionKey": "streams"})).await;
    let end = client.wait_for(RUN_LIMIT, |frame| frame["payload"]["state"] == "aborted").await;
    assert!(end.is_some());
}
