//! `session.maintenance`: what becomes of old sessions and transcripts.
//!
//! Promises: a bound that nobody wrote is none. The original prunes after 30
//! days and above 500 sessions; here nothing goes unless the user says so.

use std::fmt;
use std::path::Path;

use serde_json::Value;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::schema::Node;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

const DURATION: &str = "a duration such as 30d, 12h or 90m; a bare number counts days";
/// What [`duration_or_zero`] reads, for error texts.
pub(super) const MINUTES: &str = "a duration such as 5m or 1h; a bare number counts minutes";
/// What [`hours_or_zero`] reads, for error texts.
pub(super) const HOURS: &str = "a duration such as 90m or 2d; a bare number counts hours";
const SIZE: &str = "a size such as 500mb or 2gb; a bare number counts bytes";

/// Whether anything is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaintenanceMode {
    /// It is only told what would be done.
    Warn,
    /// It is done.
    Enforce,
}

impl MaintenanceMode {
    /// The name in the config file and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Enforce => "enforce",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Warn, Self::Enforce].into_iter().find(|mode| mode.as_str() == text)
    }
}

impl fmt::Display for MaintenanceMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What becomes of old sessions and transcripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceSettings {
    /// Whether anything is done.
    pub mode: MaintenanceMode,
    /// A session that did not change for so many milliseconds goes; never when
    /// absent.
    pub prune_after_ms: Option<u64>,
    /// Most sessions of an agent; any number when absent.
    pub max_entries: Option<u64>,
    /// Transcripts that were put away go after so many milliseconds; never when
    /// absent.
    pub archive_retention_ms: Option<u64>,
    /// Most bytes in an agent's sessions folder, and how many may be left when
    /// there were more.
    pub disk_budget: Option<DiskBudget>,
}

/// A bound on the bytes in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskBudget {
    /// Above this, something goes.
    pub max_bytes: u64,
    /// Until there is no more than this.
    pub high_water_bytes: u64,
}

/// A number of milliseconds, shown as people write it.
struct Shown(u64);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 0 && self.0.is_multiple_of(DAY_MS) {
            write!(f, "{}d", self.0 / DAY_MS)
        } else {
            write!(f, "{}ms", self.0)
        }
    }
}

