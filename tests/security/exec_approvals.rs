//! Commands that ran although nobody had allowed them: CVE-2026-53829,
//! CVE-2026-27545, GHSA-2j8v-hwgc-x698, GHSA-hjvp-qhm6-wrh2, GHSA-8f46-3xx3-8c9m,
//! GHSA-796m-2973-wc5q, CVE-2026-53866, -53855, -53853, -53848, -53806,
//! GHSA-3fp5-v549-9v66, GHSA-34mr-7r3m-gfg7, CVE-2026-22169.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clawgate::agent::approvals::{
    ApprovalNews, Approvals, ApprovalsParts, Denial, ExecHost, ExecRequest, NodeRun, Permit,
    Program, QuestionKind, SHOWN_MAX,
};
use clawgate::agent::exec::{How, Processes};
use clawgate::bus::{Audience, Backplane, Bus, Event, EventKind};
use clawgate::config::{Env, ExecAsk, ExecSandbox, Overrides, load};
use clawgate::sessions::{KeyRules, SessionKey, Sessions, SessionsOptions};
use clawgate::store::SqliteStore;
use clawgate::support::{BoxFuture, Live, RandomIds, SystemClock, Tasks};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::program;

/// Every command here must be left to a person, with every program allowed.
const BYPASSES: &str = include_str!("exec-bypasses.txt");
/// Every command here must run when its program is allowed.
const LEGITIMATE: &str = include_str!("exec-legitimate.txt");
/// How long something may take that should happen at once.
const SOON: Duration = Duration::from_secs(20);

/// Commands, one per line; `json:` for those with characters that no line holds.
fn commands(list: &str) -> Vec<String> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with("== "));
    let read = |line: &str| match line.strip_prefix("json:") {
        Some(text) => serde_json::from_str(text).unwrap(),
        None => line.to_owned(),
    };
    lines.map(read).collect()
}

/// Somebody is connected who may decide, or nobody is.
struct Listeners(bool);

impl Backplane for Listeners {
    fn wants(&self, kind: EventKind, _: &Audience) -> bool {
        self.0 && kind == EventKind::ExecApprovalRequested
    }

    fn publish(&self, _: &Arc<Event>, _: &Audience) {}

    fn close_device(&self, _: &str, _: Option<&str>, _: &clawgate::bus::Closing, _: &str) {}

    fn load(&self) -> clawgate::bus::Load {
        clawgate::bus::Load { connections: usize::from(self.0), events: 0 }
    }
}

/// Nobody follows the run.
struct Silence;

impl ApprovalNews for Silence {
    fn tell(&self, _: Value) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// A machine: programs in `bin`, a workspace, and what may run there.
struct Place {
    approvals: Approvals,
    bin: PathBuf,
    workspace: PathBuf,
    root: TempDir,
}

impl Place {
    async fn new(config: &Value, has_deciders: bool) -> Self {
        // Not where anybody may write, as in the directory for temporary files.
        let root = TempDir::new_in(crate::support::closed_place()).unwrap();
        let real = fs::canonicalize(root.path()).unwrap();
        let (bin, workspace) = (real.join("bin"), real.join("workspace"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&workspace).unwrap();
        fs::create_dir_all(real.join(".openclaw")).unwrap();
        fs::write(real.join(".openclaw/openclaw.json"), config.to_string()).unwrap();
        let settings = Live::new(load(&Env::fixed([], &real), &Overrides::default()).unwrap());
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds));
        let store = Arc::new(SqliteStore::open(&real.join("clawgate.sqlite")).unwrap());
        let options = SessionsOptions {
            state_dir: real.clone(),
            rules: Arc::default(),
            format: settings.now().session.transcript_format,
            reset: settings.now().session.reset.clone(),
        };
        let sessions = Sessions::open(options, store, clock.clone(), ids.clone()).await.unwrap();
        let bus = Bus::new(Listeners(has_deciders));
        let approvals = Approvals::new(ApprovalsParts { settings, sessions, bus, clock, ids });
        Self { approvals, bin, workspace, root }
    }

