//! The samples in `config/`: they say what their programs understand, and what
//! they claim about the gateway's settings.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use clawgate::config::edit::ValuePath;
use clawgate::config::keys;
use serde_json::Value;

use super::{is_valid, read};

/// Longer than the gateway takes to stop, be it that something hangs.
const STOP_SECONDS: u32 = 40;

/// The settings that a sample's comments show.
fn settings_in_comments(sample: &str) -> String {
    let lines = sample.lines().map_while(|line| line.strip_prefix('#'));
    let block: Vec<_> = lines.skip_while(|line| line.trim() != "gateway: {").collect();
    format!("{{\n{}\n}}", block.join("\n"))
}

#[test]
fn settings_in_the_samples_of_proxies_are_valid() {
    for name in ["config/Caddyfile", "config/nginx.conf"] {
        let block = settings_in_comments(&read(name));
        assert!(block.contains("trustedProxies"), "{name}: {block}");
        is_valid(name, &block);
    }
}

/// Braces and semicolons as nginx and Caddy want them.
fn depth_after(line: &str, depth: usize) -> usize {
    let opens = line.matches('{').count();
    let closes = line.matches('}').count();
    (depth + opens).checked_sub(closes).expect("a brace is closed that was opened")
}

#[test]
fn nginx_passes_upgrades_on_and_believes_no_header_of_a_client() {
    let text = read("config/nginx.conf");
    let mut depth = 0;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let ends = line.is_empty() || line.ends_with([';', '{', '}']);
        assert!(ends, "no end of a directive: {line}");
        depth = depth_after(line.split('"').step_by(2).collect::<String>().as_str(), depth);
    }
    assert_eq!(depth, 0);
    let set = |name: &str| {
        let lines = text.lines().map(str::trim);
        let mut values =
            lines.filter_map(|line| line.strip_prefix(&format!("proxy_set_header {name} ")));
        values.next().map(|value| value.trim_end_matches(';').to_owned())
    };
    for (name, value) in [
        ("Upgrade", "$http_upgrade"),
        ("Connection", "$connection_upgrade"),
        ("X-Forwarded-For", "$remote_addr"),
        ("X-Forwarded-Proto", "$scheme"),
        ("X-Forwarded-User", "\"\""),
    ] {
        assert_eq!(set(name).as_deref(), Some(value), "{name}");
    }
    for line in
        ["proxy_http_version 1.1;", "client_max_body_size 0;", "proxy_request_buffering off;"]
    {
        assert!(text.contains(line), "{line}");
    }
}

/// How long nginx waits for a byte, in seconds.
fn read_timeout(sample: &str) -> u64 {
    let lines = sample.lines().map(str::trim);
    let mut values = lines.filter_map(|line| line.strip_prefix("proxy_read_timeout "));
    let value = values.next().expect("60 seconds are too few").trim_end_matches(';').to_owned();
    assert_eq!(values.next(), None, "one for all that is asked");
    let (number, unit) = value.split_at(value.len() - 1);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        other => panic!("what is a {other}?"),
    };
    number.parse::<u64>().unwrap() * unit
}

#[test]
fn nginx_waits_for_an_answer_longer_than_a_run_may_take() {
    let path: ValuePath = "agents.defaults.timeoutSeconds".parse().unwrap();
    let key = keys::find(path.steps()).and_then(|found| found.key).expect("there is such a key");
    let of_a_run: u64 = key.default.parse().unwrap();
    assert!(read_timeout(&read("config/nginx.conf")) > of_a_run);
}

#[test]
fn caddy_forwards_to_the_port_of_the_gateway() {
    let text = read("config/Caddyfile");
    let is_comment = |line: &&str| line.trim_start().starts_with('#');
    let lines: Vec<_> = text.lines().filter(|line| !is_comment(line)).collect();
    assert_eq!(
        lines,
        [
            "gateway.example.com {",
            "\trequest_header -X-Forwarded-User",
            "\treverse_proxy 127.0.0.1:18789",
            "}",
        ]
    );
}

/// What of the sources the container is built of.
fn copied() -> Vec<String> {
    let text = read("config/Dockerfile").replace("\\\n", "");
    let lines = text.lines().filter_map(|line| line.strip_prefix("COPY "));
    let mut all = Vec::new();
    for line in lines.filter(|line| !line.starts_with("--from")) {
        let mut files: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let _into = files.pop();
        all.extend(files);
    }
    all
}

/// The files that a source takes in, by the path that it writes. Some are named by a
/// macro, and stand beside the source.
fn taken_in(source: &str) -> impl Iterator<Item = &str> {
    let calls = ["include_str!(\"", "include_bytes!(\"", "include!(\""];
    let after = calls.into_iter().flat_map(move |call| source.split(call).skip(1));
    after.filter_map(|rest| rest.split('"').next())
}

/// A path without the `..` in it.
fn straight(path: &Path) -> PathBuf {
    let mut straight = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                straight.pop();
            }
            part => straight.push(part),
        }
    }
    straight
}

