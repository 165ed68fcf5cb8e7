//! The `clawgate` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    clawgate::cli::main()
}