    /// With these rules, and every program of every place allowed.
    async fn allowing_all(rules: &Value, has_deciders: bool) -> Self {
        let place = Self::new(&json!({}), has_deciders).await;
        let patterns = ["/**", "*"].map(|pattern| json!({"pattern": pattern}));
        place.rules(&json!({"version": 1, "defaults": rules,
            "agents": {"main": {"allowlist": patterns}}}));
        place
    }

    fn rules(&self, file: &Value) {
        fs::write(self.root.path().join(".openclaw/exec-approvals.json"), file.to_string())
            .unwrap();
    }

    fn program(&self, path: &Path) {
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Puts a program there for every name that the commands begin with.
    fn furnish(&self, commands: &[String]) {
        let is_name = |word: &&str| {
            word.chars().all(|letter| letter.is_ascii_alphanumeric() || "._+-".contains(letter))
                && !word.starts_with('.')
        };
        for command in commands {
            if let Some(word) = command.split_whitespace().next().filter(is_name)
                && word != "nowhere"
            {
                self.program(&self.bin.join(word));
            }
        }
        for name in ["tool", "tool-in-workspace"] {
            self.program(&self.workspace.join(name));
        }
        fs::remove_file(self.bin.join("tool-in-workspace")).unwrap_or_default();
        for place in [&self.bin, &self.workspace] {
            let link = place.join("shell-by-another-name");
            fs::remove_file(&link).unwrap_or_default();
            symlink("/bin/sh", link).unwrap();
        }
    }

    fn request(&self, command: &str) -> ExecRequest {
        let search = format!("{}:{}", self.bin.display(), self.workspace.display());
        ExecRequest {
            command: command.to_owned(),
            cwd: self.workspace.clone(),
            env: BTreeMap::from([("PATH".to_owned(), search)]),
            env_asked: [].into(),
            has_terminal: false,
            host: ExecHost::Gateway,
            agent: "main".to_owned(),
            workspace: self.workspace.clone(),
            session: SessionKey::parse("main", &KeyRules::default()),
            run_id: None,
            call_id: "call".to_owned(),
            security: None,
            ask: None,
        }
    }

    async fn decide(&self, request: &ExecRequest) -> Result<Permit, Denial> {
        timeout(SOON, self.approvals.authorize(request, &Silence)).await.expect("a decision")
    }

    /// What somebody is asked, where anybody is. The question is taken back.
    async fn question(&self, request: &ExecRequest) -> Option<Value> {
        let asked = async {
            while self.approvals.list(QuestionKind::Exec).is_empty() {
                tokio::task::yield_now().await;
            }
            self.approvals.list(QuestionKind::Exec)[0].request.clone()
        };
        tokio::select! {
            _ = self.approvals.authorize(request, &Silence) => None,
            asked = asked => Some(asked),
        }
    }

    /// Whether somebody is asked.
    async fn asks(&self, request: &ExecRequest) -> bool {
        let Some(asked) = self.question(request).await else { return false };
        assert_eq!(asked["command"], json!(request.command), "shown as it is");
        true
    }

    /// A request that sets a variable.
    fn setting(&self, command: &str, name: &str, value: &str) -> ExecRequest {
        let mut request = self.request(command);
        request.env.insert(name.to_owned(), value.to_owned());
        request.env_asked = [name.to_owned()].into();
        request
    }
}

fn reason(denied: &Denial) -> &str {
    denied.details["reason"].as_str().unwrap()
}

#[tokio::test]
async fn no_command_of_the_corpus_runs_without_a_person() {
    let commands = commands(BYPASSES);
    assert!(commands.len() >= 200, "{}", commands.len());
    let place = Place::allowing_all(&json!({"security": "allowlist", "ask": "off"}), true).await;
    place.furnish(&commands);
    let mut ran = Vec::new();
    for command in &commands {
        match place.decide(&place.request(command)).await {
            Err(denied) => assert_eq!(reason(&denied), "allowlist-miss", "{command:?}"),
            Ok(_) => ran.push(command),
        }
    }
    assert!(ran.is_empty(), "these would run: {ran:#?}");
}

#[tokio::test]
async fn a_person_is_asked_about_each_command_of_the_corpus_and_sees_it_whole() {
    let commands = commands(BYPASSES);
    let place =
        Place::allowing_all(&json!({"security": "allowlist", "ask": "on-miss"}), true).await;
    place.furnish(&commands);
    for command in &commands {
        assert!(place.asks(&place.request(command)).await, "{command:?}");
        assert!(place.approvals.list(QuestionKind::Exec).is_empty(), "the question is taken back");
    }
}

#[tokio::test]
async fn plain_commands_run_when_their_program_is_allowed_and_without_a_shell() {
    let commands = commands(LEGITIMATE);
    let place =
        Place::allowing_all(&json!({"security": "allowlist", "ask": "on-miss"}), true).await;
    place.furnish(&commands);
    for command in &commands {
        let request = place.request(command);
        let permit = place.decide(&request).await.unwrap_or_else(|denied| panic!("{denied:?}"));
        let launch = permit.redeem(&request).await.unwrap();
        let word = command.split_whitespace().next().unwrap();
        match launch.program {
            Program::Direct { path, name, .. } => {
                assert_eq!((path, name.as_str()), (place.bin.join(word), word), "{command}");
            }
            Program::Shell(_) => panic!("{command} is given to a shell"),
        }
        assert_eq!((launch.cwd, launch.env), (place.workspace.clone(), request.env));
    }
}

#[tokio::test]
async fn a_program_that_nobody_allowed_is_a_miss() {
    let place = Place::new(&json!({}), true).await;
    place.furnish(&["uname".into(), "id".into()]);
    let pattern = place.bin.join("uname");
    place.rules(&json!({"version": 1, "defaults": {"security": "allowlist"},
        "agents": {"main": {"allowlist": [{"pattern": pattern}]}}}));
    assert!(place.decide(&place.request("uname -s")).await.is_ok());
    for command in ["id", "./uname", "uname-x"] {
        let denied = place.decide(&place.request(command)).await.unwrap_err();
        assert_eq!(denied.text, "exec denied: allowlist miss", "{command}");
    }
    let other = ExecRequest { agent: "other".into(), ..place.request("uname -s") };
    assert!(place.decide(&other).await.is_err(), "the entry is another agent's");
}

#[tokio::test]
async fn variables_that_a_call_adds_need_a_person() {
    let place = Place::allowing_all(&json!({"security": "allowlist", "ask": "off"}), true).await;
    place.furnish(&["uname".into()]);
    let with = |name: &str| ExecRequest {
        env_asked: [name.to_owned()].into(),
        ..place.request("uname -s")
    };
    for name in ["LD_PRELOAD", "PATH", "BASH_ENV", "GIT_SSH_COMMAND", "PAGER", "lang", "X", ""] {
        assert!(place.decide(&with(name)).await.is_err(), "{name}");
    }
    for name in ["LANG", "LC_ALL", "TZ", "NO_COLOR"] {
        assert!(place.decide(&with(name)).await.is_ok(), "{name}");
    }
}

#[tokio::test]
async fn whoever_decides_sees_what_a_call_sets() {
    let place =
        Place::allowing_all(&json!({"security": "allowlist", "ask": "on-miss"}), true).await;
    place.furnish(&["uname".into()]);
    let request = place.setting("uname -s", "GNUTARGET", "it's\n\u{202e}x");
    let asked = place.question(&request).await.expect("it is asked about");
    let warning = "The call sets variables, which can change what the command does:\n\
                   GNUTARGET=$'it\\'s\\n\\u{202e}x'";
    assert_eq!(asked["warningText"], warning);
    assert_eq!(asked["envKeys"], json!(["GNUTARGET"]));
    // What only changes how things look is not asked about.
    assert_eq!(place.question(&place.setting("uname -s", "LANG", "C")).await, None);
    let asked = place.question(&place.setting("id | sort", "LANG", "C")).await.unwrap();
    assert_eq!(asked["warningText"], Value::Null);
    let long = place.setting("uname -s", "GNUTARGET", &"x".repeat(SHOWN_MAX));
    let denied = place.decide(&long).await.unwrap_err();
    assert_eq!(reason(&denied), "command-too-long", "it is not shown in part");
}

#[tokio::test]
async fn what_the_text_hides_is_warned_of() {
    let place = Place::new(&json!({"tools": {"exec": {"ask": "always"}}}), true).await;
    for (command, begin) in [
        ("ls\u{2800}x".to_owned(), "The command has characters that are not shown"),
        (format!("ls{}; id", " ".repeat(50)), "The command has many blanks in one place"),
    ] {
        let asked = place.question(&place.request(&command)).await.unwrap();
        let warning = asked["warningText"].as_str().unwrap();
        assert!(warning.starts_with(begin), "{warning}");
        assert_eq!(asked["commandAnalysis"]["warningLines"], json!([warning]));
    }
}

#[tokio::test]
async fn a_command_in_a_terminal_needs_a_person_each_time() {
    let in_terminal =
        |place: &Place| ExecRequest { has_terminal: true, ..place.request("uname -s") };
    let place = Place::allowing_all(&json!({"security": "allowlist", "ask": "off"}), true).await;
    place.furnish(&["uname".into()]);
    assert!(place.decide(&place.request("uname -s")).await.is_ok());
    let denied = place.decide(&in_terminal(&place)).await.unwrap_err();
    assert_eq!(reason(&denied), "allowlist-miss");
    let place =
        Place::allowing_all(&json!({"security": "allowlist", "ask": "on-miss"}), true).await;
    place.furnish(&["uname".into()]);
    let asked = place.question(&in_terminal(&place)).await.expect("it is asked about");
    assert_eq!(asked["allowedDecisions"], json!(["allow-once", "deny"]));
    let warning = asked["warningText"].as_str().unwrap();
    assert!(warning.starts_with("It runs in a terminal"), "{warning}");
}

#[tokio::test]
async fn a_permit_is_worth_nothing_for_anything_else() {
    let place = Place::new(&json!({}), true).await;
    let other_dir = place.bin.clone();
    let request = place.request("echo $HOME");
    let mut others = vec![
        ("command", ExecRequest { command: "echo $HOME ".into(), ..request.clone() }),
        ("agent", ExecRequest { agent: "other".into(), ..request.clone() }),
        ("call", ExecRequest { call_id: "other".into(), ..request.clone() }),
        ("host", ExecRequest { host: ExecHost::Sandbox, ..request.clone() }),
        ("cwd", ExecRequest { cwd: other_dir, ..request.clone() }),
        ("terminal", ExecRequest { has_terminal: true, ..request.clone() }),
    ];
    let session = SessionKey::parse("other", &KeyRules::default());
    others.push(("session", ExecRequest { session, ..request.clone() }));
    for (name, value) in [("PATH", "/x"), ("NEW", "1")] {
        let mut env = request.env.clone();
        env.insert(name.into(), value.into());
        others.push((name, ExecRequest { env, ..request.clone() }));
    }
    let without = ExecRequest { env: BTreeMap::new(), ..request.clone() };
    others.push(("no env", without));
    for (what, other) in others {
        let permit = place.decide(&request).await.unwrap();
        let denied = permit.redeem(&other).await.unwrap_err();
        assert_eq!(reason(&denied), "changed-since-approval", "{what}");
    }
    let launch = place.decide(&request).await.unwrap().redeem(&request).await.unwrap();
    assert_eq!(launch.program, Program::Shell("echo $HOME".into()));
}

#[tokio::test]
async fn a_directory_that_is_another_by_now_takes_the_permit_away() {
    let place = Place::new(&json!({}), true).await;
    let (one, two, link) =
        (place.workspace.join("one"), place.workspace.join("two"), place.workspace.join("link"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    symlink(&one, &link).unwrap();
    let request = ExecRequest { cwd: link.clone(), ..place.request("ls") };
    let permit = place.decide(&request).await.unwrap();
    assert_eq!(permit.redeem(&request).await.unwrap().cwd, one, "it runs behind the link");

    let permit = place.decide(&request).await.unwrap();
    fs::remove_file(&link).unwrap();
    symlink(&two, &link).unwrap();
    assert_eq!(reason(&permit.redeem(&request).await.unwrap_err()), "changed-since-approval");

    let permit = place.decide(&request).await.unwrap();
    fs::rename(&two, place.workspace.join("away")).unwrap();
    fs::create_dir(&two).unwrap();
    assert_eq!(reason(&permit.redeem(&request).await.unwrap_err()), "changed-since-approval");

    let permit = place.decide(&request).await.unwrap();
    fs::remove_dir(&two).unwrap();
    assert_eq!(reason(&permit.redeem(&request).await.unwrap_err()), "cwd-unavailable");
}

#[tokio::test]
async fn a_program_that_is_another_by_now_takes_the_permit_away() {
    let place = Place::allowing_all(&json!({"security": "allowlist", "ask": "off"}), true).await;
    place.furnish(&["uname".into()]);
    let request = place.request("uname -s");
    let permit = place.decide(&request).await.unwrap();
    fs::write(place.bin.join("uname"), "#!/bin/sh\nid\n").unwrap();
    assert_eq!(reason(&permit.redeem(&request).await.unwrap_err()), "changed-since-approval");
}

/// Commands that this program keeps.
fn processes(place: &Place, launcher: PathBuf) -> Arc<Processes> {
    let settings = load(&Env::fixed([], place.root.path()), &Overrides::default()).unwrap();
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds));
    Arc::new(Processes::new(Live::new(settings), launcher, clock, ids, Tasks::default()))
}

#[tokio::test]
async fn a_command_has_nothing_open_that_its_launcher_was_started_with() {
    let place = Place::new(&json!({}), true).await;
    let launcher = place.root.path().join("launcher");
    // Each of its steps finds something open.
    let text =
        format!("#!/bin/sh\nexec 7</etc/passwd 8</etc/passwd\nexec '{}' \"$@\"\n", program());
    fs::write(&launcher, text).unwrap();
    fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).unwrap();
    let processes = processes(&place, launcher);
    let request = place.request("for fd in 7 8; do [ -e /dev/fd/$fd ] && echo $fd; done; echo end");
    let permit = place.decide(&request).await.unwrap();
    let how = How { time_limit: Some(SOON), sandbox: ExecSandbox::Off };
    let process = processes.start(permit, &request, how).await.unwrap();
    timeout(SOON, process.gone()).await.expect("it ends");
    assert_eq!(process.look(|state| state.output.text().to_owned()), "end\n");
}

