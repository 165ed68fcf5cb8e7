use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tokio::time::Instant;

use serde_json::Value;

use super::*;
use crate::config::schema::Node;
use crate::config::{Paths, secrets};
use crate::support::json;

const KEY: &str = "sk-very-hidden";

fn paths(home: &Path) -> Paths {
    Paths::resolve(&Env::fixed([], home)).unwrap()
}

fn config(home: &Path, providers: &Value) -> SecretsConfig {
    let value = json!({ "providers": providers });
    secrets::read(&Node::root(&value, Path::new("f")), &paths(home)).unwrap()
}

fn reference(source: &str, provider: &str, id: &str) -> SecretRef {
    serde_json::from_value(json!({"source": source, "provider": provider, "id": id})).unwrap()
}

fn write(path: &Path, mode: u32, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The secrets in the order asked, or why there is none.
async fn ask(home: &Path, providers: Value, wanted: &[SecretRef]) -> Vec<Result<String, String>> {
    let env = Env::fixed([("SET", KEY), ("OTHER", "o")], home);
    let references = wanted.iter().cloned().collect();
    let (found, lost) = resolve(&references, &config(home, &providers), &env).await;
    let answer = |reference: &SecretRef| match found.get(reference) {
        Some(secret) => Ok(secret.expose().to_owned()),
        None => Err(lost.iter().find(|(lost, _)| lost == reference).unwrap().1.to_string()),
    };
    let answers: Vec<_> = wanted.iter().map(answer).collect();
    assert!(!format!("{lost:?}").contains(KEY), "{lost:?}");
    answers
}

#[tokio::test]
async fn variables_are_found_without_a_provider_and_only_those_on_a_list_with_one() {
    let home = tempfile::tempdir().unwrap();
    let providers = json!({"few": {"source": "env", "allowlist": ["OTHER"]}});
    let wanted = [
        reference("env", "default", "SET"),
        reference("env", "default", "UNSET"),
        reference("env", "few", "OTHER"),
        reference("env", "few", "SET"),
        reference("env", "gone", "SET"),
    ];
    let answers = ask(home.path(), providers, &wanted).await;
    assert_eq!(
        answers,
        [
            Ok(KEY.to_owned()),
            Err("the environment variable UNSET is not set".into()),
            Ok("o".into()),
            Err("secrets.providers.few.allowlist does not name SET".into()),
            Err("secrets.providers.gone: there is no such provider with source env".into()),
        ]
    );
}

#[tokio::test]
async fn a_file_gives_its_json_members_or_itself() {
    let home = tempfile::tempdir().unwrap();
    let json = json!({"providers": {"a/b": {"key": KEY}}, "empty": "", "number": 5});
    write(&home.path().join("s.json"), 0o600, &json.to_string());
    write(&home.path().join("one"), 0o400, &format!("{KEY}\n"));
    let path = |name: &str| home.path().join(name).display().to_string();
    let providers = json!({
        "many": {"source": "file", "path": path("s.json")},
        "one": {"source": "file", "path": path("one"), "mode": "singleValue"},
        "gone": {"source": "file", "path": path("gone")},
    });
    let wanted = [
        reference("file", "many", "/providers/a~1b/key"),
        reference("file", "one", "value"),
        reference("file", "many", "/empty"),
        reference("file", "many", "/number"),
        reference("file", "one", "/x"),
    ];
    let answers = ask(home.path(), providers.clone(), &wanted).await;
    assert_eq!(answers[..2], [Ok(KEY.to_owned()), Ok(KEY.to_owned())]);
    assert_eq!(answers[2], Err("secrets.providers.many has no secret /empty".into()));
    assert!(answers[3].is_err() && answers[4].is_err());
    let gone = ask(home.path(), providers, &[reference("file", "gone", "/x")]).await;
    assert!(gone[0].as_ref().unwrap_err().starts_with("cannot use"), "{gone:?}");
}

#[tokio::test]
async fn a_file_that_others_can_read_or_that_is_none_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    write(&path, 0o640, KEY);
    let providers = |insecure: bool| {
        json!({"f": {"source": "file", "path": path.display().to_string(), "mode": "singleValue",
            "allowInsecurePath": insecure, "maxBytes": 64}})
    };
    let wanted = [reference("file", "f", "value")];
    let refused = ask(home.path(), providers(false), &wanted).await;
    let why = refused[0].as_ref().unwrap_err();
    assert!(why.contains("is open to others (mode 640)"), "{why}");
    assert_eq!(ask(home.path(), providers(true), &wanted).await, [Ok(KEY.to_owned())]);
    write(&path, 0o600, &"x".repeat(65));
    let long = ask(home.path(), providers(false), &wanted).await;
    assert!(long[0].as_ref().unwrap_err().ends_with("gives more than 64 bytes"), "{long:?}");
    fs::remove_file(&path).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    let pipe = ask(home.path(), providers(true), &wanted).await;
    assert!(pipe[0].as_ref().unwrap_err().ends_with("is not a regular file"), "{pipe:?}");
}

