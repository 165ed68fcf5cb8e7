//! `/queue`: what happens to messages while a run is active.

use super::refusal;
use crate::agent::QueueRules;
use crate::config::{DropPolicy, QueueMode};
use crate::registry::Ctx;
use crate::sessions::SessionKey;
use crate::store::SessionEntry;
use crate::support::millis;

/// What the command takes, as the original lists it.
const OPTIONS: &str = "Options: modes steer, queue, followup, collect, steer+backlog, interrupt; \
                       debounce:<ms|s|m>, cap:<n>, drop:old|new|summarize.";

/// What a person asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueChange {
    /// Back to what the config says, before the rest.
    reset: bool,
    mode: Option<QueueMode>,
    debounce_ms: Option<u64>,
    cap: Option<u64>,
    drop: Option<DropPolicy>,
}

impl QueueChange {
    /// Reads what follows `/queue`; the error is for the person.
    fn parse(words: &str) -> Result<Self, String> {
        let mut change = Self::default();
        for word in words.split_whitespace() {
            let word = word.to_lowercase();
            let bad = || format!("I do not understand `{word}`.\n{OPTIONS}");
            match word.split_once([':', '=']) {
                Some(("debounce", time)) => {
                    change.debounce_ms = Some(milliseconds(time).ok_or_else(bad)?);
                }
                Some(("cap", count)) => {
                    let count = count.parse().ok().filter(|count| *count > 0);
                    change.cap = Some(count.ok_or_else(bad)?);
                }
                Some(("drop", policy)) => {
                    change.drop = Some(DropPolicy::parse(policy).ok_or_else(bad)?);
                }
                Some(_) => return Err(bad()),
                None if word == "default" || word == "reset" => change.reset = true,
                None => change.mode = Some(QueueMode::parse(&word).ok_or_else(bad)?),
            }
        }
        Ok(change)
    }

    fn apply(&self, entry: &mut SessionEntry) {
        if self.reset {
            entry.queue_mode = None;
            (entry.queue_debounce_ms, entry.queue_cap) = (None, None);
            entry.queue_drop = None;
        }
        if let Some(mode) = self.mode {
            entry.queue_mode = Some(mode.as_str().into());
        }
        entry.queue_debounce_ms = self.debounce_ms.or(entry.queue_debounce_ms);
        entry.queue_cap = self.cap.or(entry.queue_cap);
        if let Some(drop) = self.drop {
            entry.queue_drop = Some(drop.as_str().into());
        }
    }

    fn told(&self) -> String {
        let lines = [
            self.reset.then(|| "⚙️ Queue mode reset to default.".to_owned()),
            self.mode.map(|mode| format!("⚙️ Queue mode set to {mode}.")),
            self.debounce_ms.map(|time| format!("⚙️ Queue debounce set to {time}ms.")),
            self.cap.map(|cap| format!("⚙️ Queue cap set to {cap}.")),
            self.drop.map(|drop| format!("⚙️ Queue drop set to {drop}.")),
        ];
        lines.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// Does it; the answer is for the chat. It tells what holds for who asks by this channel.
pub async fn run(words: &str, cx: &Ctx, key: &SessionKey, came_by: Option<&str>) -> String {
    let change = match QueueChange::parse(words) {
        Ok(change) => change,
        Err(text) => return text,
    };
    let is_change = change != QueueChange::default();
    // There is no method for it; it is a setting of the session like others.
    if is_change && let Err(error) = cx.check("sessions.patch") {
        return refusal(cx, "/queue", &error);
    }
    let sessions = &cx.services.sessions;
    let outcome = if is_change {
        let told = change.told();
        let workspace = cx.services.runs.parts().agent_of(key).workspace;
        let edit = move |entry: &mut SessionEntry| {
            change.apply(entry);
            Ok(())
        };
        sessions.edit(key, None, &workspace, edit).await.map(|_| told)
    } else {
        sessions.entry(key).await.map(|entry| {
            let settings = cx.services.settings.now();
            let rules = QueueRules::of(&settings.messages.queue, entry.as_ref(), came_by);
            format!(
                "Current queue settings: mode={}, debounce={}ms, cap={}, drop={}.\n{OPTIONS}",
                rules.mode,
                millis(rules.debounce),
                rules.cap,
                rules.drop
            )
        })
    };
    outcome.unwrap_or_else(|error| format!("⚠️ Nothing was changed: {error}"))
}

/// `500`, `500ms`, `2s` or `1m`, up to a day.
fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text.strip_prefix(digits)? {
        "" | "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => return None,
    };
    let time = digits.parse::<u64>().ok()?.checked_mul(factor)?;
    (time <= millis(QueueRules::DEBOUNCE_MAX)).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_options_are_read_in_any_order() {
        let change = QueueChange::parse("cap:3 Steer+Backlog debounce:2s drop:OLD").unwrap();
        assert_eq!(
            change.told(),
            "⚙️ Queue mode set to steer-backlog. ⚙️ Queue debounce set to 2000ms. \
             ⚙️ Queue cap set to 3. ⚙️ Queue drop set to old."
        );
        let mut entry = SessionEntry::default();
        change.apply(&mut entry);
        assert_eq!(entry.queue_mode.as_deref(), Some("steer-backlog"));
        assert_eq!((entry.queue_debounce_ms, entry.queue_cap), (Some(2000), Some(3)));
        assert_eq!(entry.queue_drop.as_deref(), Some("old"));
        QueueChange::parse("collect").unwrap().apply(&mut entry);
        assert_eq!((entry.queue_mode.as_deref(), entry.queue_cap), (Some("collect"), Some(3)));
        QueueChange::parse("reset").unwrap().apply(&mut entry);
        assert_eq!(entry, SessionEntry::default());
    }

    #[test]
    fn what_is_not_understood_is_named_and_changes_nothing() {
        for words in
            ["later", "cap:0", "cap:x", "debounce:1h", "debounce:", "drop:all", "x:1", "cap:-1"]
        {
            let text = QueueChange::parse(&format!("collect {words}")).unwrap_err();
            assert!(text.contains(&format!("`{words}`")), "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, time) in [("500", 500), ("0ms", 0), ("2s", 2000), ("1m", 60_000)] {
            assert_eq!(milliseconds(text), Some(time), "{text}");
        }
        assert_eq!(milliseconds("99999999999999999m"), None);
    }
}
