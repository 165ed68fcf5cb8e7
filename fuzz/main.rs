//! Fuzz targets on the stable toolchain.
//!
//! `cargo test --test fuzz` gives each target its corpus and some hundred
//! changes of it; `fuzz/run` each a minute. An input that ends in a panic, takes
//! too long or breaks a promise is written to `target/fuzz`; copy it to
//! `fuzz/corpus/<target>` with the fix.

mod harness;
mod live;
mod mutate;
mod targets;
mod texts;

#[path = "../tests/support/mod.rs"]
mod support;

use harness::{run, run_slow};

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
fn a_schedule_gives_the_same_instants_in_both_directions() {
    run("cron", &targets::cron);
}

#[test]
fn a_command_is_plain_words_only_when_a_shell_reads_it_so() {
    run("command", &targets::command);
}

#[test]
fn an_index_of_the_original_is_read_whatever_is_in_it() {
    run_slow("index", &targets::index);
}

#[test]
fn a_stream_has_the_same_events_however_it_is_cut() {
    run("stream", &texts::stream);
}

#[test]
fn a_page_becomes_a_text_that_is_not_much_longer() {
    run("page", &texts::page);
}

#[test]
fn no_spelling_of_an_address_leads_inside() {
    run("address", &texts::address);
}

#[test]
fn a_patch_changes_what_it_says() {
    run("change", &texts::change);
}

#[test]
fn parts_of_an_answer_fit_and_lose_nothing() {
    run("parts", &texts::parts);
}

#[test]
fn the_head_of_a_skill_fits_into_a_list() {
    run("skill", &texts::skill);
}

#[test]
fn a_template_is_filled_once() {
    run("template", &texts::template);
}

#[test]
fn a_chain_of_proxies_names_the_last_that_is_none() {
    run("forwarded", &texts::forwarded);
}

#[test]
fn a_request_by_http_is_answered_and_nothing_fails_inside() {
    let live = live::Live::new();
    run_slow("http", &|data| live.http(data));
}

#[test]
fn frames_of_every_protocol_are_taken_and_nothing_fails_inside() {
    let live = live::Live::new();
    run_slow("socket", &|data| live.socket(data));
}
