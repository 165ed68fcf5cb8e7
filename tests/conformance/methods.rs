//! Every method of the original, and what becomes of a call of it here: the last
//! table of `docs/conformance.md`.
//!
//! A method works when the gateway knows it and a passing trace calls it with
//! success, or a test that is named here does. One that is not offered says so,
//! or is unknown, and here is why. A method that is in neither place fails the
//! tests, and so does an entry that nothing needs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::corpus::{Corpus, manifest};
use super::differences::glob;
use super::report::{Status, Table};
use super::trace::{Trace, What};

/// The names, so that the tests need no recordings.
const NAMES: &str = include_str!("methods.txt");

/// Known to the gateway, which answers that it does not do this, and why.
const NOT_OFFERED: &[(&str, &str)] = &[
    ("browser.request", "There is no browser plugin here; nodes and MCP servers bring browsers."),
    (
        "node.canvas.capability.refresh",
        "There is no canvas host, so a node is told that there is no address of one.",
    ),
    ("nativeHook.invoke", "Hooks of native CLIs of the original; no CLI here calls them."),
    (
        "push.test",
        "Apple's push service wants a contract and a key of its own; browsers are pushed to.",
    ),
    ("talk.realtime.*", "No provider here speaks and listens at once; `talk.speak` speaks."),
    (
        "update.run",
        "It says which version runs, how that was installed and what brings it up to date; clawgate is no npm package and does not replace itself.",
    ),
    ("web.login.*", "No channel here logs in by a QR code."),
];

/// Unknown to the gateway, and why. `*` stands for anything; an entry counts for
/// those of its methods that are unknown.
const ABSENT: &[(&str, &str)] = &[];

/// Methods that no passing trace calls with success, and the test that does.
const TESTED: &[(&str, &str)] = &[
    ("agents.create", "an_agent_that_is_added_has_its_files_and_its_entry_and_comments_stay"),
    ("agents.delete", "an_agent_that_is_removed_lies_in_the_trash_and_nothing_names_it"),
    ("agents.files.*", "a_file_that_was_set_is_there_after_a_kill"),
    ("agents.list", "an_agent_is_called_what_its_identity_file_says"),
    ("agents.update", "a_dashboard_adds_and_changes_agents_in_its_own_words"),
    ("artifacts.*", "what_came_with_messages_and_what_tools_saw_is_listed_and_given"),
    ("channels.logout", "a_channel_that_is_logged_out_is_configured_no_more"),
    ("channels.start", "a_stopped_channel_takes_nothing_and_what_waits_goes_out_when_it_starts"),
    ("channels.status", "bindings_choose_the_agent_and_a_config_that_cannot_work_says_why"),
    ("channels.stop", "a_stopped_channel_takes_nothing_and_what_waits_goes_out_when_it_starts"),
    ("commands.list", "commands_are_listed_as_recorded"),
    ("config.apply", "a_patch_touches_its_places_only_and_the_fourth_in_a_minute_waits"),
    ("config.get", "a_client_writes_back_what_it_was_shown_and_no_secret_is_lost"),
    ("config.openFile", "nothing_is_opened_and_the_file_is_named"),
    ("config.patch", "a_patch_touches_its_places_only_and_the_fourth_in_a_minute_waits"),
    (
        "config.schema*",
        "the_schema_accepts_what_the_gateway_runs_with_and_each_place_can_be_looked_up",
    ),
    ("config.set", "a_client_writes_back_what_it_was_shown_and_no_secret_is_lost"),
    ("diagnostics.stability", "what_happened_lately_is_told_with_its_reasons"),
    ("doctor.memory.*", "what_dreams_have_left_is_counted_and_tidied_up_and_nothing_is_dreamt"),
    ("gateway.identity.get", "the_gateway_tells_who_it_is_after_a_kill_as_before"),
    (
        "logs.tail",
        "who_follows_the_log_gets_each_line_once_while_files_are_put_away_and_over_a_kill",
    ),
    ("message.action", "an_operator_sends_and_acts_by_methods"),
    ("models.authStatus", "the_status_of_credentials_shows_everything_but_the_secret"),
    ("models.list", "a_list_of_allowed_models_is_what_clients_see_with_its_aliases"),
    ("plugins.uiDescriptors", "what_is_not_here_is_said_in_the_shape_of_the_original"),
    ("poll", "files_come_and_go"),
    ("push.web.subscribe", "a_browser_reads_its_notification_and_its_service_knows_who_sent_it"),
    ("push.web.test", "a_browser_reads_its_notification_and_its_service_knows_who_sent_it"),
    ("push.web.unsubscribe", "a_browser_that_is_gone_is_forgotten_and_one_that_waits_is_not"),
    (
        "push.web.vapidPublicKey",
        "a_browser_reads_its_notification_and_its_service_knows_who_sent_it",
    ),
    ("secrets.reload", "a_reload_changes_the_key_of_a_running_gateway_or_nothing"),
    ("secrets.resolve", "an_admin_is_told_the_secrets_of_the_places_that_are_named"),
    ("send", "an_operator_sends_and_acts_by_methods"),
    ("sessions.compaction.*", "one_can_go_back_behind_a_compaction_or_branch_off_there"),
    ("sessions.pluginPatch", "a_patch_is_applied_whole_or_refused"),
    ("set-heartbeats", "an_agent_is_asked_by_the_clock_when_its_file_says_something"),
    ("skills.detail", "a_registry_that_is_configured_is_asked"),
    ("skills.install", "a_skill_is_taken_over_from_a_folder_and_can_be_used_at_once"),
    ("skills.search", "a_registry_that_is_configured_is_asked"),
    ("skills.status", "status_tells_where_skills_are_and_what_they_lack"),
    ("skills.update", "a_key_counts_at_once_is_never_shown_and_survives_a_kill"),
    ("talk.config", "keys_are_for_those_who_may_see_them_and_only_when_they_ask"),
    ("talk.mode", "who_may_write_hears_that_somebody_talks_and_nobody_else_does"),
    ("talk.speak", "a_text_is_spoken_by_the_service_of_talk_as_the_request_wishes"),
    ("tools.catalog", "the_catalogue_and_a_session_name_the_tools_there_are"),
    ("tools.effective", "the_catalogue_and_a_session_name_the_tools_there_are"),
    ("tts.convert", "a_service_is_asked_in_its_own_words"),
    ("tts.*", "what_people_choose_lasts_and_the_rest_of_their_file_stays"),
    ("update.status", "what_is_not_here_is_said_in_the_shape_of_the_original"),
    ("voicewake.routing.*", "routes_are_compared_as_they_are_said_and_last"),
    ("voicewake.*", "words_are_kept_over_a_kill_and_everybody_hears_of_them"),
    ("wake", "an_acknowledgement_bothers_nobody"),
    ("tools.invoke", "a_client_calls_a_tool_and_a_problem_of_the_tool_is_part_of_the_answer"),
    ("wizard.cancel", "a_client_that_was_lost_goes_on_and_a_cancelled_setup_writes_nothing"),
    ("wizard.*", "a_client_sets_the_gateway_up_and_no_key_comes_out_anywhere"),
];

