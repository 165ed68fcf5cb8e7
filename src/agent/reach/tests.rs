use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::testing::Scene;

fn read(reach: &Reach, path: &str) -> Result<String, ReachError> {
    let bytes = reach.find(path)?.read(1000)?;
    Ok(String::from_utf8(bytes).unwrap())
}

fn write(reach: &Reach, path: &str, text: &str) -> Result<(), ReachError> {
    reach.find_or_make(path)?.place.replace(text.as_bytes())
}

#[test]
fn files_are_written_whole_and_keep_their_rights() {
    let scene = Scene::new();
    for only_workspace in [true, false] {
        let reach = scene.reach(only_workspace);
        write(&reach, "a/b/c.txt", "one").unwrap();
        assert_eq!(read(&reach, "a/b/c.txt").unwrap(), "one");
        let path = scene.at_home(".openclaw/workspace/a/b/c.txt");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
        write(&reach, path.to_str().unwrap(), "two").unwrap();
        assert_eq!(read(&reach, "@a/b/c.txt").unwrap(), "two");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o751);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
        write(&reach, "a/b/c.txt", "three").unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o755);
        let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing is left over");
        fs::remove_dir_all(scene.at_home(".openclaw/workspace/a")).unwrap();
    }
}

#[test]
fn what_is_made_in_a_workspace_is_its_users_only() {
    let scene = Scene::new();
    let mode = |name: &str| scene.at_home(name).metadata().unwrap().permissions().mode() & 0o777;
    for only_workspace in [true, false] {
        write(&scene.reach(only_workspace), "new/deep/x.txt", "x").unwrap();
        for (name, expected) in [("new/deep/x.txt", 0o600), ("new/deep", 0o700), ("new", 0o700)] {
            assert_eq!(mode(&format!(".openclaw/workspace/{name}")), expected, "{name}");
        }
        fs::remove_dir_all(scene.path("new")).unwrap();
    }
    // Elsewhere the umask says it, as for anything else that the user makes there.
    fs::write(scene.at_home("own"), "").unwrap();
    write(&scene.reach(false), scene.at_home("told").to_str().unwrap(), "x").unwrap();
    assert_eq!(mode("told"), mode("own"));
}

#[test]
fn a_link_is_followed_where_it_may_lead_and_stays_a_link() {
    let scene = Scene::new();
    scene.put_at_home(".openclaw/workspace/real/x.txt", "one");
    let link = scene.at_home(".openclaw/workspace/link.txt");
    symlink("real/x.txt", &link).unwrap();
    let inner = scene.at_home(".openclaw/workspace/absolute.txt");
    symlink(scene.at_home(".openclaw/workspace/real/x.txt"), &inner).unwrap();
    for only_workspace in [true, false] {
        let reach = scene.reach(only_workspace);
        write(&reach, "link.txt", "two").unwrap();
        assert_eq!(read(&reach, "absolute.txt").unwrap(), "two");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(
            reach.find("link.txt").unwrap().id().unwrap(),
            reach.find("real/../real/x.txt").unwrap().id().unwrap()
        );
    }
}

#[test]
fn links_in_a_circle_are_an_error() {
    let scene = Scene::new();
    symlink("b", scene.at_home(".openclaw/workspace/a")).unwrap();
    symlink("a", scene.at_home(".openclaw/workspace/b")).unwrap();
    for only_workspace in [true, false] {
        let error = read(&scene.reach(only_workspace), "a").unwrap_err();
        assert_eq!(error.code(), Some("ELOOP"), "{error}");
    }
}

