//! What was measured, and what was measured before: the docs show both.
//!
//! A run replaces the rows that it measures and leaves the others, which is right
//! only on one machine and beside one original; so both are kept with the numbers.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::machine;
use super::metric::METRICS;
use super::options::Options;
use super::original;
use super::pictures;
use super::stats::{Samples, Side};
use super::table;

const NUMBERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/benchmarks.json");
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/benchmarks.md");
const BEGIN: &str = "<!-- results: cargo bench --bench load -- --write -->\n";
const END: &str = "<!-- end of results -->";

/// Numbers, and where they are from.
pub struct Report {
    /// The numbers.
    pub samples: Samples,
    /// Where they were measured.
    pub machine: String,
    /// Size of the large transcript, in MiB.
    pub transcript: u32,
    /// Which original it is compared with, where that was there.
    pub original: Option<String>,
    is_everything: bool,
    leaves_original: bool,
}

impl Report {
    /// Of this run.
    pub fn new(samples: Samples, options: &Options) -> anyhow::Result<Self> {
        let is_everything = options.rows.is_empty();
        let (machine, transcript) = (machine::describe()?, options.transcript);
        let leaves_original = options.no_original;
        let has_original =
            METRICS.iter().any(|metric| samples.median(metric.id, Side::Original).is_some());
        let original = has_original.then(original::describe);
        Ok(Self { samples, machine, transcript, original, is_everything, leaves_original })
    }

    /// Writes the numbers of every round.
    pub fn write_json(&self, path: &Path) -> anyhow::Result<()> {
        let rows = self.samples.to_json();
        let all = json!({
            "machine": self.machine,
            "transcript": self.transcript,
            "original": self.original,
            "rows": rows,
        });
        fs::write(path, serde_json::to_string_pretty(&all)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Puts it into the numbers, the table and the pictures of the docs.
    pub fn write_docs(self) -> anyhow::Result<()> {
        let whole = self.after_the_last()?;
        whole.write_json(Path::new(NUMBERS))?;
        let pictures = pictures::write(&whole.samples)?;
        replace_in_docs(&format!("{}\n{pictures}", table::render(&whole)))
    }

    /// With what the last run has and this one was not to measure. What a whole
    /// run could not measure is not replaced by what another run did.
    fn after_the_last(self) -> anyhow::Result<Self> {
        let Ok(text) = fs::read_to_string(NUMBERS) else { return Ok(self) };
        let last: Value = serde_json::from_str(&text).context(NUMBERS)?;
        let (machine, transcript) = (&last["machine"], &last["transcript"]);
        let keeps_original = !self.is_everything || self.leaves_original;
        let last_original = last["original"].as_str().filter(|_| keeps_original);
        let original = self.original.clone().or_else(|| last_original.map(str::to_owned));
        let is_of_here = *machine == self.machine
            && *transcript == self.transcript
            && (last_original.is_none() || original.as_deref() == last_original);
        if self.is_everything && !is_of_here {
            return Ok(self);
        }
        ensure!(
            is_of_here,
            "the numbers in {NUMBERS} are from {machine}, with a transcript of {transcript} MiB and \
             {}; measure everything here, without --rows",
            last_original.unwrap_or("no original"),
        );
        let mut samples = Samples::from_json(&last["rows"]);
        if self.is_everything {
            samples.keep(|metric, side| {
                is_only_named(metric) || (keeps_original && side == Side::Original)
            });
        }
        samples.replace_by(self.samples);
        Ok(Self { samples, original, ..self })
    }
}

/// Whether a line is of a row that is measured only when it is named: `soak`.
fn is_only_named(metric: &str) -> bool {
    metric.starts_with("soak-")
}

/// Puts table and pictures where the document has its results.
fn replace_in_docs(results: &str) -> anyhow::Result<()> {
    let text = fs::read_to_string(DOCS).with_context(|| format!("cannot read {DOCS}"))?;
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("no {BEGIN} in {DOCS}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("no {END} in {DOCS}"))?;
    fs::write(DOCS, format!("{before}{BEGIN}\n{results}\n{END}{after}"))
        .with_context(|| format!("cannot write {DOCS}"))
}
