//! The program that is tested.

use std::fs;
use std::sync::LazyLock;

/// Names the program to test, where it is not the one that was built along with the tests.
pub const VARIABLE: &str = "CLAWGATE_PROGRAM";

/// Path of the program that tests start. CI names its release build: that is what people
/// run, and tests are done in two thirds of the time.
pub fn program() -> &'static str {
    static PROGRAM: LazyLock<String> = LazyLock::new(|| match std::env::var_os(VARIABLE) {
        Some(path) => match fs::canonicalize(&path) {
            Ok(whole) => whole.into_os_string().into_string().unwrap(),
            Err(error) => panic!("{VARIABLE}: {}: {error}", path.display()),
        },
        None => env!("CARGO_BIN_EXE_clawgate").into(),
    });
    &PROGRAM
}
