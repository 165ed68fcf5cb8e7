//! The text that scrapers read: that of Prometheus, version 0.0.4, and `OpenMetrics` 1.0.

use std::fmt::{Display, Write as _};

use super::families::{Family, Kind};
use super::histogram::Counts;

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The text format of Prometheus.
    Prometheus,
    /// The same, as it was made a standard.
    OpenMetrics,
}

impl Form {
    /// What an `Accept` asks for.
    pub fn asked(accept: Option<&str>) -> Self {
        let wants = |accept: &str| accept.contains("application/openmetrics-text");
        if accept.is_some_and(wants) { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// Its `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A page that is being written. Numbers of one family are written one after the
/// other.
#[derive(Debug)]
pub struct Page {
    form: Form,
    text: String,
    family: &'static str,
}

impl Page {
    /// An empty one.
    pub const fn new(form: Form) -> Self {
        Self { form, text: String::new(), family: "" }
    }

    /// One number of a family, with the values of its labels.
    pub fn number(&mut self, family: &Family, values: &[&str], number: impl Display) {
        self.begin(family);
        self.line(family.name, "", family.labels, values, None, number);
    }

    /// The durations of a family, with the values of its labels.
    pub fn times(&mut self, family: &Family, values: &[&str], counts: &Counts) {
        let Kind::Times { from, to } = family.kind else { return };
        self.begin(family);
        for (doubling, count) in counts.below(from..=to) {
            let end = seconds(1 << doubling);
            self.line(family.name, "_bucket", family.labels, values, Some(&end), count);
        }
        let total = counts.total();
        self.line(family.name, "_bucket", family.labels, values, Some("+Inf"), total);
        let sum = seconds(counts.sum_us);
        self.line(family.name, "_sum", family.labels, values, None, sum);
        self.line(family.name, "_count", family.labels, values, None, total);
    }

    /// The text.
    pub fn finish(mut self) -> String {
        if self.form == Form::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn begin(&mut self, family: &Family) {
        if self.family == family.name {
            return;
        }
        self.family = family.name;
        let name = match self.form {
            Form::Prometheus => family.name,
            Form::OpenMetrics => family.name.trim_end_matches("_total"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {name} {}", family.help);
        let _ = writeln!(self.text, "# TYPE {name} {}", family.kind.as_str());
    }

    fn line(
        &mut self,
        name: &str,
        suffix: &str,
        labels: &[&str],
        values: &[&str],
        end: Option<&str>,
        number: impl Display,
    ) {
        let text = &mut self.text;
        let _ = write!(text, "{name}{suffix}");
        let pairs = labels.iter().zip(values).map(|(label, value)| (*label, *value));
        let mut before = '{';
        for (label, value) in pairs.chain(end.map(|end| ("le", end))) {
            let _ = write!(text, "{before}{label}=\"");
            for c in value.chars() {
                match c {
                    '\\' | '"' => text.extend(['\\', c]),
                    '\n' => text.push_str("\\n"),
                    c => text.push(c),
                }
            }
            text.push('"');
            before = ',';
        }
        if before == ',' {
            text.push('}');
        }
        let _ = writeln!(text, " {number}");
    }
}

/// Microseconds as seconds, exactly.
fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::Histogram;
    use crate::telemetry::metrics::families::ALL;
    use std::collections::BTreeSet;
    use std::time::Duration;

    #[test]
    fn a_page_has_its_lines_in_either_form() {
        let times = Kind::Times { from: 10, to: 11 };
        let family = |name, kind, labels| Family { name, kind, labels, help: "Some." };
        let took = Histogram::new();
        for us in [1, 1024, 2047, 3_000_000] {
            took.note(Duration::from_micros(us));
        }
        let write = |form| {
            let mut page = Page::new(form);
            let counter = family("a_total", Kind::Counter, &["x", "y"]);
            page.number(&counter, &["1", "say \"\\n\"\n"], 7);
            page.number(&counter, &["2", ""], 8);
            page.times(&family("b_seconds", times, &[]), &[], &Counts::of(&took));
            page.finish()
        };
        let rest = "a_total{x=\"1\",y=\"say \\\"\\\\n\\\"\\n\"} 7\na_total{x=\"2\",y=\"\"} 8\n\
            # HELP b_seconds Some.\n# TYPE b_seconds histogram\n\
            b_seconds_bucket{le=\"0.001024\"} 1\nb_seconds_bucket{le=\"0.002048\"} 3\n\
            b_seconds_bucket{le=\"+Inf\"} 4\nb_seconds_sum 3.003072\nb_seconds_count 4\n";
        let head = "# HELP a_total Some.\n# TYPE a_total counter\n";
        assert_eq!(write(Form::Prometheus), format!("{head}{rest}"));
        let head = "# HELP a Some.\n# TYPE a counter\n";
        assert_eq!(write(Form::OpenMetrics), format!("{head}{rest}# EOF\n"));
    }

    #[test]
    fn names_say_what_they_are() {
        let names: BTreeSet<_> = ALL.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), ALL.len());
        for family in ALL {
            assert!(family.name.starts_with("clawgate_"), "{}", family.name);
            let is_counter = family.kind == Kind::Counter;
            assert_eq!(family.name.ends_with("_total"), is_counter, "{}", family.name);
            let is_times = matches!(family.kind, Kind::Times { .. });
            assert!(!is_times || family.name.ends_with("_seconds"), "{}", family.name);
            assert!(!family.help.contains(['\\', '\n']) && family.help.ends_with('.'));
        }
    }
}
