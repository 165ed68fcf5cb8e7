//! How fast and how small the gateway is, side by side with the original and a
//! bare server.
//!
//! `cargo bench --bench load`, with options after `--`; `docs/benchmarks.md`
//! says what is measured and how to read it. Every round measures each row on
//! the gateway and, where there is something to compare with, on the original
//! gateway and on a WebSocket server that does nothing else; what counts is the
//! ratio of the medians.
//!
//! | module | what it owns |
//! |---|---|
//! | `options` | the command line |
//! | `client` | one WebSocket, as cheap as possible, for both servers |
//! | `server` | a server's process: memory, CPU time, end |
//! | `gateway` | starting the gateway, or the original, on a state directory |
//! | `original`, `installed`, `npm` | the original gateway: installing it, and keeping it to itself |
//! | `bare_server` | the server to compare with |
//! | `provider` | the model API that the gateway calls |
//! | `state` | sessions on disk |
//! | `rows` | the measurements |
//! | `metric` | what the numbers are called and what they may be |
//! | `stats`, `machine` | all numbers, where it ran |
//! | `report` | what of it goes into the docs: JSON, table, pictures |
//! | `table`, `pictures`, `svg` | markdown, which pictures, how they are drawn |
#![forbid(unsafe_code)]
#![warn(clippy::pedantic)]

mod bare_server;
mod client;
mod gateway;
#[path = "../../tests/support/installed.rs"]
mod installed;
mod machine;
mod metric;
#[path = "../../tests/support/npm.rs"]
mod npm;
mod options;
mod original;
mod pictures;
mod provider;
mod report;
mod rows;
mod server;
mod state;
mod stats;
mod svg;
mod table;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;

use options::Options;
use original::Original;
use report::Report;

fn main() -> ExitCode {
    let result = match Options::parse() {
        Options { bare_server: Some(port), .. } => {
            bare_server::main(port).map(|()| ExitCode::SUCCESS)
        }
        options => begin(&options),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// With the original where it can be had and kept from the internet, else without.
fn begin(options: &Options) -> anyhow::Result<ExitCode> {
    if !options.alone {
        gateway::build()?;
    }
    if options.no_original {
        return compare(options, None);
    }
    match Original::install() {
        Ok(original) if options.alone => return compare(options, Some(original)),
        Ok(_) => match original::alone() {
            Ok(code) => return Ok(code),
            Err(error) => eprintln!("the original is left out: {error:#}"),
        },
        Err(error) => eprintln!("the original is left out: {error:#}"),
    }
    compare(options, None)
}

fn compare(options: &Options, original: Option<Original>) -> anyhow::Result<ExitCode> {
    machine::allow_many_files();
    let runtime = tokio::runtime::Runtime::new().context("cannot start the client's threads")?;
    let (samples, failures) = runtime.block_on(rows::measure(options, original))?;
    let report = Report::new(samples, options)?;
    println!("{}", table::render(&report));
    if let Some(path) = &options.json {
        report.write_json(path)?;
    }
    if options.write {
        report.write_docs()?;
    }
    for failure in &failures {
        eprintln!("failed: {failure}");
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
