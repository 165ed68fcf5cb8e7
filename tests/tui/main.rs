//! `clawgate tui` on a pseudo-terminal whose screen is read, with the real gateway and a
//! scripted model.

#[path = "../support/mod.rs"]
mod support;

mod screen;

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use screen::{Screen, command};
use support::client::{ALL_SCOPES, standard_connect};
use support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config, program};

/// A gateway with its scripted model, and a change of the configuration.
async fn place_with(change: impl FnOnce(&mut Value)) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    change(&mut config);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

async fn place() -> (Gateway, MockProvider) {
    place_with(|_| {}).await
}

async fn client(gateway: &Gateway) -> WsClient {
    let mut client = gateway.open().await;
    let hello = client.request("connect", standard_connect(&ALL_SCOPES)).await;
    assert_eq!(hello["ok"], true, "{hello}");
    client
}

async fn call(client: &mut WsClient, method: &str, params: Value) -> Value {
    let answer = client.request(method, params).await;
    assert_eq!(answer["ok"], true, "{method}: {answer}");
    answer["payload"].clone()
}

async fn say(client: &mut WsClient, session: &str, text: &str, key: &str) {
    let params = json!({"sessionKey": session, "message": text, "idempotencyKey": key});
    call(client, "chat.send", params).await;
}

/// Says something and waits for the end of its run.
async fn ask(client: &mut WsClient, session: &str, text: &str, key: &str) {
    say(client, session, text, key).await;
    let end = client.wait_for(Duration::from_secs(20), |frame| {
        let payload = &frame["payload"];
        frame["event"] == "chat" && payload["runId"] == key && payload["state"] != "delta"
    });
    end.await.unwrap_or_else(|| panic!("{key} does not end"));
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_shown_while_it_comes_and_once() {
    let (gateway, _mock) = place().await;
    let mut screen = Screen::open(&gateway, &[]);
    let header = screen.shows("mock/mock-1");
    assert!(header.lines().next().unwrap().contains("● connected"), "{header}");
    screen.says("@mock stream n=30 delay=60");
    let begun = screen.shows("w3 ");
    assert!(!begun.contains("w30") && begun.contains("writing"), "{begun}");
    screen.shows("w30");
    screen.is_ready();
    let text =
        screen.until("telling its tokens", |text| text.lines().next().unwrap().contains('↓'));
    assert_eq!((count(&text, "w30"), count(&text, "› @mock stream")), (1, 1), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn markdown_and_wide_letters_have_their_places() {
    let (gateway, _mock) = place().await;
    let mut screen = Screen::open(&gateway, &[]);
    let answer = "# Title\n\n- **one** 漢字 😀 end\n- two\n\n```rust\nlet a = 1;\n```";
    screen.says(&format!("@mock text text={}", json!(answer)));
    screen.shows("let a = 1;");
    let text = screen.is_ready();
    for line in ["Title", "• one 漢字 😀 end", "• two", "│ let a = 1;"] {
        assert!(text.lines().any(|shown| shown.trim_end() == line), "{line} in\n{text}");
    }
    let row = text.lines().position(|line| line.starts_with("• one")).unwrap();
    let row = u16::try_from(row).unwrap();
    let terminal = screen.terminal();
    assert!(terminal.cell(row, 2).unwrap().bold());
    assert_eq!(terminal.cell(row, 6).unwrap().contents(), "漢");
    assert_eq!(terminal.cell(row, 11).unwrap().contents(), "😀");
    assert_eq!(terminal.cell(row, 14).unwrap().contents(), "e");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_a_card_that_opens() {
    let (gateway, _mock) = place_with(|config| {
        config["tools"]["exec"] = json!({"security": "full", "ask": "off"});
    })
    .await;
    let mut screen = Screen::open(&gateway, &[]);
    let arguments = json!({"command": "printf 'first\\nsecond\\n'"});
    screen.says(&format!(
        "@mock tool name=exec args={arguments} pre=\"Let me look.\" then=\"all done\""
    ));
    screen.shows("all done");
    let text = screen.is_ready();
    assert!(text.contains("✓ exec") && text.contains("2 lines"), "{text}");
    assert!(!text.contains("│ second"), "{text}");
    assert_eq!((count(&text, "Let me look."), count(&text, "✓ exec")), (2, 1), "{text}");
    screen.types("\x0f");
    screen.shows("  │ second");
    screen.types("\x0f");
    screen.hides("  │ second");
}

#[tokio::test(flavor = "multi_thread")]
async fn escape_stops_the_run() {
    let (gateway, _mock) = place().await;
    let mut screen = Screen::open(&gateway, &[]);
    screen.says("@mock stream n=500 delay=100");
    screen.shows("w3 ");
    screen.types("\x1b");
    screen.shows("the run was stopped");
    let text = screen.is_ready();
    assert_eq!(count(&text, "w3 "), 1, "{text}");
    let mut client = client(&gateway).await;
    let list = call(&mut client, "sessions.list", json!({})).await;
    assert_eq!(list["sessions"][0]["hasActiveRun"], false, "{list}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_waits_for_a_decision_and_letters_decide_nothing() {
    let (gateway, _mock) =
        place_with(|config| config["tools"]["exec"] = json!({"ask": "always"})).await;
    let mut screen = Screen::open(&gateway, &[]);
    let file = gateway.workspace().join("ran");
    let arguments =
        json!({"command": format!("touch {} && echo \u{202e}was here", file.display())});
    screen.says(&format!("@mock tool name=exec args={arguments} then=\"done\""));
    let asked = screen.shows("May this run?");
    assert!(asked.contains("\\u{202e}was here"), "it is spelled out: {asked}");
    assert!(asked.contains(&format!("in {}", gateway.workspace().display())), "{asked}");
    assert!(asked.contains("expires in"), "{asked}");
    screen.shows("[Deny]");
    screen.types("ayes\x1b[A");
    assert!(!file.exists());
    screen.types("\x1b[D");
    screen.until("once or always", |text| !text.contains("[Deny]"));
    while !screen.text().contains("[Allow once]") {
        screen.types("\x1b[D");
        std::thread::sleep(Duration::from_millis(100));
    }
    // Keys count once the question was there for a moment; until then they are passed over.
    while screen.text().contains("May this run?") {
        screen.types("\r");
        std::thread::sleep(Duration::from_millis(100));
    }
    screen.until("the command has run", |_| file.exists());
    let text = screen.is_ready();
    assert!(text.contains("allow-once"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_session_is_found_and_shown() {
    let (gateway, _mock) = place().await;
    let mut client = client(&gateway).await;
    call(&mut client, "sessions.create", json!({"key": "trip", "label": "Trip to Rome"})).await;
    ask(&mut client, "trip", "@mock text text=\"from the trip\"", "k1").await;
    ask(&mut client, "other", "@mock text text=\"from the other\"", "k2").await;
    let mut screen = Screen::open(&gateway, &[]);
    screen.types("\x10");
    screen.shows("Trip to Rome");
    screen.types("rome");
    screen.until("filtered", |text| text.contains("/ rome") && !text.contains("other"));
    screen.types("\r");
    screen.until("gone there", |text| {
        text.starts_with("Trip to Rome") && text.contains("\nfrom the trip")
    });
    screen.says("/session other");
    screen.shows("from the other");
    screen.says("/new");
    screen.until("a new session", |text| !text.contains("from the other"));
    screen.says("@mock text text=\"in the new one\"");
    screen.shows("\nin the new one");
    let list = call(&mut client, "sessions.list", json!({})).await;
    assert_eq!(list["count"], 3, "{list}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_and_a_level_are_chosen() {
    let (gateway, _mock) = place().await;
    let mut screen = Screen::open(&gateway, &["--session", "trip"]);
    screen.types("\x0c");
    screen.shows("mock/mock-2");
    screen.types("mock-2");
    screen.hides("Mock Think");
    screen.types("\r");
    screen.until("another model", |text| text.lines().next().unwrap().contains("mock/mock-2"));
    screen.says("/model mocka/mock-think");
    screen.until("the next", |text| text.lines().next().unwrap().contains("mocka/mock-think"));
    screen.says("/think");
    screen.shows("Thinking");
    screen.types("high");
    screen.types("\r");
    screen.until("a level", |text| text.lines().next().unwrap().contains("think high"));
    let mut client = client(&gateway).await;
    let list = call(&mut client, "sessions.list", json!({"search": "trip"})).await;
    assert_eq!(list["sessions"][0]["thinkingLevel"], "high", "{list}");
    screen.says("/model no-such/model-at-all");
    screen.shows("there is no model \"no-such/model-at-all\"; there are m");
    screen.says("/agent nobody");
    let text = screen.shows("there is no agent \"nobody\"; there are main");
    assert!(text.lines().next().unwrap().contains("mocka/mock-think"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_stays_whole_when_it_has_ended() {
    let (gateway, _mock) = place().await;
    let mut screen = Screen::open(&gateway, &[]);
    screen.says("@mock stream n=2500 delay=0");
    let is_read = |text: &str| text.lines().next().unwrap().contains('↓');
    let text = screen.until("telling its tokens", is_read);
    assert!(text.contains("w2500") && !text.contains("(truncated)"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_there_is_not_talked_with() {
    let (gateway, _mock) = place().await;
    let mut command = command(&gateway, "setsid", &["--ctty", program(), "tui"]);
    command.args(["--agent", "nobody"]);
    let mut screen = Screen::started(command);
    screen.shows("there is no agent \"nobody\"; there are main");
    assert_eq!(screen.ends().code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn thoughts_are_shown_when_asked_for() {
    let (gateway, _mock) = place().await;
    let mut screen = Screen::open(&gateway, &[]);
    screen.says("/model mocka/mock-think");
    screen.shows("model: mocka/mock-think");
    screen.says("@mock think n=4");
    screen.shows("After thinking.");
    let text = screen.is_ready();
    assert!(!text.contains("┊ w1"), "{text}");
    screen.types("\x14");
    screen.shows("┊ w1 w2");
}

#[tokio::test(flavor = "multi_thread")]
async fn slash_commands_of_the_gateway_are_answered_and_help_lists_them() {
    let (gateway, _mock) = place().await;
    let mut screen = Screen::open(&gateway, &[]);
    screen.types("/sta");
    screen.shows("Show current status.");
    screen.types("\t");
    screen.shows("> /status");
    screen.types("\r");
    // The line above names the model, too.
    let text = screen.until("status", |text| text.matches("mock-1").count() > 1);
    assert!(!text.contains("waits for its turn"), "{text}");
    screen.is_ready();
    screen.says("/help");
    screen.shows("Ctrl+L, Ctrl+G, Ctrl+P");
    screen.types("\x1b[6~\x1b[6~\x1b[6~\x1b[6~");
    screen.shows("/whoami");
    screen.types("q");
    screen.hides("/whoami");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_lines_and_pasted_text_are_one_message() {
    let (gateway, _mock) = place().await;
    let mut screen = Screen::open(&gateway, &[]);
    screen.types("one\nb");
    screen.shows("> one");
    screen.types("\x1b\r\x1b[200~/exit\rpasted\x1b[201~");
    screen.shows("  pasted");
    screen.types("\r");
    let text = screen.shows("Echo:");
    let at = text.lines().position(|line| line.trim_end() == "› one").unwrap();
    let lines: Vec<_> = text.lines().skip(at + 1).take(3).map(str::trim).collect();
    assert_eq!(lines, ["b", "/exit", "pasted"], "{text}");
    screen.is_ready();
    screen.types("\x1b[A");
    screen.shows("> one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_byte_that_is_no_text_is_left_out_and_nothing_beside_it() {
    let (gateway, _mock) = place().await;
    let mut screen = Screen::open(&gateway, &[]);
    screen.types(b"good \xffday");
    screen.shows("> good day");
    screen.types("\r");
    screen.shows("Echo: good day");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_screen_and_another_size_are_used() {
    let (gateway, _mock) = place().await;
    let mut screen = Screen::open(&gateway, &[]);
    screen.says("@mock text text=\"one two three four five six seven eight nine ten eleven\"");
    screen.shows("\none two three");
    screen.is_ready();
    screen.resize(12, 40);
    let text = screen.until("broken", |text| {
        text.contains("ready")
            && text.lines().any(|line| line.trim_end() == "one two three four five six seven eight")
    });
    assert!(text.lines().next().unwrap().contains("main"), "{text}");
    screen.types("\x0c");
    screen.shows("mock/mock-2");
    screen.types("\x1b");
    screen.resize(2, 10);
    screen.resize(40, 120);
    screen.shows("\none two three four five six seven eight nine ten eleven");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_of_the_gateway_nothing_is_missing_or_doubled() {
    let (mut gateway, _mock) = place().await;
    let mut screen = Screen::open(&gateway, &[]);
    screen.says("@mock text text=\"before the crash\"");
    screen.shows("\nbefore the crash");
    screen.is_ready();
    screen.says("@mock stream n=500 delay=100");
    screen.shows("w3 ");
    gateway.kill9();
    screen.shows("reconnecting");
    let header = screen.shows("○ offline");
    assert!(header.contains("the connection is lost"), "{header}");
    screen.says("@mock text text=\"typed while offline\"");
    screen.shows("1 waiting to be sent");
    gateway.restart().await;
    screen.shows("connected again");
    screen.shows("\ntyped while offline");
    let text = screen.is_ready();
    for (part, times) in
        [("\nbefore the crash", 1), ("› @mock stream", 1), ("\ntyped while offline", 1)]
    {
        assert_eq!(count(&text, part), times, "{part} in\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_somebody_else_is_shown_from_its_middle_on() {
    let (gateway, _mock) = place().await;
    let mut client = client(&gateway).await;
    say(&mut client, "main", "@mock stream n=40 delay=100", "k1").await;
    let begun = client.wait_for(Duration::from_secs(20), |frame| {
        frame["payload"]["message"]["content"][0]["text"]
            .as_str()
            .is_some_and(|text| text.contains("w8"))
    });
    begun.await.unwrap();
    let mut screen = Screen::of({
        let mut command = command(&gateway, "setsid", &["--ctty", program(), "tui"]);
        command.args(["--session", "other"]);
        command
    });
    screen.says("/session main");
    let text = screen.shows("w1 w2 w3 ");
    assert!(text.contains("› @mock stream") && text.contains("Esc stops it"), "{text}");
    screen.shows("w40");
    let text = screen.is_ready();
    assert_eq!((count(&text, "w40"), count(&text, "w1 w2")), (1, 1), "{text}");
    say(&mut client, "main", "@mock text text=\"said elsewhere\"", "k2").await;
    screen.shows("\nsaid elsewhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_steers_the_terminal() {
    let (gateway, _mock) = place_with(|config| {
        config["tools"]["exec"] = json!({"security": "full", "ask": "off"});
    })
    .await;
    let mut client = client(&gateway).await;
    let hostile =
        "\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}]0;evil title\u{1b}\\\u{1b}[31;44mEVIL\u{9b}2J\u{202e}x";
    call(
        &mut client,
        "sessions.create",
        json!({"key": "main", "label": "evil \u{1b}[31;44m label"}),
    )
    .await;
    let text = json!(format!("{hostile} [link](javascript:\u{1b}[31;44m) answered"));
    ask(&mut client, "main", &format!("{hostile} @mock text text={text}"), "k1").await;
    let command = json!({"command": "printf '\\033]0;evil title\\007\\033[31;44mEVIL\\n'"});
    ask(
        &mut client,
        "main",
        &format!("@mock tool name=exec args={command} then=\"tool was used\""),
        "k2",
    )
    .await;
    let mut screen = Screen::open(&gateway, &[]);
    screen.shows("tool was used");
    screen.types("\x0f");
    screen.shows("  │ ");
    screen.types("\x10");
    screen.shows("Sessions");
    screen.types("\x1b");
    screen.hides("type to search");
    screen.types(&format!("\x1b[200~{}\x1b[201~", hostile.replace('\u{1b}', "")));
    screen.says(&format!("@mock text text={}", json!(format!("{hostile} live"))));
    screen.shows(" live");
    screen.is_ready();
    let bytes = String::from_utf8_lossy(&screen.bytes()).into_owned();
    for sign in ["\u{1b}]", "\u{1b}[31;44m", "\u{9b}", "\u{202e}", "\u{1b}P"] {
        assert!(!bytes.contains(sign), "{sign:?} reached the terminal");
    }
    assert!(bytes.contains("EVIL"));
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_gives_the_terminal_back() {
    let (gateway, _mock) = place().await;
    for keys in ["\x04", "/exit\r", "x\x03\x03"] {
        let mut screen = Screen::open(&gateway, &[]);
        assert!(screen.terminal().alternate_screen() && screen.terminal().bracketed_paste());
        screen.types(keys);
        let status = screen.ends();
        assert_eq!(status.code(), Some(0), "{keys:?}");
        is_given_back(&mut screen);
    }
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut screen = Screen::open(&gateway, &[]);
        screen.signal(signal);
        assert_eq!(screen.ends().code(), Some(code));
        is_given_back(&mut screen);
    }
}

fn is_given_back(screen: &mut Screen) {
    screen.until("given back", |text| text.trim().is_empty());
    assert!(screen.is_usual(), "what is typed is shown again");
    let terminal = screen.terminal();
    assert!(!terminal.alternate_screen() && !terminal.bracketed_paste() && !terminal.hide_cursor());
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_z_goes_to_the_shell_and_comes_back() {
    use std::os::unix::process::CommandExt as _;
    let (gateway, _mock) = place().await;
    let mut command = command(&gateway, program(), &["tui"]);
    command.process_group(0);
    let mut screen = Screen::of(command);
    screen.types("draft\x1a");
    screen.until("given back", |text| text.trim().is_empty());
    let state = format!("/proc/{}/stat", screen.pid());
    while !std::fs::read_to_string(&state).unwrap().contains(") T ") {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(screen.is_usual());
    screen.signal(Signal::CONT);
    screen.shows("> draft");
    assert!(!screen.is_usual() && screen.terminal().alternate_screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_stopped_from_elsewhere_takes_the_terminal_as_it_was() {
    let (gateway, _mock) = place().await;
    let mut screen = Screen::open(&gateway, &[]);
    screen.set_usual();
    assert!(screen.is_usual());
    screen.signal(Signal::CONT);
    // Waits until single keys are taken.
    screen.types("draft");
    screen.shows("> draft");
    assert!(!screen.is_usual());
    screen.types("\x15\x04");
    assert_eq!(screen.ends().code(), Some(0));
    is_given_back(&mut screen);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_at_last_is_taken_or_told_to_be_lost() {
    let (mut gateway, _mock) = place().await;
    let mut screen = Screen::open(&gateway, &[]);
    screen.types("the last words\r\x04");
    assert_eq!(screen.ends().code(), Some(0));
    let mut reader = client(&gateway).await;
    let history = call(&mut reader, "chat.history", json!({"sessionKey": "main"})).await;
    assert!(history.to_string().contains("the last words"), "{history}");
    drop(reader);

    let mut screen = Screen::open(&gateway, &[]);
    gateway.kill9();
    screen.shows("○ offline");
    screen.says("nobody hears this");
    screen.shows("1 waiting to be sent");
    screen.types("\x04");
    assert_eq!(screen.ends().code(), Some(1));
    screen.shows("this may not have reached the gateway: nobody hears this");
    assert!(screen.is_usual() && !screen.terminal().alternate_screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_colours_there_are_none() {
    let (gateway, _mock) = place().await;
    let mut screen = Screen::open_with(&gateway, &["--message", "hello"], &[("NO_COLOR", "1")]);
    screen.shows("Echo: hello");
    screen.is_ready();
    let bytes = String::from_utf8_lossy(&screen.bytes()).into_owned();
    for colour in ["\u{1b}[36", "\u{1b}[38;5;", "\u{1b}[32", "\u{1b}[33"] {
        assert!(!bytes.contains(colour), "{colour:?}");
    }
    let mut screen = Screen::open(&gateway, &[]);
    screen.shows("Echo: hello");
    assert!(String::from_utf8_lossy(&screen.bytes()).contains("\u{1b}[38;5;"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_terminal_is_refused() {
    let (gateway, _mock) = place().await;
    let run = |args: &[&str]| {
        let mut command: Command = command(&gateway, program(), &["tui"]);
        let output = command.args(args).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap(), output.stdout)
    };
    let (code, text, out) = run(&[]);
    assert_eq!((code, out.as_slice()), (Some(2), &b""[..]));
    assert!(text.contains("needs a terminal") && text.contains("clawgate chat"), "{text}");
    let (code, text, _) = run(&["--json"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("no JSON"), "{text}");
}