/// Reads `session.maintenance`. `rotateBytes` is of no use here: there is no
/// file to rotate.
pub(super) fn read(
    node: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<MaintenanceSettings, ConfigError> {
    let key = |name: &str| format!("session.maintenance.{name}");
    let mode = node.member("mode")?.word("warn, enforce", MaintenanceMode::parse)?;
    let after = node.member("pruneAfter")?.quantity(DURATION, duration)?;
    let days = node.member("pruneDays")?.bounded::<u64>(1, 36_500)?;
    let after = after.or(days.map(|days| days * DAY_MS)).filter(|after| *after > 0);
    let entries = node.member("maxEntries")?.count()?;
    // The original does not read it either.
    node.member("rotateBytes")?.quantity(SIZE, |_| Some(()))?;
    let after = after.map(Shown);
    let prune_after = ledger.settle_optional(&key("pruneAfter"), Choice::file(file, after));
    let retention = unless_false(&node.member("resetArchiveRetention")?, DURATION, duration)?;
    let retention = retention.filter(|retention| *retention > 0).map(Shown);
    let kept = ledger.settle_optional(&key("resetArchiveRetention"), Choice::file(file, retention));
    let max_bytes = unless_false(&node.member("maxDiskBytes")?, SIZE, size)?;
    let max_bytes = max_bytes.filter(|bytes| *bytes > 0);
    let max_bytes = ledger.settle_optional(&key("maxDiskBytes"), Choice::file(file, max_bytes));
    let high = node.member("highWaterBytes")?.quantity(SIZE, size)?.filter(|bytes| *bytes > 0);
    let high = ledger.settle_optional(&key("highWaterBytes"), Choice::file(file, high));
    let budget = |max_bytes: u64| DiskBudget {
        max_bytes,
        // Four fifths, as in the original.
        high_water_bytes: high.unwrap_or(max_bytes - max_bytes.div_ceil(5)).min(max_bytes),
    };
    Ok(MaintenanceSettings {
        mode: ledger.settle(&key("mode"), Choice::file(file, mode), MaintenanceMode::Enforce),
        prune_after_ms: prune_after.map(|Shown(millis)| millis),
        max_entries: ledger.settle_optional(&key("maxEntries"), Choice::file(file, entries)),
        archive_retention_ms: kept.map(|Shown(millis)| millis),
        disk_budget: max_bytes.map(budget),
    })
}

/// A quantity; `false` is as good as none.
fn unless_false(
    node: &Node<'_>,
    allowed: &str,
    parse: fn(&str) -> Option<u64>,
) -> Result<Option<u64>, ConfigError> {
    if node.value() == Some(&Value::Bool(false)) {
        return Ok(None);
    }
    node.quantity(&format!("false, or {allowed}"), parse)
}

/// Milliseconds.
fn duration(text: &str) -> Option<u64> {
    time(text, DAY_MS)
}

/// The same where a bare number counts hours.
pub(super) fn hours_or_zero(text: &str) -> Option<u64> {
    time(text, 3_600_000)
}

/// Milliseconds of a time such as `500ms`, `90s`, `30m`, `1.5h`, `1h30m` or `2d`; a bare number
/// counts minutes.
pub fn duration_or_zero(text: &str) -> Option<u64> {
    time(text, 60_000)
}

/// One time, or several that follow one another, each with its unit.
fn time(text: &str, bare: u64) -> Option<u64> {
    if let Some(millis) = amount(text, &TIMES, bare) {
        return Some(millis);
    }
    let is_letter = |it: char| it.is_ascii_alphabetic();
    let mut parts = text.split_inclusive(is_letter).take_while(|_| text.ends_with(is_letter));
    let first = amount(parts.next()?, &TIMES, 0)?;
    parts.try_fold(first, |sum, part| sum.checked_add(amount(part, &TIMES, 0)?))
}

const TIMES: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", DAY_MS)];

/// Bytes.
fn size(text: &str) -> Option<u64> {
    let units = [
        ("kb", 1 << 10),
        ("mb", 1 << 20),
        ("gb", 1 << 30),
        ("tb", 1 << 40),
        ("k", 1 << 10),
        ("m", 1 << 20),
        ("g", 1 << 30),
        ("t", 1 << 40),
        ("b", 1),
    ];
    amount(text, &units, 1)
}

/// A number, with a fraction or without, times its unit.
fn amount(text: &str, units: &[(&str, u64)], bare: u64) -> Option<u64> {
    let with_unit = |(name, unit): &(&str, u64)| Some((text.strip_suffix(name)?, *unit));
    let (number, unit) = units.iter().find_map(with_unit).unwrap_or((text, bare));
    let (whole, fraction) = number.trim().split_once('.').unwrap_or((number.trim(), "0"));
    let whole: u64 = whole.parse().ok()?;
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let place = |part: u64, digit: u8| (part + unit * u64::from(digit - b'0')) / 10;
    let part = fraction.bytes().rev().fold(0, place);
    whole.checked_mul(unit)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    fn settings(text: &Value) -> Result<MaintenanceSettings, ConfigError> {
        read(&Node::root(text, Path::new("/c")), Path::new("/c"), &mut Ledger::default())
    }

    #[test]
    fn durations_and_sizes_are_read_as_the_original_reads_them() {
        for (text, millis) in [
            ("30d", Some(30 * DAY_MS)),
            ("7", Some(7 * DAY_MS)),
            ("1.5h", Some(5_400_000)),
            ("1.25h", Some(4_500_000)),
            ("250ms", Some(250)),
            ("1d12h", Some(36 * 3_600_000)),
            ("1h30m", Some(5_400_000)),
            ("1h30", None),
            ("hm", None),
            ("0d", Some(0)),
            ("-1d", None),
            ("soon", None),
            ("1.xh", None),
            ("1.h", None),
            ("", None),
        ] {
            assert_eq!(duration(text), millis, "{text}");
        }
        for (text, bytes) in [
            ("500mb", Some(500 << 20)),
            ("2g", Some(2 << 30)),
            ("77", Some(77)),
            ("1 kb", Some(1024)),
            ("99999999999999tb", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
    }

    #[test]
    fn nothing_is_bounded_by_default_and_each_key_changes_one() {
        let default = settings(&json!({})).unwrap();
        assert_eq!(
            default,
            MaintenanceSettings {
                mode: MaintenanceMode::Enforce,
                prune_after_ms: None,
                max_entries: None,
                archive_retention_ms: None,
                disk_budget: None,
            }
        );
        let read = |text: Value| settings(&text).unwrap();
        let days = read(json!({"pruneDays": 3, "maxEntries": 7}));
        assert_eq!((days.prune_after_ms, days.max_entries), (Some(3 * DAY_MS), Some(7)));
        assert_eq!(days.archive_retention_ms, None, "to put away is not to delete");
        let both = read(json!({"pruneDays": 3, "pruneAfter": "2d", "resetArchiveRetention": "1d"}));
        let found = (both.prune_after_ms, both.archive_retention_ms);
        assert_eq!(found, (Some(2 * DAY_MS), Some(DAY_MS)));
        assert_eq!(read(json!({"resetArchiveRetention": false})).archive_retention_ms, None);
        // OpenClaw takes it; who writes it does not mean that everything goes.
        assert_eq!(read(json!({"pruneAfter": "0", "resetArchiveRetention": 0})), default);
        assert_eq!(read(json!({"rotateBytes": "sometimes"})), default);
        let budget = |text| read(text).disk_budget.map(|it| (it.max_bytes, it.high_water_bytes));
        assert_eq!(budget(json!({"maxDiskBytes": 1000})), Some((1000, 800)));
        assert_eq!(
            budget(json!({"maxDiskBytes": "1kb", "highWaterBytes": "2kb"})),
            Some((1024, 1024))
        );
        assert_eq!(budget(json!({"maxDiskBytes": false})), None);
        assert_eq!(budget(json!({"maxDiskBytes": 0, "rotateBytes": "10mb"})), None);
    }

    #[test]
    fn a_wrong_value_is_told_with_its_key() {
        for (text, key) in [
            (json!({"mode": "off"}), "mode"),
            (json!({"pruneAfter": "soon"}), "pruneAfter"),
            (json!({"resetArchiveRetention": true}), "resetArchiveRetention"),
            (json!({"maxDiskBytes": "much"}), "maxDiskBytes"),
            (json!({"maxEntries": 0}), "maxEntries"),
        ] {
            let error = settings(&text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{key}: must be")), "{error}");
        }
    }
}