fn program(home: &Path, name: &str, script: &str) -> String {
    let path = home.join(name);
    write(&path, 0o755, &format!("#!/bin/sh\n{script}\n"));
    path.display().to_string()
}

#[tokio::test]
async fn a_program_is_asked_once_for_all_and_gets_only_its_own_variables() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let script = format!(
        "read question\necho \"$question $MINE $SET ${{OTHER-none}}\" >> {}\n\
         printf '{{\"protocolVersion\":1,\"values\":{{\"a\":\"A\",\"b/c\":\"%s\"}},\"errors\":{{\"d\":{{\"message\":\"{KEY}\"}}}}}}' \"$SET\"",
        log.display()
    );
    let command = program(home.path(), "vault", &script);
    let providers = json!({"vault": {"source": "exec", "command": command, "passEnv": ["SET"],
        "env": {"MINE": "m", "PATH": "/usr/bin:/bin"}}});
    let wanted = ["a", "b/c", "d"].map(|id| reference("exec", "vault", id));
    let answers = ask(home.path(), providers, &wanted).await;
    assert_eq!(answers[..2], [Ok("A".to_owned()), Ok(KEY.to_owned())]);
    assert_eq!(answers[2], Err("secrets.providers.vault has no secret d".into()));
    let asked = fs::read_to_string(log).unwrap();
    assert_eq!(
        asked,
        format!(
            "{{\"protocolVersion\":1,\"provider\":\"vault\",\"ids\":[\"a\",\"b/c\",\"d\"]}} m {KEY} none\n"
        )
    );
}

#[tokio::test]
async fn plain_text_is_an_answer_only_when_that_is_allowed_and_one_secret_is_wanted() {
    let home = tempfile::tempdir().unwrap();
    let command = program(home.path(), "plain", &format!("echo {KEY}"));
    let provider = |json_only: bool| json!({"p": {"source": "exec", "command": command, "jsonOnly": json_only}});
    let one = [reference("exec", "p", "value")];
    assert_eq!(ask(home.path(), provider(false), &one).await, [Ok(KEY.to_owned())]);
    let refused = ask(home.path(), provider(true), &one).await;
    assert!(refused[0].as_ref().unwrap_err().ends_with("its answer is not JSON"), "{refused:?}");
    // A program that says nothing knows no secret.
    program(home.path(), "plain", "echo");
    let empty = ask(home.path(), provider(false), &one).await;
    let none = "secrets.providers.p has no secret value";
    assert_eq!(empty, [Err(none.to_owned())]);
}