/// The sources below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_container_is_built_of_all_that_the_sources_and_the_manifest_name() {
    let copied = copied();
    let mut named: BTreeSet<PathBuf> = BTreeSet::new();
    for line in read("Cargo.toml").lines() {
        let values = ["path = \"", "build = \""].into_iter();
        let value = values.filter_map(|key| line.strip_prefix(key)).next();
        named.extend(value.map(|value| PathBuf::from(value.trim_end_matches('"'))));
    }
    assert!(named.contains(Path::new("src/build.rs")) && named.len() > 3, "{named:?}");
    let mut all = Vec::new();
    sources(&super::root().join("src"), &mut all);
    for source in all {
        let text = std::fs::read_to_string(&source).unwrap();
        let folder = source.strip_prefix(super::root()).unwrap().parent().unwrap().to_owned();
        named.extend(taken_in(&text).map(|path| straight(&folder.join(path))));
        // Those that the build script has packed.
        let packed = text.split("\"/packed/").skip(1);
        named.extend(packed.filter_map(|rest| rest.split('"').next()).map(PathBuf::from));
    }
    assert!(named.contains(Path::new("docs/openapi.json")), "{named:?}");
    let is_copied = |path: &PathBuf| copied.iter().any(|it| path.starts_with(it));
    let missing: Vec<_> = named.iter().filter(|path| !is_copied(path)).collect();
    assert!(missing.is_empty(), "config/Dockerfile does not copy {missing:?}");
}

/// The settings of a unit by section.
fn unit(name: &str) -> Vec<(String, String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in read(name).lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut section);
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{name}: {line}"));
        found.push((section.clone(), key.to_owned(), value.to_owned()));
    }
    found
}

#[test]
fn the_units_run_the_gateway_with_few_rights() {
    for name in ["config/clawgate.service", "config/clawgate-system.service"] {
        let lines = unit(name);
        let sections: BTreeSet<_> = lines.iter().map(|(section, ..)| section.as_str()).collect();
        assert_eq!(sections, BTreeSet::from(["Install", "Service", "Unit"]), "{name}");
        let value = |key: &str| {
            let mut found = lines.iter().filter(|(_, known, _)| known == key);
            found
                .next()
                .map(|(.., value)| value.as_str())
                .unwrap_or_else(|| panic!("{name}: {key}"))
        };
        assert!(value("ExecStart").ends_with("/clawgate gateway"), "{name}");
        assert_eq!((value("UMask"), value("ProtectSystem")), ("0077", "strict"), "{name}");
        assert_eq!((value("NoNewPrivileges"), value("CapabilityBoundingSet")), ("yes", ""));
        assert_eq!(value("TimeoutStopSec"), STOP_SECONDS.to_string(), "{name}");
        for key in ["PrivateUsers", "PrivateTmp", "RestrictSUIDSGID", "ProtectKernelModules"] {
            assert_eq!(value(key), "yes", "{name}: {key}");
        }
    }
}

#[test]
fn launchd_and_the_docs_wait_for_its_end_as_long_as_the_units() {
    let limit = format!("<key>ExitTimeOut</key>\n  <integer>{STOP_SECONDS}</integer>");
    assert!(read("config/ai.clawgate.gateway.plist").contains(&limit));
    let told = format!("should wait {STOP_SECONDS} seconds before it kills");
    assert!(read("docs/operations.md").contains(&told));
}

#[test]
fn the_container_is_built_of_files_that_are_there_and_has_no_privileges() {
    let text = read("config/Dockerfile").replace("\\\n", "");
    let lines: Vec<_> =
        text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let of = |word: &str| -> Vec<&str> {
        lines.iter().filter_map(|line| line.strip_prefix(&format!("{word} "))).collect()
    };
    for copied in of("COPY").iter().filter(|files| !files.starts_with("--from")) {
        let files: Vec<_> = copied.split(' ').collect();
        for file in &files[..files.len() - 1] {
            assert!(super::root().join(file).exists(), "{file}");
        }
    }
    assert_eq!(of("USER"), ["clawgate"]);
    assert_eq!(of("EXPOSE"), ["18789"]);
    let version = read("Cargo.toml").lines().find_map(|line| {
        Some(line.strip_prefix("rust-version = \"")?.trim_end_matches('"').to_owned())
    });
    assert!(of("FROM")[0].starts_with(&format!("rust:{}-", version.unwrap())), "{:?}", of("FROM"));
    for word in ["ENTRYPOINT", "CMD"] {
        let list: Vec<String> = serde_json::from_str(of(word)[0]).unwrap();
        assert!(!list.is_empty());
    }

    let compose: Value = serde_saphyr::from_str(&read("config/compose.yaml")).unwrap();
    let service = &compose["services"]["clawgate"];
    assert_eq!(service["ports"][0], "127.0.0.1:18789:18789");
    assert_eq!(service["read_only"], true);
    assert_eq!(service["stop_grace_period"], format!("{STOP_SECONDS}s"));
    assert_eq!(service["cap_drop"][0], "ALL");
    let volume = service["volumes"][0].as_str().unwrap();
    let (name, place) = volume.split_once(':').unwrap();
    assert!(compose["volumes"].as_object().unwrap().contains_key(name));
    assert_eq!(of("VOLUME"), [format!("[\"{place}\"]")]);
}
