//! Whether credentials work: by asking each provider one short question.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Facts;
use crate::providers::{ModelInfo, probe};
use crate::support::json;

/// Asks `model` with each credential that there is for it.
pub async fn ask(
    facts: &Facts,
    agent: &str,
    model: &Arc<ModelInfo>,
    limit: Duration,
) -> Vec<Value> {
    let credentials = facts.failover.credentials();
    let provider = facts.failover.catalog().provider_for(model);
    let mut rows = Vec::new();
    for credential in credentials.for_model(agent, model).await {
        let began = tokio::time::Instant::now();
        let now_ms = facts.clock.now_ms();
        let asked = probe(&*provider, &credential.apply(model), now_ms, limit).await;
        let (status, error) =
            asked.map_or_else(|failure| (failure.status, failure.message), |()| ("ok", None));
        let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        rows.push(json!({"provider": model.provider, "model": model.id,
            "profileId": credential.id, "status": status, "error": error, "latencyMs": took}));
    }
    rows
}
