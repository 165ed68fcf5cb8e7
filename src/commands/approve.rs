//! `/approve`: decides whether a command of the agent may run, or whether a tool may be used.

use super::reason;
use crate::registry::Ctx;
use crate::support::json;

const USAGE: &str = "Usage: /approve <id> <decision> (see the pending approval message for \
    available decisions)";
const COMMANDS: &str = "exec.approval.resolve";
/// Guardrails ask as plugins do, and the ids of these questions say so.
const PLUGINS: (&str, &str) = ("plugin:", "plugin.approval.resolve");

/// Does it, by the method and with the sender's right to it.
pub async fn run(words: &str, cx: &Ctx) -> String {
    if !cx.services.registry.has(COMMANDS) {
        return "⚠️ /approve: this gateway has nothing that needs an approval.".to_owned();
    }
    let words: Vec<_> = words.split_whitespace().collect();
    let [one, other] = words[..] else { return USAGE.to_owned() };
    let decided = decision(other).map(|decision| (one, decision));
    // The original takes them in either order.
    let decided = decided.or_else(|| decision(one).map(|decision| (other, decision)));
    let Some((id, decision)) = decided else { return USAGE.to_owned() };
    let (prefix, of_plugins) = PLUGINS;
    let method = if id.starts_with(prefix) { of_plugins } else { COMMANDS };
    match cx.call(method, &json!({"id": id, "decision": decision})).await {
        Ok(_) => format!("✅ Approval {decision} submitted for {id}."),
        Err(error) => format!("❌ Failed to submit approval: {}", reason(cx, &error)),
    }
}

fn decision(word: &str) -> Option<&'static str> {
    Some(match word.to_lowercase().as_str() {
        "allow" | "once" | "allow-once" | "allowonce" => "allow-once",
        "always" | "allow-always" | "allowalways" => "allow-always",
        "deny" | "reject" | "block" => "deny",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_have_short_forms_and_nothing_else_is_one() {
        for (word, meant) in [("once", "allow-once"), ("ALWAYS", "allow-always"), ("block", "deny")]
        {
            assert_eq!(decision(word), Some(meant));
        }
        for word in ["", "yes", "allow-", "maybe"] {
            assert_eq!(decision(word), None, "{word}");
        }
    }
}