#[tokio::test]
async fn a_start_that_is_given_up_takes_no_place_among_the_commands() {
    let place = Place::new(&json!({}), true).await;
    let processes = processes(&place, program().into());
    let request = place.request("true");
    let permit = place.decide(&request).await.unwrap();
    let how = How { time_limit: None, sandbox: ExecSandbox::Off };
    let mut start = Box::pin(processes.start(permit, &request, how));
    while processes.count() == 0 {
        assert!(futures_util::poll!(&mut start).is_pending(), "given up before it has begun");
        tokio::task::yield_now().await;
    }
    drop(start);
    assert_eq!(processes.count(), 0);
    assert!(processes.of_session(&request.session).is_empty());
}

#[tokio::test]
async fn a_command_that_is_removed_counts_until_it_is_gone_and_is_found_no_more() {
    let place = Place::new(&json!({}), true).await;
    let processes = processes(&place, program().into());
    let request = place.request("trap '' TERM; echo ready; /bin/sleep 600; /bin/sleep 600");
    let permit = place.decide(&request).await.unwrap();
    let how = How { time_limit: None, sandbox: ExecSandbox::Off };
    let process = processes.start(permit, &request, how).await.unwrap();
    assert_eq!(process.put_to_background().await, None);
    let mut news = process.follow();
    while !process.look(|state| state.output.text().contains("ready")) {
        timeout(SOON, news.changed()).await.expect("it begins").unwrap();
    }
    processes.remove(&process);
    assert!(processes.find(&request.session, &process.id).is_none());
    assert_eq!(processes.count(), 1, "it takes a second to be ended");
    timeout(SOON, process.gone()).await.expect("it is ended");
    let forgotten = async {
        while !processes.of_session(&request.session).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, forgotten).await.expect("it is forgotten");
}

