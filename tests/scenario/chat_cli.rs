//! `clawgate chat` beside others in the same session, and on a terminal.

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{clawgate, command, said};
use crate::stage::{Api, admin, deltas, scripted, start};
use crate::support::pty::Pty;
use crate::support::{Gateway, program};

#[tokio::test]
async fn who_speaks_while_another_is_answered_gets_the_own_answer_and_nothing_else() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=60 delay=50", "run-1").await;
    deltas(&client, "run-1", 1).await;
    let output = clawgate(&gateway, &["chat", "@mock text text=second"]).await;
    assert_eq!(said(&output), "second\n");
}

/// The chat on a terminal.
fn chat(gateway: &Gateway, args: &[&str]) -> Pty {
    chat_with(gateway, args, None)
}

/// The same, with a variable.
fn chat_with(gateway: &Gateway, args: &[&str], variable: Option<(&str, &str)>) -> Pty {
    let mut command = std::process::Command::new(program());
    command
        .arg("chat")
        .args(args)
        .env_clear()
        .env("TERM", "xterm")
        .env("HOME", gateway.home())
        .env("OPENCLAW_STATE_DIR", gateway.state_dir())
        .env("OPENCLAW_CONFIG_PATH", gateway.config_path())
        .envs(variable);
    Pty::spawn(command)
}

/// A conversation on a terminal, at its first prompt.
fn conversation(gateway: &Gateway) -> Pty {
    let mut terminal = chat(gateway, &[]);
    terminal.shows("you> ");
    terminal
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_answered_turns_nothing_around_and_keeps_its_marks_of_direction() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut terminal = chat(&gateway, &["@mock text text=a\u{202e}b\u{2067}c\u{2069}d\u{200f}e"]);
    terminal.shows("abcd\u{200f}e");
    assert_eq!(terminal.ends().code(), Some(0), "{}", terminal.all());
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_text_end_no_conversation() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    for variable in [None, Some(("NO_COLOR", "1"))] {
        let mut terminal = chat_with(&gateway, &[], variable);
        terminal.shows("you> ");
        // What was typed before such a key is still there, and the cursor is where it was.
        for keys in [&b"day \xff"[..], &b"\x01\xff"[..]] {
            terminal.types(keys);
            terminal.shows("a key that is not UTF-8 is left out; a paste with one in it");
            terminal.shows("you> day ");
        }
        terminal.types("good \x05to you\r");
        terminal.shows("Echo: good day to you");
        terminal.shows("you> ");
        terminal.types("/quit\r");
        assert_eq!(terminal.ends().code(), Some(0), "{}", terminal.all());
        let shown = terminal.all();
        let is_number = |it: char| it.is_ascii_digit() || it == ';';
        let is_colour = |it: &str| it.trim_start_matches(is_number).starts_with('m');
        let has_colours = shown.split("\u{1b}[").skip(1).any(is_colour);
        assert!(variable.is_none() || !has_colours, "{shown:?}");
    }

    // Of a paste that is longer than what is read at a time nothing is sent.
    let mut terminal = conversation(&gateway);
    let rows = "row of it\r".repeat(200);
    terminal.types(&[&b"\x1b[200~bad \xff"[..], rows.as_bytes(), b"\x1b[201~"].concat());
    terminal.shows("a paste with one in it");
    terminal.shows("you> ");
    terminal.types("good day\r");
    terminal.shows("Echo: good day");
    terminal.shows("you> ");
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().code(), Some(0), "{}", terminal.all());
    assert!(!terminal.all().contains("Echo: row"), "{}", terminal.all());

    let lines = gateway.root().join("lines");
    std::fs::write(&lines, b"bad \xff\nhello\n").unwrap();
    let lines = std::fs::File::open(lines).unwrap();
    let output = command(&gateway, &["chat"]).stdin(lines).output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Echo: hello\n", "{output:?}");
    assert_eq!(output.status.code(), Some(1), "a line of the pipe was not said");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors, "that is not UTF-8; say it again\n");
}

/// As `kill -INT` does.
fn interrupt(terminal: &Pty) {
    let pid = Pid::from_raw(i32::try_from(terminal.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_twice_at_the_prompt_leaves_whoever_sends_it_and_the_terminal_is_as_before() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    for is_key in [false, true] {
        let mut terminal = conversation(&gateway);
        assert!(!terminal.echoes());
        let presses = |terminal: &mut Pty| {
            if is_key { terminal.types("half a line\x03") } else { interrupt(terminal) }
        };
        presses(&mut terminal);
        terminal.shows("once more leaves");
        terminal.shows("you> ");
        presses(&mut terminal);
        assert_eq!(terminal.ends().code(), Some(130), "{}", terminal.all());
        assert!(terminal.echoes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_from_elsewhere_stops_an_answer_first_and_then_leaves() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut terminal = conversation(&gateway);
    terminal.types("@mock stream n=2000 delay=50\r");
    terminal.shows("w1");
    interrupt(&terminal);
    terminal.shows("you> ");
    interrupt(&terminal);
    terminal.shows("once more leaves");
    terminal.shows("you> ");
    interrupt(&terminal);
    assert_eq!(terminal.ends().code(), Some(130), "{}", terminal.all());
    assert!(terminal.echoes());
    let output = clawgate(&gateway, &["chat", "@mock text text=next"]).await;
    assert_eq!(said(&output), "next\n", "the answer has ended at the gateway as well");
}
