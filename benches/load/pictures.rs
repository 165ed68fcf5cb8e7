//! Which pictures the docs have.

use std::fs;

use anyhow::Context as _;

use super::stats::{Samples, Side};
use super::svg::{Group, bars, courses};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/images");
const LEGEND: [&str; 3] = ["gateway", "original", "bare server"];

/// A line of the table, and what it is called in a picture.
type Line = (&'static str, &'static str);

/// Bars of some lines of the table: name of the file, title, lines.
#[rustfmt::skip] // a table
const BARS: [(&str, &str, &[Line]); 4] = [
    ("bench-start", "Start and answers, ms", &[
        ("hello", "exec to first hello-ok"),
        ("hello-1000", "the same, 1 000 sessions"),
        ("send", "chat.send to the provider"),
        ("list-p50", "sessions.list of 5 000"),
        ("history-16", "chat.history of 16 MiB"),
        ("command", "the command health"),
    ]),
    ("bench-memory", "Memory per idle client, KiB", &[
        ("client-100", "100 clients"),
        ("client-1000", "1 000 clients"),
        ("client-10000", "10 000 clients"),
    ]),
    ("bench-throughput", "Requests and events in a second", &[
        ("health-1", "health, 1 connection"),
        ("health-50", "health, 50 connections"),
        ("light-50", "last-heartbeat, 50 connections"),
        ("fanout-100", "events to 100 clients"),
        ("fanout-1000", "events to 1 000 clients"),
        ("appends", "durable appends"),
    ]),
    ("bench-latency", "Delivery of 20 events a second to 1 000 clients, ms", &[
        ("latency-p50", "p50"),
        ("latency-p99", "p99"),
        ("latency-max", "slowest"),
        ("stalled-p50", "p50 beside 50 who stall"),
        ("stalled-p99", "p99 beside 50 who stall"),
        ("stalled-max", "slowest beside 50 who stall"),
    ]),
];

/// Name of the file, title, axes, ids and their names.
type Course = (&'static str, &'static str, Line, &'static [&'static str], &'static [&'static str]);

/// What goes on over time.
const COURSES: [Course; 1] = [(
    "bench-soak",
    "Memory while users come, talk and go",
    ("minutes", "MiB"),
    &["soak-memory", "soak-own"],
    &["memory", "of that its own"],
)];

/// Draws those for which there are numbers. Answers what shows them on a page of the docs.
pub fn write(samples: &Samples) -> anyhow::Result<String> {
    let mut shown = String::new();
    for (file, title, lines) in BARS {
        let groups: Vec<_> = lines.iter().filter_map(|line| group(samples, *line)).collect();
        if !groups.is_empty() {
            shown += &put(file, title, &bars(title, &LEGEND, &groups))?;
        }
    }
    for (file, title, axes, ids, names) in COURSES {
        let lines: Vec<_> = ids.iter().map(|id| samples.course(id)).collect();
        if lines.iter().any(|line| !line.is_empty()) {
            shown += &put(file, title, &courses(title, axes, names, &lines))?;
        }
    }
    Ok(shown)
}

fn group(samples: &Samples, (id, title): Line) -> Option<Group> {
    samples.median(id, Side::Gateway)?;
    let values = Side::ALL.map(|side| samples.median(id, side).filter(|value| *value > 0.0));
    Some(Group { title, values: values.into() })
}

fn put(file: &str, title: &str, picture: &str) -> anyhow::Result<String> {
    let path = format!("{FOLDER}/{file}.svg");
    fs::write(&path, picture).with_context(|| format!("cannot write {path}"))?;
    Ok(format!("![{title}](images/{file}.svg)\n"))
}