#[tokio::test]
async fn a_command_that_is_too_long_to_be_shown_whole_is_refused() {
    let place = Place::new(&json!({"tools": {"exec": {"ask": "always"}}}), true).await;
    let longest = format!("echo {}", "x".repeat(SHOWN_MAX - 5));
    assert!(place.asks(&place.request(&longest)).await);
    let denied = place.decide(&place.request(&format!("{longest}x"))).await.unwrap_err();
    assert_eq!(reason(&denied), "command-too-long");
    assert!(place.approvals.list(QuestionKind::Exec).is_empty());
}

#[tokio::test]
async fn silence_is_never_a_yes() {
    let config = json!({"tools": {"exec": {"ask": "always", "approvalTimeoutMs": 1}}});
    let place = Place::new(&config, true).await;
    let denied = place.decide(&place.request("uname")).await.unwrap_err();
    assert_eq!(reason(&denied), "approval-timeout");
    for fallback in ["deny", "allowlist", "full", "nonsense"] {
        let place = Place::new(&config, false).await;
        place.furnish(&["uname".into()]);
        place.rules(&json!({"version": 1, "defaults": {"askFallback": fallback}}));
        let denied = place.decide(&place.request("uname")).await.unwrap_err();
        assert_eq!(reason(&denied), "no-approval-route", "{fallback}");
    }
}

