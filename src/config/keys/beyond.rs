//! Numbers of a config that count as others.

use serde_json::Value;

use super::find::Found;
use super::{Kind, find};
use crate::config::edit::{Step, ValuePath};

/// The numbers beyond their bounds, and what they count as.
pub fn beyond(config: &Value) -> Vec<(ValuePath, String)> {
    let mut places = Vec::new();
    for (name, value) in config.as_object().into_iter().flatten() {
        let mut path = vec![Step::Key(name.clone())];
        if let Some(found) = find(&path) {
            collect(&found, &mut path, value, &mut places);
        }
    }
    places
}

fn collect(
    found: &Found,
    path: &mut Vec<Step>,
    value: &Value,
    places: &mut Vec<(ValuePath, String)>,
) {
    let mut below = |step: Step, value: &Value| {
        if let Some(child) = found.child(&step) {
            path.push(step);
            collect(&child, path, value, places);
            path.pop();
        }
    };
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| below(Step::Key(name.clone()), member));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| below(Step::Index(index), item));
        }
        Value::Number(number) => {
            let said = number.as_f64().and_then(|number| counted(&found.kind, number));
            places.extend(said.map(|said| (ValuePath::from(path.clone()), said)));
        }
        _ => {}
    }
}

/// What a number counts as there, when that is another one.
fn counted(kind: &Kind, number: f64) -> Option<String> {
    match kind {
        Kind::Within(_, least, _) if number < *least => {
            Some(format!("is less than {least}, and counts as {least}"))
        }
        Kind::Within(_, _, most) if number > *most => {
            Some(format!("is more than {most}, and counts as {most}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn what_counts_as_its_bound_is_told_with_that() {
        let told = |config: Value| -> Vec<String> {
            beyond(&config).iter().map(|(path, said)| format!("{path} {said}")).collect()
        };
        let config = json!({
            "tools": {"web": {
                "fetch": {"maxRedirects": 21, "maxResponseBytes": 1, "cacheTtlMinutes": -1},
                "search": {"maxResults": 10, "timeoutSeconds": 0, "cacheTtlMinutes": 1440.5}}},
            "diagnostics": {"otel": {"flushIntervalMs": 1}},
            "channels": {
                "webhook": {"accounts": {"a": {"replayWindowSeconds": 4000}}},
                "telegram": {"mediaMaxMb": 51}},
            "gateway": {"port": 0},
        });
        let expected = [
            "tools.web.fetch.maxRedirects is more than 20, and counts as 20",
            "tools.web.fetch.maxResponseBytes is less than 32000, and counts as 32000",
            "tools.web.fetch.cacheTtlMinutes is less than 0, and counts as 0",
            "tools.web.search.timeoutSeconds is less than 1, and counts as 1",
            "tools.web.search.cacheTtlMinutes is more than 1440, and counts as 1440",
            "diagnostics.otel.flushIntervalMs is less than 1000, and counts as 1000",
            "channels.webhook.accounts.a.replayWindowSeconds is more than 3600, and counts as 3600",
            "channels.telegram.mediaMaxMb is more than 50, and counts as 50",
        ];
        assert_eq!(told(config), expected);
        let usual = json!({"tools": {"web": {
            "fetch": {"maxRedirects": 0, "maxResponseBytes": 32000, "timeoutSeconds": 600},
            "search": {"maxResults": "10", "provider": null}}}});
        assert_eq!(told(usual), [""; 0]);
    }
}