#[test]
fn the_workspace_is_not_left_when_it_is_all_there_is() {
    let scene = Scene::new();
    let secret = scene.put_at_home("outside/secret.txt", "secret");
    let workspace = scene.at_home(".openclaw/workspace");
    symlink(&secret, workspace.join("file-link")).unwrap();
    symlink("../../outside/secret.txt", workspace.join("relative-link")).unwrap();
    symlink(scene.at_home("outside"), workspace.join("folder-link")).unwrap();
    let reach = scene.reach(true);
    let absolute = secret.to_str().unwrap();
    for path in [
        "../../outside/secret.txt",
        "a/../../../outside/secret.txt",
        absolute,
        "file-link",
        "relative-link",
        "folder-link/secret.txt",
        "folder-link/new.txt",
        "~/outside/secret.txt",
    ] {
        for error in [read(&reach, path).unwrap_err(), write(&reach, path, "x").unwrap_err()] {
            let text = error.to_string();
            let is_refused = matches!(error, ReachError::Outside(_)) || error.is_missing();
            assert!(is_refused, "{path}: {text}");
            assert!(!text.contains("secret\n"));
        }
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    assert!(!scene.at_home("outside/new.txt").exists());
    // Without the limit the same paths are files like others.
    assert_eq!(read(&scene.reach(false), "folder-link/secret.txt").unwrap(), "secret");
}

#[test]
fn the_gateways_own_files_are_out_of_reach_by_any_name() {
    let scene = Scene::new();
    let own = [
        "openclaw.json",
        "openclaw.json.bak",
        "gateway-token",
        "clawgate.sqlite",
        "clawgate.sqlite-wal",
        "credentials/oauth.json",
        "identity/device.json",
        "agents/main/agent/auth-profiles.json",
        "exec-approvals.json",
        "agents/main/sessions/x.jsonl",
        "anything-else",
    ];
    let workspace = scene.at_home(".openclaw/workspace");
    symlink("..", workspace.join("up")).unwrap();
    for only_workspace in [true, false] {
        let reach = scene.reach(only_workspace);
        for name in own {
            let path = scene.put_at_home(&format!(".openclaw/{name}"), "canary");
            let hard = workspace.join("hard");
            fs::hard_link(&path, &hard).unwrap();
            let soft = workspace.join("soft");
            symlink(&path, &soft).unwrap();
            let through = format!("up/{name}");
            let spelled = format!("../workspace/../{name}");
            // A transcript is kept from other names of its folder only.
            let is_secret = !name.contains("sessions");
            let names = [path.to_str().unwrap(), "soft", &through, &spelled];
            for path in names.into_iter().chain(is_secret.then_some("hard")) {
                let read = read(&reach, path);
                assert!(read.is_err(), "{path} ({only_workspace}): {name}");
                assert!(write(&reach, path, "x").is_err(), "{path}: {name}");
                let removed = reach.find(path).and_then(|place| place.remove());
                assert!(removed.is_err(), "{path}: {name}");
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), "canary");
            fs::remove_file(hard).unwrap();
            fs::remove_file(soft).unwrap();
        }
        let fresh = scene.at_home(".openclaw/new/deep/file");
        assert!(write(&reach, fresh.to_str().unwrap(), "x").is_err());
        assert!(!scene.at_home(".openclaw/new").exists(), "no folder is made there");
    }
}

#[test]
fn what_models_are_told_of_in_the_state_directory_is_open() {
    let scene = Scene::new();
    let reach = scene.reach(false);
    for name in ["media/inbound/a.txt", "skills/x/SKILL.md", "exec-output/1.log", "workspace/x"] {
        let path = scene.put_at_home(&format!(".openclaw/{name}"), "seen");
        assert_eq!(read(&reach, path.to_str().unwrap()).unwrap(), "seen");
    }
}

#[test]
fn a_workspace_around_the_state_directory_does_not_open_it() {
    let mut scene = Scene::new();
    let token = scene.put_at_home(".openclaw/gateway-token", "canary");
    for workspace in
        [scene.at_home(""), scene.at_home(".openclaw"), scene.at_home(".openclaw/agents")]
    {
        fs::create_dir_all(&workspace).unwrap();
        let keys = scene.put_at_home(".openclaw/agents/main/agent/auth-profiles.json", "canary");
        scene.settings.agents.list[0].workspace = workspace;
        for reach in [scene.reach(true), scene.reach(false)] {
            for path in [&token, &keys] {
                assert!(read(&reach, path.to_str().unwrap()).is_err(), "{}", path.display());
            }
        }
    }
}