#[tokio::test]
async fn with_nobody_to_ask_the_allowlist_is_enough_only_where_that_is_said() {
    for security in ["allowlist", "full"] {
        for (fallback, runs) in [("deny", false), ("allowlist", true), ("full", true)] {
            let rules = json!({"security": security, "ask": "always", "askFallback": fallback});
            let place = Place::allowing_all(&rules, false).await;
            place.furnish(&["uname".into()]);
            let request = place.request("uname -s");
            let permit = place.decide(&request).await;
            assert_eq!(permit.is_ok(), runs, "{security} {fallback}");
            assert!(place.decide(&place.request("uname | id")).await.is_err());
            let Ok(permit) = permit else { continue };
            let program = permit.redeem(&request).await.unwrap().program;
            assert!(matches!(program, Program::Direct { .. }), "{security}: {program:?}");
            let noted = place.approvals.file().await.unwrap().file;
            let mut list = noted["agents"]["main"]["allowlist"].as_array().unwrap().iter();
            let is_noted = list.any(|entry| entry["lastUsedCommand"] == "uname -s");
            assert!(is_noted, "{security}: {noted}");
            let permit = place.decide(&request).await.unwrap();
            fs::write(place.bin.join("uname"), "another program").unwrap();
            let denied = permit.redeem(&request).await.unwrap_err();
            assert_eq!(reason(&denied), "changed-since-approval", "{security}");
        }
    }
}

