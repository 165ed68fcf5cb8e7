//! `models.list`, `models.authStatus`.

use serde_json::Value;

use crate::protocol::methods::AnyParams;
use crate::protocol::methods::models::ModelsListParams;
use crate::providers::credentials::status;
use crate::providers::{ModelInfo, View};
use crate::registry::{Ctx, Reply, Services, Shared};
use crate::support::json;

use super::shared::{Asked, shared};

/// `models.list`: models and what they can do.
pub async fn list(cx: Ctx, p: ModelsListParams) -> Reply<Shared> {
    shared(&cx.services, Asked::Models(p.clone()), models(&cx.services, &p)).await
}

async fn models(services: &Services, p: &ModelsListParams) -> Reply<Value> {
    let view = p.view.as_deref().and_then(View::parse).unwrap_or_default();
    let failover = services.models.failover();
    let keys = services.keys.now();
    let stored = failover.credentials().profiles(keys.default_agent.as_str()).await;
    let has_profile = |provider: &str| stored.iter().any(|it| it.opens(provider));
    let catalog = failover.catalog();
    let models = catalog.view(view, &has_profile);
    let rows: Vec<_> = models.iter().map(|model| row(model, catalog.alias(model))).collect();
    Ok(json!({"models": rows}))
}

fn row(model: &ModelInfo, alias: Option<&str>) -> Value {
    let mut row = json!({
        "provider": model.provider,
        "id": model.id,
        "name": model.name,
        "contextWindow": model.context_window,
        "reasoning": model.reasoning,
        "input": model.input.iter().map(|kind| kind.as_str()).collect::<Vec<_>>(),
    });
    if let (Some(alias), Value::Object(members)) = (alias, &mut row) {
        members.insert("alias".into(), json!(alias));
    }
    row
}

/// `models.authStatus`: the credentials of each provider. Files are read again
/// whenever they have changed, so `refresh` asks for nothing more.
pub async fn auth_status(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let services = &cx.services;
    let (failover, keys) = (services.models.failover(), services.keys.now());
    let (credentials, agent) = (failover.credentials(), keys.default_agent.as_str());
    let now_ms = services.clock.now_ms();
    let providers = status::of_profiles(credentials, agent, now_ms).await;
    Ok(json!({"ts": now_ms, "providers": providers}))
}