/// Waits until a file is there.
async fn comes(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} does not come", path.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the process is dead.
async fn dies(pid: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_dead(pid) {
        assert!(Instant::now() < deadline, "process {pid} lives on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether the process is gone, or dead and not yet collected by its parent.
fn is_dead(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
        || !Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn a_program_that_hangs_is_killed_with_all_it_started() {
    let home = tempfile::tempdir().unwrap();
    let pid_file = home.path().join("pid");
    let script = format!("/bin/sleep 60 &\necho $! > {}\nwait", pid_file.display());
    let command = program(home.path(), "hang", &script);
    let providers = json!({"p": {"source": "exec", "command": command, "timeoutMs": 1000}});
    let answers = ask(home.path(), providers, &[reference("exec", "p", "a")]).await;
    assert!(answers[0].as_ref().unwrap_err().ends_with("did not answer within 1s"), "{answers:?}");
    dies(fs::read_to_string(pid_file).unwrap().trim()).await;
}

#[tokio::test]
async fn a_program_that_nobody_waits_for_any_more_is_killed_with_all_it_started() {
    let home = tempfile::tempdir().unwrap();
    let [written, pid_file] = ["written", "pid"].map(|name| home.path().join(name));
    let script = format!(
        "/bin/sleep 60 &\necho $! > {0}\n/bin/mv {0} {1}\nwait",
        written.display(),
        pid_file.display()
    );
    let command = program(home.path(), "hang", &script);
    let providers = json!({"p": {"source": "exec", "command": command, "timeoutMs": 60_000,
        "noOutputTimeoutMs": 60_000}});
    let one = [reference("exec", "p", "a")];
    tokio::select! {
        answers = ask(home.path(), providers, &one) => panic!("{answers:?}"),
        () = comes(&pid_file) => {}
    }
    dies(fs::read_to_string(pid_file).unwrap().trim()).await;
}

#[tokio::test]
async fn a_program_that_others_can_change_or_that_is_elsewhere_is_not_run() {
    let home = tempfile::tempdir().unwrap();
    let command = program(home.path(), "ok", &format!("echo {KEY}"));
    let link = home.path().join("link");
    std::os::unix::fs::symlink(&command, &link).unwrap();
    let ask_with = async |more: Value| {
        let mut provider = json!({"source": "exec", "command": command, "jsonOnly": false});
        for (name, value) in more.as_object().unwrap() {
            provider[name] = value.clone();
        }
        ask(home.path(), json!({ "p": provider }), &[reference("exec", "p", "a")]).await.remove(0)
    };
    let link = json!({"command": link.display().to_string()});
    assert!(ask_with(link.clone()).await.unwrap_err().contains("is a symbolic link"));
    let mut followed = link;
    followed["allowSymlinkCommand"] = true.into();
    followed["trustedDirs"] = json!([home.path().display().to_string()]);
    assert_eq!(ask_with(followed).await, Ok(KEY.to_owned()));
    let elsewhere = ask_with(json!({"trustedDirs": ["/usr"]})).await.unwrap_err();
    assert!(elsewhere.ends_with("is in none of trustedDirs"), "{elsewhere}");
    fs::set_permissions(&command, Permissions::from_mode(0o777)).unwrap();
    assert!(ask_with(json!({})).await.unwrap_err().contains("is open to others (mode 777)"));
    let failing = program(home.path(), "bad", &format!("echo {KEY}; exit 3"));
    let failed = ask_with(json!({ "command": failing })).await.unwrap_err();
    assert!(failed.ends_with("ended with exit status: 3"), "{failed}");
}

#[test]
fn a_provider_that_makes_no_sense_is_named_by_its_path() {
    let home = tempfile::tempdir().unwrap();
    let error = |provider: Value| {
        let value = json!({"providers": {"p": provider}});
        secrets::read(&Node::root(&value, Path::new("f")), &paths(home.path()))
            .unwrap_err()
            .to_string()
    };
    for (provider, why) in [
        (json!({}), "providers.p.source: is missing; it must be one of env, file, exec (in f)"),
        (json!({"source": "web"}), "providers.p.source: must be one of env, file, exec (in f)"),
        (json!({"source": "file"}), "providers.p.path: is missing; it must be a path (in f)"),
        (
            json!({"source": "exec", "command": "sh"}),
            "providers.p.command: must be an absolute path (in f)",
        ),
    ] {
        assert_eq!(error(provider), why);
    }
}

#[tokio::test]
async fn a_program_is_asked_once_until_a_reload_that_changes_all_or_nothing() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("vault");
    let count = home.path().join("asked");
    let script = |value: &str| {
        let answer = json!({"protocolVersion": 1, "values": {"a": value}});
        write(
            &path,
            0o700,
            &format!("#!/bin/sh\necho x >> {}\necho '{answer}'\n", count.display()),
        );
    };
    script("old");
    let providers = json!({"v": {"source": "exec", "command": path.display().to_string()}});
    let (config, env) = (config(home.path(), &providers), Env::fixed([], home.path()));
    let a = reference("exec", "v", "a");
    let wanted = BTreeSet::from([a.clone()]);
    let shared = config.clone();
    for config in [&config, &shared, &config] {
        let (found, lost) = resolve(&wanted, config, &env).await;
        assert!(lost.is_empty());
        assert_eq!(found.get(&a).unwrap().expose(), "old");
    }
    let asked = || fs::read_to_string(&count).unwrap().lines().count();
    assert_eq!(asked(), 1);
    script("new");
    let both = BTreeSet::from([a.clone(), reference("env", "default", "UNSET")]);
    let none = BTreeSet::new();
    let lost = reload(&both, &none, &config, &env).await.unwrap_err();
    assert_eq!(lost.len(), 1);
    let known = |found: ResolvedSecrets| found.get(&a).unwrap().expose().to_owned();
    assert_eq!(known(resolve(&wanted, &config, &env).await.0), "old");
    // What only a skill or a profile names, but a program has told, is asked for too.
    reload(&none, &none, &config, &env).await.unwrap();
    assert_eq!(known(resolve(&wanted, &shared, &env).await.0), "new");
    assert_eq!(asked(), 3);
    // One that may be missing keeps what it was.
    fs::remove_file(&path).unwrap();
    let (_, lost) = reload(&none, &wanted, &config, &env).await.unwrap();
    assert_eq!(lost.len(), 1);
    assert_eq!(known(resolve(&wanted, &config, &env).await.0), "new");
}

#[tokio::test]
async fn what_a_program_was_asked_before_a_reload_is_not_remembered_after_it() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let answer = json!({"protocolVersion": 1, "values": {"a": "VALUE"}});
    let script = format!(
        "cd {}\nread value < value\n: > asked-$value\n\
         while [ ! -e let-$value ]; do /bin/sleep 0.01; done\necho '{}'",
        home.path().display(),
        answer.to_string().replace("VALUE", "'$value'")
    );
    let command = program(home.path(), "vault", &script);
    let vault = json!({"source": "exec", "command": command, "timeoutMs": 60_000});
    let config = config(home.path(), &json!({ "v": vault }));
    let env = Env::fixed([], home.path());
    let a = reference("exec", "v", "a");
    let (wanted, none) = (BTreeSet::from([a.clone()]), BTreeSet::new());
    let known = |found: ResolvedSecrets| found.get(&a).unwrap().expose().to_owned();
    fs::write(at("value"), "old\n").unwrap();
    let slow = resolve(&wanted, &config, &env);
    let reloads = async {
        comes(&at("asked-old")).await;
        fs::write(at("value"), "new\n").unwrap();
        fs::write(at("let-new"), "").unwrap();
        let (found, _) = reload(&wanted, &none, &config, &env).await.unwrap();
        fs::write(at("let-old"), "").unwrap();
        found
    };
    let ((before, _), after) = tokio::join!(slow, reloads);
    assert_eq!((known(before), known(after)), ("old".into(), "new".into()));
    assert_eq!(known(resolve(&wanted, &config, &env).await.0), "new");
}
