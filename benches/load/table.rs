//! The results as markdown and JSON.

use std::fmt::Write as _;
use std::fs;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::metric::{Budget, METRICS, Metric};
use super::options::Options;
use super::stats::{Samples, Side};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/benchmarks.md");
const BEGIN: &str = "<!-- results: cargo bench --bench load -- --write -->\n";
const END: &str = "<!-- end of results -->";

/// Machine and table.
pub fn render(samples: &Samples, machine: &str, options: &Options) -> String {
    let mut text = format!(
        "Machine: {machine}.\nMedians of {} round{}; transcript of {} MiB.\n\n",
        options.rounds(),
        if options.rounds() == 1 { "" } else { "s" },
        options.transcript,
    );
    text.push_str("| what | | gateway | bare server | ratio | budget | |\n");
    text.push_str("|---|---|--:|--:|--:|---|---|\n");
    for metric in METRICS {
        let Some(gateway) = samples.median(metric.id, Side::Gateway) else { continue };
        let bare = samples.median(metric.id, Side::Bare);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            metric.title,
            metric.unit,
            number(gateway),
            bare.map_or_else(|| "–".into(), number),
            bare.map_or_else(|| "–".into(), |bare| format!("{:.2}", gateway / bare)),
            budget(metric),
            verdict(metric.budget, gateway, bare),
        );
    }
    text
}

/// The same with the numbers of every round.
pub fn json(samples: &Samples, machine: &str) -> Value {
    let side = |metric: &Metric, side| json!({"median": samples.median(metric.id, side), "all": samples.all(metric.id, side)});
    let rows: serde_json::Map<_, _> = METRICS
        .iter()
        .filter(|metric| samples.median(metric.id, Side::Gateway).is_some())
        .map(|metric| {
            let row = json!({"unit": metric.unit, "gateway": side(metric, Side::Gateway), "bare": side(metric, Side::Bare), "course": samples.course(metric.id)});
            (metric.id.to_owned(), row)
        })
        .collect();
    json!({"machine": machine, "rows": rows})
}

/// Puts the table where the document has its results.
pub fn replace_in_docs(table: &str) -> anyhow::Result<()> {
    let text = fs::read_to_string(DOCS).with_context(|| format!("cannot read {DOCS}"))?;
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("no {BEGIN} in {DOCS}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("no {END} in {DOCS}"))?;
    fs::write(DOCS, format!("{before}{BEGIN}\n{table}\n{END}{after}"))
        .with_context(|| format!("cannot write {DOCS}"))
}

fn budget(metric: &Metric) -> String {
    match metric.budget {
        Budget::None => "–".into(),
        Budget::AtMost(most) => format!("≤ {}", plain(most)),
        Budget::AtLeast(least) => format!("≥ {}", plain(least)),
        Budget::OfBare(share) => format!("≥ {share} × bare"),
    }
}

fn verdict(budget: Budget, gateway: f64, bare: Option<f64>) -> &'static str {
    let is_met = match budget {
        Budget::None => return "",
        Budget::AtMost(most) => gateway <= most,
        Budget::AtLeast(least) => gateway >= least,
        Budget::OfBare(share) => bare.is_some_and(|bare| gateway >= share * bare),
    };
    if is_met { "met" } else { "**missed**" }
}

/// Without decimals that mean nothing.
fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1000.0 => grouped(value),
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn plain(value: f64) -> String {
    if value >= 1000.0 { grouped(value) } else { value.to_string() }
}

fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
