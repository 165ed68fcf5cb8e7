//! `session.maintenance`: what becomes of old sessions and transcripts.

use std::fmt;
use std::path::Path;

use serde_json::Value;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::schema::Node;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// The original's bounds.
const DEFAULT_PRUNE_AFTER_MS: u64 = 30 * DAY_MS;
const DEFAULT_MAX_ENTRIES: u64 = 500;

const DURATION: &str = "a duration such as 30d, 12h or 90m; a bare number counts days";
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
    /// A session that did not change for so many milliseconds goes.
    pub prune_after_ms: u64,
    /// Most sessions of an agent.
    pub max_entries: u64,
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
    let days = node.member("pruneDays")?.integer::<u64>(36_500)?;
    let after = after.or(days.map(|days| days * DAY_MS));
    let entries = node.member("maxEntries")?.count()?;
    let prune_after = ledger.settle(
        &key("pruneAfter"),
        Choice::file(file, after.map(Shown)),
        Shown(DEFAULT_PRUNE_AFTER_MS),
    );
    let retention = retention(&node.member("resetArchiveRetention")?)?;
    let kept = ledger.settle(
        &key("resetArchiveRetention"),
        Choice::file(file, retention),
        Retention(Some(prune_after.0)),
    );
    let max = node.member("maxDiskBytes")?;
    let max_bytes = if max.value() == Some(&Value::Bool(false)) {
        None
    } else {
        max.quantity(SIZE, size)?.filter(|bytes| *bytes > 0)
    };
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
        prune_after_ms: prune_after.0,
        max_entries: ledger.settle(
            &key("maxEntries"),
            Choice::file(file, entries),
            DEFAULT_MAX_ENTRIES,
        ),
        archive_retention_ms: kept.0,
        disk_budget: max_bytes.map(budget),
    })
}

/// How long archives stay; for ever when there is no number.
struct Retention(Option<u64>);

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(millis) => Shown(millis).fmt(f),
            None => f.write_str("false"),
        }
    }
}

fn retention(node: &Node<'_>) -> Result<Option<Retention>, ConfigError> {
    if node.value() == Some(&Value::Bool(false)) {
        return Ok(Some(Retention(None)));
    }
    let allowed = format!("false, or {DURATION}");
    Ok(node.quantity(&allowed, duration)?.map(|millis| Retention(Some(millis))))
}

/// Milliseconds; above zero.
fn duration(text: &str) -> Option<u64> {
    let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", DAY_MS)];
    amount(text, &units, DAY_MS).filter(|millis| *millis > 0)
}

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
    let (whole, tenths): (u64, u64) = (whole.parse().ok()?, fraction.get(..1)?.parse().ok()?);
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    whole.checked_mul(unit)?.checked_add(unit / 10 * tenths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(text: &Value) -> Result<MaintenanceSettings, ConfigError> {
        read(&Node::root(text, Path::new("/c")), Path::new("/c"), &mut Ledger::default())
    }

    #[test]
    fn durations_and_sizes_are_read_as_the_original_reads_them() {
        for (text, millis) in [
            ("30d", Some(30 * DAY_MS)),
            ("7", Some(7 * DAY_MS)),
            ("1.5h", Some(5_400_000)),
            ("250ms", Some(250)),
            ("0d", None),
            ("-1d", None),
            ("soon", None),
            ("1.xh", None),
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
    fn the_defaults_are_the_originals_and_each_key_changes_one() {
        let default = settings(&json!({})).unwrap();
        assert_eq!(
            default,
            MaintenanceSettings {
                mode: MaintenanceMode::Enforce,
                prune_after_ms: 30 * DAY_MS,
                max_entries: 500,
                archive_retention_ms: Some(30 * DAY_MS),
                disk_budget: None,
            }
        );
        let read = |text: Value| settings(&text).unwrap();
        assert_eq!(read(json!({"pruneDays": 3})).archive_retention_ms, Some(3 * DAY_MS));
        let both =
            read(json!({"pruneDays": 3, "pruneAfter": "2d", "resetArchiveRetention": false}));
        assert_eq!((both.prune_after_ms, both.archive_retention_ms), (2 * DAY_MS, None));
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