#[tokio::test]
async fn with_nobody_to_ask_the_allowlist_is_not_the_yes_that_a_guardrail_wants() {
    let config = json!({"tools": {"guardrails": {"enabled": true}}});
    for security in ["allowlist", "full"] {
        let place = Place::new(&config, false).await;
        place.furnish(&["uname".into()]);
        place.rules(&json!({"version": 1,
            "defaults": {"security": security, "ask": "always", "askFallback": "allowlist"},
            "agents": {"main": {"allowlist": [{"pattern": "/**"}]}}}));
        let request = place.request("uname -s");
        assert!(place.decide(&request).await.is_ok(), "{security}: the file has it asked");
        let guarded = ExecRequest { ask: Some(ExecAsk::Always), ..request };
        let denied = place.decide(&guarded).await.unwrap_err();
        assert_eq!(reason(&denied), "no-approval-route", "{security}");
    }
}

#[tokio::test]
async fn an_agent_that_there_is_not_is_bound_by_what_binds_the_default_one() {
    let config = json!({"agents": {"list": [
        {"id": "main", "default": true, "tools": {"exec": {"security": "deny"}}}, {"id": "ops"}]}});
    let place = Place::new(&config, true).await;
    place.furnish(&["uname".into()]);
    for (agent, runs) in [("main", false), ("ghost", false), ("ops", true)] {
        let request = ExecRequest { agent: agent.into(), ..place.request("uname") };
        assert_eq!(place.decide(&request).await.is_ok(), runs, "{agent}");
    }
}

