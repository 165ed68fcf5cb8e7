//! What the recordings do not show: who was connected already, and what had
//! been said.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::ids::Learned;
use super::proof;
use super::replay::{Conn, Target};
use super::setup::{self, Prelude, Profile};
use super::trace::{Line, Trace, What};
use crate::support::{DeviceKey, WsClient};

/// Each step of the prelude may take this long.
const LIMIT: Duration = Duration::from_secs(30);
/// Ids of the prelude's requests begin so.
const MARK: &str = "prelude-";

/// Whether the frame answers a request of the prelude.
pub fn is_answer(frame: &Value) -> bool {
    frame["type"] == "res" && frame["id"].as_str().is_some_and(|id| id.starts_with(MARK))
}

/// The connections that are open before the recording, operators first.
fn order(trace: &Trace) -> Vec<(String, Profile)> {
    let mut conns: Vec<_> = trace
        .implicit()
        .into_iter()
        .map(|name| (name.clone(), setup::profile(&trace.name, &name)))
        .collect();
    conns.sort_by_key(|(_, profile)| profile.joins_last());
    conns
}

/// Who joins in the middle, and before which line: the last one sent before
/// the first that is theirs.
pub fn late(trace: &Trace) -> Vec<(usize, String, Profile)> {
    let found = order(trace).into_iter().filter_map(|(name, profile)| {
        if !setup::some_come_late(&trace.name) || profile.is_node() {
            return None;
        }
        let first = trace.lines.iter().position(|line| line.conn == name)?;
        let sent = |line: &Line| matches!(line.what, What::Sent(_) | What::SentRaw(_));
        let at = trace.lines[..=first].iter().rposition(sent)?;
        let others = trace.lines[..at].iter().any(|line| sent(line) && line.conn != name);
        others.then_some((at, name, profile))
    });
    found.collect()
}

/// Who is there from the beginning.
pub fn early(trace: &Trace) -> Vec<(String, Profile)> {
    let late = late(trace);
    let mut order = order(trace);
    order.retain(|(name, _)| late.iter().all(|(_, other, _)| other != name));
    order
}

/// Opens them and says what was said before.
pub async fn open(
    trace: &Trace,
    target: &Target,
    conns: &mut HashMap<String, Conn>,
    learned: &mut Learned,
) -> Result<(), String> {
    let order = early(trace);
    let (nodes, operators): (Vec<_>, Vec<_>) =
        order.iter().partition(|(_, profile)| profile.joins_last());
    for (name, profile) in &operators {
        conns.insert(name.clone(), connect(name, profile, target, learned).await?);
    }
    if let Some((name, _)) = operators.iter().find(|(_, p)| p.scopes.contains(&"operator.admin")) {
        speak(setup::prelude(&trace.name), conns.get_mut(name).ok_or("not open")?).await?;
    }
    skip(&operators, conns).await?;
    for (name, profile) in &nodes {
        conns.insert(name.clone(), connect(name, profile, target, learned).await?);
        if setup::has_node_work(&trace.name)
            && let Some((operator, _)) = operators.first()
        {
            let work = json!({ "nodeId": DeviceKey::named(name).id(), "type": "status.request" });
            let conn = conns.get_mut(operator).ok_or("not open")?;
            request(conn, "node.pending.enqueue", work).await?;
        }
    }
    if !nodes.is_empty() && !setup::records_the_prelude(&trace.name) {
        skip(&operators, conns).await?;
    }
    Ok(())
}

pub async fn connect(
    name: &str,
    profile: &Profile,
    target: &Target,
    learned: &mut Learned,
) -> Result<Conn, String> {
    let origin = format!("http://{}", target.address);
    let headers = match profile.mode {
        "webchat" => vec![("Origin".to_owned(), origin)],
        _ => Vec::new(),
    };
    let client = WsClient::open_with(&target.address, "/", &headers).await;
    let mut conn = Conn::new(client.map_err(|refusal| format!("{name}: {refusal:?}"))?);
    let mut params = profile.connect();
    if profile.device {
        let known = profile.known.filter(|_| target.new_devices);
        if let Some(known) = known {
            proof::adopt(&json!({"publicKey": known.public_key}), learned);
        }
        let name = known.map_or(name, |known| known.public_key);
        params = proof::signed(params, name, &conn.client.nonce().await);
    }
    let hello = request(&mut conn, "connect", params).await?;
    if hello["ok"] != true {
        return Err(format!("{name} could not connect: {hello}"));
    }
    let token = profile.known.and_then(|known| known.token);
    if let (Some(recorded), Some(now)) = (token, hello["payload"]["auth"]["deviceToken"].as_str()) {
        learned.insert(recorded, now);
    }
    // A node is told things at once; those are recorded.
    let frames = conn.client.frames();
    conn.skipped = frames.iter().position(is_answer).map_or(0, |at| at + 1);
    Ok(conn)
}

async fn speak(prelude: Prelude, conn: &mut Conn) -> Result<(), String> {
    let (key, messages) = prelude.messages();
    for (index, message) in messages.iter().enumerate() {
        let run_id = format!("prelude-{index}");
        let params = json!({ "sessionKey": key, "message": message, "idempotencyKey": run_id });
        request(conn, "chat.send", params).await?;
        let is_final = |frame: &Value| {
            let payload = &frame["payload"];
            frame["event"] == "chat" && payload["runId"] == run_id && payload["state"] == "final"
        };
        let end = conn.client.wait_for(LIMIT, is_final).await;
        end.ok_or_else(|| format!("{message:?} did not end"))?;
    }
    Ok(())
}

/// What these connections have received by now is not part of the recording.
async fn skip(
    operators: &[&(String, Profile)],
    conns: &mut HashMap<String, Conn>,
) -> Result<(), String> {
    for (name, _) in operators {
        let conn = conns.get_mut(name).ok_or("not open")?;
        request(conn, "last-heartbeat", json!({})).await?;
        conn.skipped = conn.client.frames().iter().rposition(is_answer).map_or(0, |at| at + 1);
    }
    Ok(())
}

async fn request(conn: &mut Conn, method: &str, params: Value) -> Result<Value, String> {
    let id = format!("{MARK}{}-{method}", conn.client.frames().len());
    conn.client.send(&json!({ "type": "req", "id": id, "method": method, "params": params })).await;
    conn.client
        .wait_for(LIMIT, |frame| frame["type"] == "res" && frame["id"] == id.as_str())
        .await
        .ok_or_else(|| format!("no answer to {method}"))
}
