//! `/status`, `/whoami`.

use crate::agent::status;
use crate::auth::Owner;
use crate::protocol::Scope;
use crate::registry::{Ctx, Person};
use crate::sessions::{SessionKey, WEBCHAT};

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
    let who = match cx.caller.person.as_deref() {
        Some(Person { channel, account, id, .. }) => {
            format!("Channel: {channel}\nAccount: {account}\nUser id: {id}")
        }
        None => format!("Channel: {WEBCHAT}\nUser id: {}", cx.caller.client_id),
    };
    format!("🧭 Identity\n{who}{device}\nScopes: {}", scopes.join(", "))
}
