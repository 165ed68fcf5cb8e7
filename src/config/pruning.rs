//! `agents.defaults.contextPruning`: what the model no longer reads of old
//! results of tools.

use std::path::Path;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::maintenance::{MINUTES, duration_or_zero};
use super::schema::Node;
use super::tools::{self, ToolRules};

/// Nothing is taken away sooner than a provider forgets what it has cached.
const DEFAULT_TTL_MS: u64 = 5 * 60 * 1000;
/// As in the original.
const DEFAULT_KEEP_ANSWERS: usize = 3;
/// As in the original.
const DEFAULT_SOFT: usize = 300;
/// As in the original.
const DEFAULT_HARD: usize = 500;
/// As in the original.
const DEFAULT_MIN_CHARS: usize = 50_000;
/// As in the original.
const DEFAULT_SOFT_MAX: usize = 4_000;
/// As in the original.
const DEFAULT_SOFT_END: usize = 1_500;
const DEFAULT_PLACEHOLDER: &str = "[Old tool result content cleared]";
/// Far more than any model reads.
const CHARS_MAX: u64 = 100_000_000;

/// When and how much of old results of tools goes from what the model reads.
/// Transcripts keep them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruningSettings {
    /// Results go when the model was not asked for so long, in milliseconds.
    pub ttl_ms: u64,
    /// Results after this many of the last answers stay whole.
    pub keep_answers: usize,
    /// Results are shortened from this part of the context on, in thousandths.
    pub soft_permille: usize,
    /// Results go from this part on.
    pub hard_permille: usize,
    /// Less than so many characters of results are not worth it.
    pub min_chars: usize,
    /// Longer results are shortened.
    pub soft_max: usize,
    /// What stays of their begin.
    pub head: usize,
    /// What stays of their end.
    pub tail: usize,
    /// What is said in the place of results that go; `None` when none go.
    pub placeholder: Option<String>,
    /// Of which tools.
    pub tools: ToolRules,
}

pub(super) fn read(
    node: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<Option<PruningSettings>, ConfigError> {
    let is_on = |word: &str| match word {
        "off" => Some(false),
        "cache-ttl" => Some(true),
        _ => None,
    };
    let mode = node.member("mode")?.word("off, cache-ttl", is_on)?;
    let shown = mode.map(|is_on| if is_on { "cache-ttl" } else { "off" });
    ledger.settle("agents.defaults.contextPruning.mode", Choice::file(file, shown), "off");
    let chars = |node: &Node<'_>| node.bounded::<usize>(0, CHARS_MAX);
    let (soft, hard) = (node.member("softTrim")?, node.member("hardClear")?);
    let clears = hard.member("enabled")?.boolean()?.unwrap_or(true);
    let placeholder = hard.member("placeholder")?.text()?;
    // As in the original: what is no time counts as nothing, and without a time nothing goes.
    let ttl = node.member("ttl")?.quantity(MINUTES, |text| Some(duration_or_zero(text)))?;
    let settings = PruningSettings {
        ttl_ms: ttl.flatten().unwrap_or(DEFAULT_TTL_MS),
        keep_answers: chars(&node.member("keepLastAssistants")?)?.unwrap_or(DEFAULT_KEEP_ANSWERS),
        soft_permille: permille(&node.member("softTrimRatio")?)?.unwrap_or(DEFAULT_SOFT),
        hard_permille: permille(&node.member("hardClearRatio")?)?.unwrap_or(DEFAULT_HARD),
        min_chars: chars(&node.member("minPrunableToolChars")?)?.unwrap_or(DEFAULT_MIN_CHARS),
        soft_max: chars(&soft.member("maxChars")?)?.unwrap_or(DEFAULT_SOFT_MAX),
        head: chars(&soft.member("headChars")?)?.unwrap_or(DEFAULT_SOFT_END),
        tail: chars(&soft.member("tailChars")?)?.unwrap_or(DEFAULT_SOFT_END),
        placeholder: clears.then(|| placeholder.unwrap_or_else(|| DEFAULT_PLACEHOLDER.into())),
        tools: tools::rules(&node.member("tools")?)?,
    };
    Ok(mode.unwrap_or_default().then_some(settings).filter(|settings| settings.ttl_ms > 0))
}

fn permille(node: &Node<'_>) -> Result<Option<usize>, ConfigError> {
    let Some(value) = node.value() else { return Ok(None) };
    let ratio = value.as_f64().filter(|ratio| (0.0..=1.0).contains(ratio));
    // The first thousandth that is not below it.
    let above = |ratio: f64| (0..=1000_u16).find(|it| f64::from(*it) / 1000.0 >= ratio);
    let permille = ratio.and_then(above).map(usize::from);
    permille.map(Some).ok_or_else(|| node.wrong("must be a number between 0 and 1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    use crate::support::json;

    fn load(pruning: &Value) -> Result<Option<PruningSettings>, String> {
        let file = Path::new("x.json");
        read(&Node::root(pruning, file), file, &mut Ledger::default())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn it_is_off_unless_somebody_says_so_and_has_the_defaults_of_the_original() {
        assert_eq!(load(&json!({})), Ok(None));
        assert_eq!(load(&json!({"mode": "off", "ttl": "1h"})), Ok(None));
        let settings = load(&json!({"mode": "cache-ttl"})).unwrap().unwrap();
        assert_eq!((settings.ttl_ms, settings.keep_answers), (300_000, 3));
        assert_eq!(settings.placeholder.as_deref(), Some(DEFAULT_PLACEHOLDER));
        let settings =
            load(&json!({"mode": "cache-ttl", "ttl": "2", "hardClear": {"enabled": false},
            "softTrimRatio": 0, "tools": {"deny": ["read"]}}));
        let settings = settings.unwrap().unwrap();
        assert_eq!((settings.ttl_ms, settings.placeholder.as_deref()), (120_000, None));
        let odd =
            json!({"mode": "cache-ttl", "ttl": "soon", "softTrim": {"maxChars": 200_000_000}});
        let odd = load(&odd).unwrap().unwrap();
        assert_eq!((odd.ttl_ms, odd.soft_max), (300_000, 100_000_000));
        assert_eq!(load(&json!({"mode": "cache-ttl", "ttl": "0m"})), Ok(None));
    }

    #[test]
    fn a_wrong_value_is_an_error_that_names_it() {
        for (wrong, key) in [
            (json!({"mode": "on"}), "mode: must be one of off, cache-ttl"),
            (json!({"ttl": true}), "ttl: must be"),
            (json!({"hardClearRatio": 2}), "hardClearRatio: must be a number between 0 and 1"),
            (json!({"softTrim": {"headChars": -1}}), "softTrim.headChars"),
            (json!({"hardClear": {"enabled": 1}}), "hardClear.enabled"),
        ] {
            let error = load(&wrong).unwrap_err();
            assert!(error.contains(key), "{error} names {key}");
        }
    }
}
