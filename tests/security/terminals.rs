//! Text of others that steers the terminal behind a pipe: `clawgate logs | cat` shows what a
//! provider has said.

use serde_json::Value;

use crate::program::{clawgate, said};
use crate::stage::{Api, scripted};

/// Retitles the window, fills the clipboard, empties the screen, turns letters around.
const STEERING: &str = "\u{1b}]52;c;eA==\u{7}\u{1b}[2J\u{9b}1m\u{202e}";
/// Looks like a line of the log.
const FORGED: &str = "2026-01-01T00:00:00.000+00:00 ERROR gateway: forged";

fn steers(text: &str) -> bool {
    let is_plain = |letter: char| matches!(letter, '\n' | '\t') || !letter.is_control();
    !text.chars().all(is_plain) || text.contains('\u{202e}')
}

#[tokio::test]
async fn what_a_provider_says_steers_no_terminal_behind_a_pipe() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let lines = clawgate(&gateway, &["chat", "@mock text text=\"one\\n\\ttwo \u{202e}x\""]).await;
    let text = said(&lines);
    assert!(text.contains("one\n\ttwo \\u202ex") && !steers(&text), "{text:?}");

    mock.fail("mock-1", 400, &format!("scripted {STEERING} refusal\n{FORGED}"));
    let failed = clawgate(&gateway, &["chat", "hello"]).await;
    assert!(!failed.status.success());
    let told = String::from_utf8(failed.stderr).unwrap();
    assert!(told.contains("scripted ") && told.contains("[2J"), "{told:?}");
    assert!(!steers(&told), "{told:?}");
    let log = said(&clawgate(&gateway, &["logs"]).await);
    assert!(!log.is_empty() && !steers(&log), "{log:?}");
    assert!(!log.lines().any(|line| line.starts_with(FORGED)), "{log:?}");
    let log = said(&clawgate(&gateway, &["logs", "--json"]).await);
    assert!(!steers(&log), "{log:?}");
    assert!(log.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{log:?}");
}
