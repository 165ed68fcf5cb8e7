//! How fast and how small the gateway is, side by side with a bare server.
//!
//! `cargo bench --bench load`, with options after `--`; `docs/benchmarks.md`
//! says what is measured and how to read it. Every round measures each row on
//! the gateway and, where there is something to compare with, on a WebSocket
//! server that does nothing else; what counts is the ratio of the medians.
//!
//! | module | what it owns |
//! |---|---|
//! | `options` | the command line |
//! | `client` | one WebSocket, as cheap as possible, for both servers |
//! | `server` | a server's process: memory, CPU time, end |
//! | `gateway` | starting the gateway on a state directory |
//! | `bare_server` | the server to compare with |
//! | `provider` | the model API that the gateway calls |
//! | `state` | sessions on disk |
//! | `rows` | the measurements |
//! | `metric` | what the numbers are called and what they may be |
//! | `stats`, `table`, `machine` | medians, markdown, where it ran |
#![forbid(unsafe_code)]
#![warn(clippy::pedantic)]

mod bare_server;
mod client;
mod gateway;
mod machine;
mod metric;
mod options;
mod provider;
mod rows;
mod server;
mod state;
mod stats;
mod table;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;

use options::Options;

fn main() -> ExitCode {
    let result = match Options::parse() {
        Options { bare_server: Some(port), .. } => bare_server::main(port),
        options => compare(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> anyhow::Result<()> {
    machine::allow_many_files();
    let runtime = tokio::runtime::Runtime::new().context("cannot start the client's threads")?;
    let samples = runtime.block_on(rows::measure(options))?;
    let machine = machine::describe()?;
    let table = table::render(&samples, &machine, options);
    println!("{table}");
    if let Some(path) = &options.json {
        std::fs::write(path, table::json(&samples, &machine).to_string())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if options.write {
        table::replace_in_docs(&table)?;
    }
    Ok(())
}