/// The handshake, which is no request to the table of methods.
const CONNECT: &str = "connect";

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is done; a trace or a test shows it.
    Works(String),
    /// The gateway says that it is not offered.
    NotOffered(&'static str),
    /// The gateway does not know it.
    Absent(&'static str),
    /// Nobody says.
    Unaccounted,
}

/// Which passing trace calls a method with success.
pub type Coverage = BTreeMap<String, String>;

/// The methods that the traces of `corpus` which pass call with success.
pub fn coverage(corpus: &Corpus, table: &Table) -> Coverage {
    let mut coverage = Coverage::new();
    for name in corpus.names().iter().filter(|name| table.get(*name) == Some(&Status::Passed)) {
        for method in answered(&corpus.load(name)) {
            coverage.entry(method).or_insert_with(|| name.clone());
        }
    }
    coverage
}

fn answered(trace: &Trace) -> BTreeSet<String> {
    let mut asked = HashMap::new();
    let mut answered = BTreeSet::new();
    let id = |frame: &Value| frame["id"].as_str().map(str::to_owned);
    for line in &trace.lines {
        match &line.what {
            What::Sent(frame) if frame["type"] == "req" => {
                let method = frame["method"].as_str().unwrap_or_default().to_owned();
                asked.insert((&line.conn, id(frame)), method);
            }
            What::Received(frame) if frame["type"] == "res" && frame["ok"] == true => {
                answered.extend(asked.get(&(&line.conn, id(frame))).cloned());
            }
            _ => {}
        }
    }
    answered
}

pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.lines().filter(|name| !name.is_empty())
}

fn known() -> BTreeSet<&'static str> {
    let registry = clawgate::handlers::registry();
    let known: BTreeSet<_> = registry.list().map(|(name, _)| name).collect();
    known.into_iter().chain([CONNECT]).collect()
}