#[tokio::test]
async fn guardrails_shorten_only_the_questions_that_they_may_have_asked_for() {
    let config = json!({"tools": {"exec": {"ask": "always"}, "guardrails": {"enabled": true}}});
    let place = Place::new(&config, true).await;
    let waits = async || {
        while place.approvals.list(QuestionKind::Exec).is_empty() {
            tokio::task::yield_now().await;
        }
        let questions = place.approvals.list(QuestionKind::Exec);
        Duration::from_millis(questions[0].expires_at - questions[0].created_at)
    };
    for (ask, limit) in [(None, 30), (Some(ExecAsk::Always), 5)] {
        let here = ExecRequest { ask, ..place.request("uname") };
        let waited = tokio::select! {
            decided = place.decide(&here) => panic!("{decided:?}"),
            waited = waits() => waited,
        };
        assert_eq!(waited, Duration::from_mins(limit), "{ask:?}");
        let there = ExecRequest { host: ExecHost::Node, ..here };
        let (plan, env) = (json!({"argv": ["uname"], "cwd": null}), BTreeMap::new());
        let run = NodeRun { request: &there, node_id: "n", plan: &plan, env: &env };
        let rules = place.approvals.rules_on_node(&there).await.unwrap();
        let waited = tokio::select! {
            decided = place.approvals.authorize_on_node(&rules, run, &Silence) => {
                panic!("{decided:?}")
            }
            waited = waits() => waited,
        };
        assert_eq!(waited, Duration::from_mins(limit), "{ask:?} on a node");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_a_no() {
    let place = Place::new(&json!({}), true).await;
    assert!(place.decide(&place.request("uname")).await.is_ok());
    let file = place.root.path().join(".openclaw/exec-approvals.json");
    for text in ["", "{", "{\"version\": 9}", "{\"agents\": []}"] {
        fs::write(&file, text).unwrap();
        let denied = place.decide(&place.request("uname")).await.unwrap_err();
        assert_eq!(reason(&denied), "approvals-file-unavailable", "{text:?}");
    }
    for rules in [json!({"security": "none"}), json!({"security": 1}), json!({"ask": "never"})] {
        place.rules(&json!({"version": 1, "defaults": rules}));
        let is_asked = rules.get("ask").is_some();
        let request = place.request("uname");
        assert_eq!(place.asks(&request).await, is_asked, "{rules}: what nobody knows is strict");
    }
}
