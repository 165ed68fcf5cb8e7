//! `/status`, `/whoami`.

use crate::agent::status;
use crate::auth::Owner;
use crate::protocol::Scope;
use crate::registry::Ctx;
use crate::sessions::SessionKey;

/// `/status`: the gateway and the session, on a page.
pub async fn run(cx: &Ctx, key: &SessionKey, came_by: Option<&str>) -> String {
    let entry = cx.services.sessions.entry(key).await.ok().flatten();
    status::text(&cx.services.runs, key, entry, came_by)
}

/// `/whoami`: who sends, and what he may do.
pub fn whoami(cx: &Ctx) -> String {
    let principal = &cx.caller.principal;
    let held = Scope::ALL.into_iter().filter(|scope| principal.allows(*scope));
    let scopes: Vec<_> = held.map(Scope::as_str).collect();
    let device = match principal.owner() {
        Owner::Device(id) => format!("\nDevice: {id}"),
        Owner::Connection(_) => String::new(),
    };
    let client = &cx.caller.client_id;
    format!(
        "🧭 Identity\nChannel: webchat\nUser id: {client}{device}\nScopes: {}",
        scopes.join(", ")
    )
}