fn entry(list: &[(&str, &'static str)], method: &str) -> Option<&'static str> {
    list.iter().find(|(pattern, _)| glob(pattern, method)).map(|(_, said)| *said)
}

/// What becomes of a call of each method. Without the recordings (`None`) what
/// is known counts as covered.
pub fn answers(coverage: Option<&Coverage>) -> Vec<(&'static str, Answer)> {
    let known = known();
    let answer = |method| {
        if !known.contains(method) {
            return entry(ABSENT, method).map_or(Answer::Unaccounted, Answer::Absent);
        }
        if let Some(why) = entry(NOT_OFFERED, method) {
            return Answer::NotOffered(why);
        }
        let recorded = coverage.map(|coverage| coverage.get(method));
        match (recorded, entry(TESTED, method)) {
            (Some(Some(trace)), _) => Answer::Works(format!("`{trace}`")),
            (_, Some(test)) => Answer::Works(format!("test `{test}`")),
            (None, None) => Answer::Works(String::new()),
            (Some(None), None) => Answer::Unaccounted,
        }
    };
    names().map(|method| (method, answer(method))).collect()
}

/// The table.
pub fn render(coverage: &Coverage) -> String {
    let answers = answers(Some(coverage));
    let count = |is: fn(&Answer) -> bool| answers.iter().filter(|(_, answer)| is(answer)).count();
    let mut text = String::from(HEAD);
    let _ = writeln!(
        text,
        "{} of {} work, {} say that they are not offered, {} are unknown here.\n",
        count(|answer| matches!(answer, Answer::Works(_))),
        answers.len(),
        count(|answer| matches!(answer, Answer::NotOffered(_))),
        count(|answer| matches!(answer, Answer::Absent(_) | Answer::Unaccounted)),
    );
    text.push_str("| method | result | shown by, or why not |\n|---|---|---|\n");
    for (method, answer) in &answers {
        let (result, said) = match answer {
            Answer::Works(by) => ("works", by.as_str()),
            Answer::NotOffered(why) => ("says that it is not offered", *why),
            Answer::Absent(why) => ("unknown method", *why),
            Answer::Unaccounted => ("?", ""),
        };
        let _ = writeln!(text, "| `{method}` | {result} | {said} |");
    }
    text
}

const HEAD: &str = "
## Every method of the original

";

/// What is wrong with the lists.
fn faults(answers: &[(&str, Answer)], tests: &BTreeSet<String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (method, answer) in answers {
        if *answer == Answer::Unaccounted {
            faults.push(format!(
                "{method}: no passing trace and no test here calls it, and nobody says why not"
            ));
        }
    }
    for (pattern, test) in TESTED {
        if !tests.contains(*test) {
            faults.push(format!("{pattern}: there is no test {test}"));
        }
    }
    let known = known();
    let needed = |pattern: &str, is_known: bool| {
        names().any(|method| glob(pattern, method) && known.contains(method) == is_known)
    };
    let unneeded = |list: &[(&str, &str)], is_known| -> Vec<String> {
        let patterns = list.iter().map(|(pattern, _)| pattern);
        let unneeded = patterns.filter(|pattern| !needed(pattern, is_known));
        unneeded.map(|pattern| format!("no method needs the entry {pattern}")).collect()
    };
    faults.extend(unneeded(ABSENT, false));
    faults.extend(unneeded(NOT_OFFERED, true));
    faults.extend(unneeded(TESTED, true));
    faults
}

/// Names of all functions of the tests.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text.lines().filter_map(|line| line.split("fn ").nth(1)?.split('(').next());
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn every_method_of_the_original_works_or_has_a_reason() {
    let corpus = Corpus::find();
    let report = fs::read_to_string(manifest().join(super::REPORT)).unwrap();
    let table = super::report::parse(&report);
    let coverage = corpus.complete.then(|| coverage(&corpus, &table));
    let mut tests = BTreeSet::new();
    functions(&manifest().join("tests"), &mut tests);
    let answers = answers(coverage.as_ref());
    assert_eq!(faults(&answers, &tests), Vec::<String>::new());
}

#[test]
fn the_names_are_those_of_the_reference() {
    let Some(text) = Corpus::find().methods() else { return };
    let reference: Value = serde_json::from_str(&text).unwrap();
    let recorded: BTreeSet<_> = reference["methods"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names().map(str::to_owned).collect::<BTreeSet<_>>(), recorded);
    assert_eq!(names().count(), 173);
}

#[test]
fn a_method_that_is_in_neither_place_is_found() {
    let answers = [("new.method", Answer::Unaccounted), ("health", Answer::Works(String::new()))];
    let found = faults(&answers, &BTreeSet::new());
    assert!(found.iter().any(|fault| fault.starts_with("new.method: ")), "{found:?}");
    assert!(found.iter().any(|fault| fault.contains("there is no test ")), "{found:?}");
    let covered = Coverage::from([("health".to_owned(), "methods/x".to_owned())]);
    let answers = super::methods::answers(Some(&covered));
    let of = |method: &str| answers.iter().find(|(name, _)| *name == method).unwrap().1.clone();
    assert_eq!(of("health"), Answer::Works("`methods/x`".to_owned()));
    assert_eq!(of("status"), Answer::Unaccounted);
    assert!(render(&covered).contains("| `health` | works | `methods/x` |\n"));
}