#[test]
fn pipes_devices_and_folders_are_no_files_and_nobody_waits_for_them() {
    let scene = Scene::new();
    let pipe = scene.at_home(".openclaw/workspace/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    fs::create_dir(scene.at_home(".openclaw/workspace/folder")).unwrap();
    symlink("/dev/zero", scene.at_home(".openclaw/workspace/zero")).unwrap();
    let reach = scene.reach(false);
    for path in ["pipe", "folder", ".", "..", "/", "zero", "/dev/zero", "/dev/null", "/dev/stdin"] {
        assert!(read(&reach, path).is_err(), "{path}");
        assert!(write(&reach, path, "x").is_err(), "{path}");
    }
    for path in ["/proc/self/environ", "/proc/self/mem", "/proc/self/fd/0", "/proc/1/environ"] {
        assert!(matches!(read(&reach, path), Err(ReachError::Private(_))), "{path}");
    }
    assert!(matches!(reach.find(""), Err(ReachError::Empty)));
    assert!(matches!(reach.find("a\0b"), Err(ReachError::Nul)));
}

#[test]
fn errors_of_the_system_read_as_in_the_original() {
    let scene = Scene::new();
    scene.put_at_home(".openclaw/workspace/file", "x");
    let reach = scene.reach(false);
    let workspace = scene.at_home(".openclaw/workspace");
    let told = |path: &str| read(&reach, path).unwrap_err().to_string();
    for name in ["missing.txt", "no/such/folder.txt"] {
        let path = workspace.join(name);
        let expected = format!("ENOENT: no such file or directory, access '{}'", path.display());
        assert_eq!(told(name), expected);
    }
    assert_eq!(told("."), "EISDIR: illegal operation on a directory, read");
    let expected = format!("ENOTDIR: not a directory, access '{}/file/x'", workspace.display());
    assert_eq!(told("file/x"), expected);
    assert!(told(&"n".repeat(300)).starts_with("ENAMETOOLONG: name too long"));
}

#[test]
fn a_large_file_is_not_read_and_a_failed_write_leaves_nothing() {
    let scene = Scene::new();
    let reach = scene.reach(true);
    scene.put_at_home(".openclaw/workspace/large", &"x".repeat(1001));
    let error = read(&reach, "large").unwrap_err();
    assert!(matches!(error, ReachError::TooLarge { size: 1001, limit: 1000, .. }), "{error}");
    drop(reach.find("large").unwrap().stage(b"never", None).unwrap());
    let names: Vec<_> = fs::read_dir(scene.at_home(".openclaw/workspace")).unwrap().collect();
    assert_eq!(names.len(), 1);
    let made = reach.find_or_make("a/b/c").unwrap();
    reach.unmake(&made.folders);
    assert!(!scene.at_home(".openclaw/workspace/a").exists());
}

#[tokio::test]
async fn calls_that_change_the_same_files_wait_for_each_other_and_never_in_a_circle() {
    let locks = FileLocks::default();
    let file = |name: &str| (1, 1, OsString::from(name));
    let held = locks.take(vec![file("a"), file("b"), file("a")]).await;
    assert_eq!(held.len(), 2);
    let wait = std::time::Duration::from_millis(20);
    let waiting = locks.take(vec![file("b")]);
    assert!(tokio::time::timeout(wait, waiting).await.is_err());
    locks.take(vec![file("c")]).await;
    drop(held);
    let change = async |first: &str, second: &str| {
        let held = locks.take(vec![file(first), file(second)]).await;
        tokio::task::yield_now().await;
        drop(held);
    };
    for _ in 0..100 {
        let both = async { tokio::join!(change("a", "b"), change("b", "a")) };
        tokio::time::timeout(std::time::Duration::from_secs(5), both).await.unwrap();
    }
}

/// CVE-2026-32060: what a name means changes between the look and the use.
#[test]
fn a_name_that_changes_all_the_time_never_leads_out() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let scene = Scene::new();
    let secret = scene.put_at_home("outside/secret.txt", "secret");
    let own = scene.put_at_home(".openclaw/gateway-token", "token");
    let workspace = scene.at_home(".openclaw/workspace");
    scene.put_at_home(".openclaw/workspace/folder/secret.txt", "inside");
    scene.put_at_home(".openclaw/workspace/spare/secret.txt", "inside");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let swap = |from: &str, name: &str| {
                let _ = fs::rename(workspace.join(from), workspace.join(name));
            };
            while !is_done.load(Ordering::Relaxed) {
                // A folder becomes a link to another one, a file one to a secret.
                for target in [&secret, &own] {
                    let _ = symlink(target, workspace.join("link"));
                    swap("link", "file");
                    let _ = fs::write(workspace.join("plain"), "inside");
                    swap("plain", "file");
                }
                swap("folder", "aside");
                let _ = symlink(scene.at_home("outside"), workspace.join("folder"));
                let _ = fs::remove_file(workspace.join("folder"));
                swap("aside", "folder");
            }
        });
        for only_workspace in [true, false] {
            let reach = scene.reach(only_workspace);
            for _ in 0..2000 {
                for path in ["file", "folder/secret.txt"] {
                    match read(&reach, path) {
                        // Without the limit a link may lead out, but never to the token.
                        Ok(text) => assert!(
                            ["inside", "mine", ""].contains(&&*text)
                                || (!only_workspace && text == "secret"),
                            "{path}: {text}"
                        ),
                        Err(error) => assert!(!error.to_string().is_empty()),
                    }
                    if only_workspace {
                        // It may fail; it may not go elsewhere.
                        let _ = write(&reach, path, "mine");
                    }
                }
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(fs::read_to_string(&own).unwrap(), "token");
}
