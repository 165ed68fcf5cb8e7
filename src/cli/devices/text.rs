//! What people read about devices. Names come from the devices themselves: none is more
//! than a part of its line.

use serde_json::Value;

use super::super::format::table;
use super::super::screen::in_line;

/// More than that of a name tells nothing more.
const MAX_NAME: usize = 40;

/// A member that is text.
pub fn of(row: &Value, name: &str) -> String {
    row[name].as_str().unwrap_or_default().to_owned()
}

/// Both lists.
pub fn list(list: &Value) -> String {
    let rows = |name: &str| list[name].as_array().cloned().unwrap_or_default();
    let (pending, paired) = (rows("pending"), rows("paired"));
    let mut text = String::new();
    if !pending.is_empty() {
        text.push_str(&waiting(list));
        text.push('\n');
    }
    if paired.is_empty() {
        text.push_str("No device is paired.\n");
        return text;
    }
    let head = ["device", "name", "roles", "scopes", "tokens", "from"].map(str::to_owned);
    let rows = paired.iter().map(|row| {
        [
            of(row, "deviceId"),
            name(row),
            words(row, "roles"),
            words(row, "scopes"),
            tokens(row),
            place(row),
        ]
    });
    text.push_str(&table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()));
    text
}

/// What waits, and how to decide on it.
pub fn waiting(list: &Value) -> String {
    let pending = list["pending"].as_array().cloned().unwrap_or_default();
    let Some(newest) = pending.first() else { return "Nothing waits for approval.\n".to_owned() };
    let head = ["request", "device", "name", "asks for", "from", ""].map(str::to_owned);
    let rows = pending.iter().map(|row| {
        let again = if row["isRepair"] == true { "known before" } else { "new" };
        let wants = [words(row, "roles"), words(row, "scopes")].join(": ");
        [
            of(row, "requestId"),
            short(&of(row, "deviceId"), 12),
            name(row),
            wants,
            place(row),
            again.into(),
        ]
    });
    let mut text = String::from("These wait for approval:\n\n");
    text.push_str(&table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()));
    let newest = of(newest, "requestId");
    text.extend(["\nApprove one with: clawgate devices approve ", &newest, "\n"]);
    text
}

/// Who was let in, and with what.
pub fn approved(answer: &Value) -> String {
    let device = &answer["device"];
    let text = format!(
        "Approved {} ({}): {}",
        of(device, "deviceId"),
        name(device),
        [words(device, "roles"), words(device, "scopes")].join(": "),
    );
    in_line(&text) + "\n"
}

fn name(row: &Value) -> String {
    let given = of(row, "displayName");
    let name = if given.is_empty() { of(row, "clientId") } else { given };
    let platform = of(row, "platform");
    let name = short(&name, MAX_NAME);
    if platform.is_empty() { name } else { format!("{name}, {}", short(&platform, MAX_NAME)) }
}

fn words(row: &Value, member: &str) -> String {
    let words = row[member].as_array().into_iter().flatten().filter_map(Value::as_str);
    let plain: Vec<_> =
        words.map(|word| short(word.strip_prefix("operator.").unwrap_or(word), MAX_NAME)).collect();
    if plain.is_empty() { "-".to_owned() } else { plain.join(",") }
}

fn tokens(row: &Value) -> String {
    let tokens = row["tokens"].as_array().into_iter().flatten().map(|token| {
        let state = if token["revokedAtMs"].is_u64() { " (revoked)" } else { "" };
        format!("{}{state}", of(token, "role"))
    });
    tokens.collect::<Vec<_>>().join(",")
}

fn place(row: &Value) -> String {
    let ip = of(row, "remoteIp");
    if ip.is_empty() { "this machine".to_owned() } else { ip }
}

fn short(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::json;

    #[test]
    fn a_device_that_calls_itself_a_row_makes_none() {
        let device = json!({"requestId": "r1", "deviceId": "d1", "roles": ["operator"],
            "displayName": "Phone\nr2  d2  Mine", "platform": "x\u{202e}y"});
        let answer = json!({"pending": [device], "paired": [device], "device": device});
        for (text, lines) in [(waiting(&answer), 6), (list(&answer), 9), (approved(&answer), 1)] {
            assert_eq!(text.lines().count(), lines, "{text}");
            assert!(text.contains("Phone\\nr2") && text.contains("x\\u{202e}y"), "{text}");
        }
    }
}
