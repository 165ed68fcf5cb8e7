//! `sessions.usage*`, `usage.cost`.

use serde_json::Value;

use crate::protocol::decode::{
    Fields, Params, Text, any, boolean, integer_from, literal, non_empty, text,
};

/// Params of `sessions.usage`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SessionsUsageParams {
    /// Only this session, as the client wrote it.
    pub key: Option<String>,
    /// First day, `YYYY-MM-DD`.
    pub start_date: Option<String>,
    /// Last day, `YYYY-MM-DD`.
    pub end_date: Option<String>,
    /// Whose days: `utc`, `gateway` or `specific`.
    pub mode: Option<String>,
    /// The offset for `specific`, such as `UTC+2`.
    pub utc_offset: Option<String>,
    /// Most sessions.
    pub limit: Option<u64>,
    /// Adds what the system prompt is made of, where that is known.
    pub include_context_weight: bool,
}

impl Params for SessionsUsageParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            key: f.optional("key", non_empty()),
            start_date: f.optional("startDate", date()),
            end_date: f.optional("endDate", date()),
            mode: f.optional("mode", literal(&["utc", "gateway", "specific"])),
            utc_offset: f.optional("utcOffset", offset()),
            limit: f.optional("limit", integer_from(1)),
            include_context_weight: f
                .optional("includeContextWeight", boolean())
                .unwrap_or_default(),
        }
    }
}

const fn date() -> Text {
    text().pattern(r"^\d{4}-\d{2}-\d{2}$", is_date)
}

fn is_date(text: &str) -> bool {
    let is_part = |part: &str, length| part.len() == length && is_digits(part);
    let mut parts = text.split('-');
    let parts = [parts.next(), parts.next(), parts.next(), parts.next()];
    matches!(parts, [Some(year), Some(month), Some(day), None]
        if is_part(year, 4) && is_part(month, 2) && is_part(day, 2))
}

const fn offset() -> Text {
    text().pattern(r"^UTC[+-]\d{1,2}(?::[0-5]\d)?$", is_offset)
}

fn is_offset(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("UTC").and_then(|rest| rest.strip_prefix(['+', '-'])) else {
        return false;
    };
    let (hours, minutes) = rest.split_once(':').map_or((rest, None), |(h, m)| (h, Some(m)));
    let minutes_fit = minutes.is_none_or(|minutes| {
        minutes.len() == 2 && is_digits(minutes) && minutes.starts_with(|first| first < '6')
    });
    matches!(hours.len(), 1 | 2) && is_digits(hours) && minutes_fit
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Params of `usage.cost`, which the original reads without a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct UsageCostParams {
    /// First day, `YYYY-MM-DD`.
    pub start_date: Option<String>,
    /// Last day, `YYYY-MM-DD`.
    pub end_date: Option<String>,
    /// So many days up to today.
    pub days: Option<u64>,
    /// Whose days: `utc`, `gateway` or `specific`.
    pub mode: Option<String>,
    /// The offset for `specific`, such as `UTC+2`.
    pub utc_offset: Option<String>,
}

impl Params for UsageCostParams {
    fn read(f: &mut Fields) -> Self {
        let days = f.optional("days", any()).as_ref().and_then(number);
        let mut word = |name: &str| word(f, name);
        let read = Self {
            start_date: word("startDate"),
            end_date: word("endDate"),
            days,
            mode: word("mode"),
            utc_offset: word("utcOffset"),
        };
        f.ignore_rest();
        read
    }
}

/// Params of `sessions.usage.timeseries` and `sessions.usage.logs`, which the
/// original reads without a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionUsageParams {
    /// As the client wrote it.
    pub key: Option<String>,
    /// Most log lines.
    pub limit: Option<u64>,
}

impl Params for SessionUsageParams {
    fn read(f: &mut Fields) -> Self {
        let limit = f.optional("limit", any()).as_ref().and_then(number);
        let read = Self { key: word(f, "key"), limit };
        f.ignore_rest();
        read
    }
}

fn word(f: &mut Fields, name: &str) -> Option<String> {
    let value = f.optional(name, any())?;
    value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A whole number, also when it is written as a text or with a fraction.
fn number(value: &Value) -> Option<u64> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    text.split('.').next().and_then(|whole| whole.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::decode::{Unknown, decode_value};
    use crate::support::json;

    #[test]
    fn dates_and_offsets_have_the_form_of_the_schema() {
        let errors = |params: Value| {
            decode_value::<SessionsUsageParams>(params, Unknown::Refuse).err().unwrap_or_default()
        };
        for good in [json!({"startDate": "2026-01-01"}), json!({"utcOffset": "UTC-3:30"})] {
            assert_eq!(errors(good), Vec::<String>::new());
        }
        for bad in ["x", "2026-1-1", "2026-01-01T", "2026-01-01-01", "２０２６-01-01"] {
            assert_eq!(
                errors(json!({"startDate": bad})),
                [r#"at /startDate: must match pattern "^\d{4}-\d{2}-\d{2}$""#]
            );
        }
        for bad in ["UTC", "UTC+123", "UTC+1:60", "UTC+1:5", "GMT+1"] {
            assert_eq!(errors(json!({"utcOffset": bad})).len(), 1, "{bad}");
        }
    }

    #[test]
    fn days_may_be_written_as_a_text() {
        let days = |value: Value| {
            let params = json!({"days": value, "more": 1});
            decode_value::<UsageCostParams>(params, Unknown::Refuse).unwrap().days
        };
        assert_eq!(days(json!(2)), Some(2));
        assert_eq!(days(json!("7.9")), Some(7));
        assert_eq!((days(json!("soon")), days(json!(null)), days(json!(-1))), (None, None, None));
    }
}
