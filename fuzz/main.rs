//! Fuzz targets on the stable toolchain.
//!
//! `cargo test --test fuzz` gives each target its corpus and some hundred
//! changes of it; `fuzz/run` each a minute. An input that ends in a panic, takes
//! too long or breaks a promise is written to `target/fuzz`; copy it to
//! `fuzz/corpus/<target>` with the fix.

mod harness;
mod mutate;
mod targets;

#[allow(dead_code, reason = "shared with other test crates")]
#[path = "../tests/support/device.rs"]
mod device;

use harness::run;

#[test]
fn a_frame_is_a_request_or_refused_with_an_id() {
    run("frame", &targets::frame);
}

#[test]
fn connect_params_are_read_or_refused_in_words() {
    run("connect", &targets::connect);
}

#[test]
fn params_of_methods_are_read_or_refused_in_words() {
    run("params", &targets::params);
}

#[test]
fn a_device_proof_is_good_for_what_it_signs_and_nothing_else() {
    let proofs = targets::Proofs::new();
    run("proof", &|data| proofs.check(data));
}

#[test]
fn an_edit_of_the_config_means_what_was_asked_for_or_is_refused() {
    run("config", &targets::config);
}

#[test]
fn a_transcript_is_loaded_whatever_is_in_it() {
    run("transcript", &targets::transcript);
}

#[test]
fn a_command_is_plain_words_only_when_a_shell_reads_it_so() {
    run("command", &targets::command);
}
