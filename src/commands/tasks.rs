//! `/tasks`: what runs and waits in the session. Runs are the tasks of this
//! gateway.

use crate::registry::Ctx;
use crate::sessions::SessionKey;

/// Says how many there are, here and elsewhere.
pub fn run(cx: &Ctx, key: &SessionKey) -> String {
    let runs = &cx.services.runs;
    let of_all = runs.tasks();
    let here = match (runs.active(key), runs.waiting_in(key)) {
        (None, _) => "All clear - nothing linked to this session right now.".to_owned(),
        (Some(run), waiting) => format!("1 active ({}) · {waiting} waiting", run.id),
    };
    format!(
        "📋 Tasks\n{here}\nAll sessions: {} active · {} total",
        of_all["active"], of_all["total"]
    )
}
