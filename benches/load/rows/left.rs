//! What remains of sessions that are done.

use std::time::Duration;

use serde_json::json;

use super::super::client::{Link, find, request};
use super::super::provider;
use super::super::server::Server;
use super::super::stats::{Samples, Side, float};
use super::{Lab, fresh};

const SESSIONS: usize = 10_000;
/// Caches and buffers fill first.
const WARM_UP: usize = 1_000;
const AT_ONCE: usize = 32;
/// Nobody comes back to them.
const IDLE: Duration = Duration::from_secs(30);
const CHAT_EVENT: &[u8] = br#"{"type":"event","event":"chat""#;
const FINAL: &[u8] = br#""state":"final""#;

/// Makes sessions, asks one question in each and leaves them.
pub async fn measure(lab: &Lab, samples: &mut Samples) -> anyhow::Result<()> {
    let count = lab.options.size(SESSIONS, 500);
    let idle = lab.options.size(IDLE, Duration::from_secs(3));
    let (gateway, _home) = fresh(lab, Side::Gateway).await?;
    use_sessions(&gateway, 0..WARM_UP.min(count)).await?;
    tokio::time::sleep(idle).await;
    let (before, own) = (gateway.memory()?, gateway.own_memory()?);
    use_sessions(&gateway, WARM_UP..WARM_UP + count).await?;
    tokio::time::sleep(idle).await;
    lab.provider.forget();
    let of_each = |grown: f64| grown * 1024.0 / float(count);
    samples.add("left", Side::Gateway, of_each(gateway.memory()? - before));
    samples.add("left-own", Side::Gateway, of_each(gateway.own_memory()? - own));
    Ok(())
}

/// One turn in each, some at once.
async fn use_sessions(gateway: &Server, numbers: std::ops::Range<usize>) -> anyhow::Result<()> {
    let mut link = Link::hello(gateway.address()).await?;
    let (mut waiting, mut open) = (numbers, 0);
    loop {
        while open < AT_ONCE {
            let Some(number) = waiting.next() else { break };
            let params = json!({
                "sessionKey": format!("agent:main:left-{number}"),
                "message": provider::message(number, 1, Duration::ZERO),
                "idempotencyKey": format!("left-{number}"),
            });
            link.send(&request("send", "chat.send", &params)).await?;
            open += 1;
        }
        if open == 0 {
            return Ok(());
        }
        let frame = link.next().await?;
        if frame.starts_with(CHAT_EVENT) && find(frame, FINAL).is_some() {
            open -= 1;
        }
    }
}
