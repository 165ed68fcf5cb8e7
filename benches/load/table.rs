//! The results as markdown.

use std::fmt::Write as _;

use super::metric::{Budget, METRICS, Metric};
use super::report::Report;
use super::stats::Side;

/// Machine and table.
pub fn render(report: &Report) -> String {
    let samples = &report.samples;
    let rounds = |metric: &Metric, side| samples.all(metric.id, side).len();
    let most = METRICS.iter().map(|metric| rounds(metric, Side::Gateway)).max().unwrap_or_default();
    let mut text = format!("Machine: {}.\n", report.machine);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "Medians of {most} round{}, or of as many as a number in brackets says; large transcript \
         of {} MiB.",
        if most == 1 { "" } else { "s" },
        report.transcript,
    );
    let _ =
        writeln!(text, "Original: {}.\n", report.original.as_deref().unwrap_or("it was not there"));
    text.push_str("| what | | gateway | original | better by | bare server | ratio | budget | |\n");
    text.push_str("|---|---|--:|--:|--:|--:|--:|---|---|\n");
    for metric in METRICS {
        let Some(gateway) = samples.median(metric.id, Side::Gateway) else { continue };
        let original = samples.median(metric.id, Side::Original);
        let bare = samples.median(metric.id, Side::Bare);
        let cell = |side| {
            let Some(median) = samples.median(metric.id, side) else { return "–".to_owned() };
            match rounds(metric, side) {
                fewer if fewer < most => format!("{} [{fewer}]", number(median)),
                _ => number(median),
            }
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            metric.title,
            metric.unit,
            cell(Side::Gateway),
            cell(Side::Original),
            original.map_or_else(|| "–".into(), |original| better(metric, gateway, original)),
            cell(Side::Bare),
            bare.map_or_else(|| "–".into(), |bare| format!("{:.2}", gateway / bare)),
            budget(metric),
            verdict(metric.budget, gateway, bare),
        );
    }
    text
}

/// How many times as good as the original.
fn better(metric: &Metric, gateway: f64, original: f64) -> String {
    match metric.times_better(gateway, original) {
        Some(times) if times.is_finite() => format!("{} ×", number(times)),
        _ => "–".into(),
    }
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
pub fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1000.0 => grouped(value),
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// With the decimals that it has.
pub fn plain(value: f64) -> String {
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
