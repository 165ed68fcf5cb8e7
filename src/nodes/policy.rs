//! Which commands a node may be asked for.
//!
//! Owns: the commands of each platform. Promises: a platform that nobody knows
//! runs no programs; what the config denies nobody has. Must not: know which
//! commands a node declares.

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::config::NodesSettings;

/// The system of a node, as far as it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Platform {
    Ios,
    Android,
    MacOs,
    Windows,
    Linux,
    Unknown,
}

const CANVAS: [&str; 8] = [
    "canvas.present",
    "canvas.hide",
    "canvas.navigate",
    "canvas.eval",
    "canvas.snapshot",
    "canvas.a2ui.push",
    "canvas.a2ui.pushJSONL",
    "canvas.a2ui.reset",
];
/// Looking at a device, without its microphone, camera or screen.
const DEVICE: [&str; 4] = ["camera.list", "location.get", "device.info", "device.status"];
/// Looking at what a person keeps on it.
const PERSONAL: [&str; 6] = [
    "contacts.search",
    "calendar.events",
    "reminders.list",
    "photos.latest",
    "motion.activity",
    "motion.pedometer",
];
const TALK: [&str; 4] = ["talk.ptt.start", "talk.ptt.stop", "talk.ptt.cancel", "talk.ptt.once"];
const ANDROID: [&str; 5] = [
    "notifications.list",
    "notifications.actions",
    "device.permissions",
    "device.health",
    "callLog.search",
];
const NOTIFY: [&str; 1] = ["system.notify"];
/// A picture of the screen, which computers may be asked for and phones not, as in the original.
const SCREEN: [&str; 1] = ["screen.snapshot"];
/// What any device may have, as in the original.
const ANYWHERE: [&str; 2] = ["camera.list", "location.get"];
/// Programs of the machine.
const MACHINE: [&str; 5] =
    ["system.run", "system.run.prepare", "system.which", "system.notify", "browser.proxy"];

impl Platform {
    fn of(platform: Option<&str>, family: Option<&str>) -> Self {
        let begins = |text: Option<&str>, beginnings: &[&str]| {
            let text = text.unwrap_or_default().trim().to_ascii_lowercase();
            beginnings.iter().any(|beginning| text.starts_with(beginning))
        };
        let find = |text: Option<&str>| match () {
            () if begins(text, &["ios", "ipados", "iphone", "ipad"]) => Self::Ios,
            () if begins(text, &["android"]) => Self::Android,
            () if begins(text, &["mac", "darwin"]) => Self::MacOs,
            () if begins(text, &["win"]) => Self::Windows,
            () if begins(text, &["linux"]) => Self::Linux,
            () => Self::Unknown,
        };
        match find(platform) {
            Self::Unknown => find(family),
            known => known,
        }
    }

    const fn commands(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Ios => &[&CANVAS, &DEVICE, &PERSONAL, &TALK, &NOTIFY],
            Self::Android => &[&CANVAS, &DEVICE, &PERSONAL, &TALK, &ANDROID, &NOTIFY],
            Self::MacOs => &[&CANVAS, &DEVICE, &PERSONAL, &TALK, &MACHINE, &SCREEN],
            Self::Windows => &[&CANVAS, &DEVICE, &MACHINE, &SCREEN],
            Self::Linux => &[&MACHINE],
            Self::Unknown => &[&CANVAS, &ANYWHERE, &NOTIFY],
        }
    }
}

/// Whether a node of this platform may be asked for a command.
pub fn allows(
    settings: &NodesSettings,
    platform: Option<&str>,
    family: Option<&str>,
    command: &str,
) -> bool {
    let is_named = |names: &[String]| names.iter().any(|name| name == command);
    if is_named(&settings.deny_commands) {
        return false;
    }
    let own = Platform::of(platform, family).commands();
    is_named(&settings.allow_commands) || own.iter().any(|group| group.contains(&command))
}

/// Commands with which a node runs programs; approving one is for admins.
pub fn runs_programs(command: &str) -> bool {
    ["system.run", "system.run.prepare", "system.which"].contains(&command)
}

/// Whether this asks a node to change the profiles that its browser keeps. They outlast what
/// they were made for, so that is done on its machine only, as in the original. Where its
/// server may read a path in more than one way, this counts as asking for that.
pub fn changes_browser_profiles(command: &str, params: Option<&Value>) -> bool {
    let Some(params) = params.filter(|_| command == "browser.proxy") else { return false };
    // What JavaScript takes for blanks.
    let is_blank = |letter: char| letter.is_whitespace() || letter == '\u{feff}';
    let word = |name: &str| params[name].as_str().unwrap_or_default().trim_matches(is_blank);
    let method = word("method").to_uppercase();
    if !["POST", "DELETE"].contains(&method.as_str()) {
        return false;
    }
    let Some(parts) = parts(word("path")) else { return true };
    let parts: Vec<_> = parts.iter().map(String::as_str).collect();
    matches!(
        (method.as_str(), parts.as_slice()),
        // What begins with two slashes may name a host.
        ("POST", [.., "profiles", "create"] | [.., "reset-profile"])
            | ("DELETE", ["profiles", _, ..] | [.., "profiles", _])
    )
}

/// The parts of a path, as a server reads it that makes the most of it: decoded once, whatever
/// their case, without those that lead nowhere. `None` when that cannot be told, as with `..`:
/// how far that leads depends on what is decoded before.
fn parts(path: &str) -> Option<Vec<String>> {
    let written = path.split(['?', '#']).next().unwrap_or_default();
    let path = percent_decode_str(written).decode_utf8().ok()?;
    if path.contains(|letter: char| "%?#".contains(letter) || letter.is_control()) {
        return None;
    }
    let parts = path.split(['/', '\\']).filter(|part| !["", "."].contains(part));
    parts.map(|part| (part != "..").then(|| part.to_ascii_lowercase())).collect()
}

/// Whether a node of this platform has iOS, or what an iPad calls it.
pub fn is_ios(platform: Option<&str>, family: Option<&str>) -> bool {
    Platform::of(platform, family) == Platform::Ios
}

/// Commands that an app which is in the background cannot do; they wait until
/// it is back.
pub fn needs_foreground(command: &str) -> bool {
    ["canvas.", "camera.", "screen.", "talk."].iter().any(|family| command.starts_with(family))
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn each_platform_has_its_own_commands_and_an_unknown_one_runs_no_programs() {
        let none = NodesSettings::default();
        let may = |platform: &str, command: &str| allows(&none, Some(platform), None, command);
        assert!(may("iOS 18.4.0", "canvas.eval") && may("darwin", "system.run"));
        assert!(may("linux", "system.run") && may("win32", "browser.proxy"));
        assert!(may("macOS 15", "screen.snapshot") && may("windows", "screen.snapshot"));
        for command in ["canvas.eval", "camera.list", "location.get", "system.notify"] {
            assert!(may("toaster", command), "{command}");
        }
        for (platform, command) in [
            ("iOS 18.4.0", "system.run"),
            ("iOS 18.4.0", "camera.snap"),
            ("iOS 18.4.0", "screen.snapshot"),
            ("macOS 15", "screen.record"),
            ("linux", "canvas.snapshot"),
            ("android", "sms.send"),
            ("toaster", "camera.snap"),
            ("toaster", "browser.proxy"),
            ("toaster", "system.run"),
            ("linux", "system.execApprovals.get"),
        ] {
            assert!(!may(platform, command), "{platform} {command}");
        }
        assert!(allows(&none, Some("?"), Some("iPad"), "location.get"));
    }

    #[test]
    fn the_profiles_of_a_browser_are_not_changed_from_afar() {
        let changes = |method: &str, path: &str| {
            let params = json!({"method": method, "path": path});
            changes_browser_profiles("browser.proxy", Some(&params))
        };
        for (method, path) in [
            ("POST", "/profiles/create"),
            (" post ", "profiles/create/"),
            ("POST", "/reset-profile?profile=poc"),
            ("DELETE", "/profiles/poc"),
            ("POST", "//profiles//create"),
            ("POST", "/./profiles/x/../create"),
            ("POST", "/profiles%2f%63reate"),
            ("POST", "/profiles/create%3Fa"),
            ("POST", "\\Profiles\\Create"),
            ("po\u{17f}t", "\u{feff}/%72eset-profile"),
            ("DELETE", "/profiles/a%2Fb"),
            ("POST", "//host/profiles/create"),
            ("POST", "/a%2Fb/../profiles/create"),
            ("DELETE", "/a%3F/%2e%2e/profiles/poc"),
            // What it would be is not to be told.
            ("POST", "/profiles/%2563reate"),
            ("DELETE", "/tabs/%zz"),
            ("POST", "/tabs/%ff"),
            ("POST", "/profiles/cre\tate"),
        ] {
            assert!(changes(method, path), "{method} {path}");
        }
        for (method, path) in [
            ("GET", "/profiles"),
            ("GET", "/profiles/%zz"),
            ("POST", "/tabs/open"),
            ("POST", "/tabs//open?url=100%"),
            ("DELETE", "/tabs/1"),
            ("DELETE", "/profiles/"),
            ("", ""),
        ] {
            assert!(!changes(method, path), "{method} {path}");
        }
        let create = json!({"method": "POST", "path": "/profiles/create"});
        assert!(!changes_browser_profiles("canvas.eval", Some(&create)));
        assert!(!changes_browser_profiles("browser.proxy", None));
    }

    #[test]
    fn a_tablet_has_the_system_of_a_phone() {
        for platform in ["iOS 18.4.0", " ipados 18", "iPadOS 26.1"] {
            assert!(is_ios(Some(platform), None), "{platform}");
        }
        assert!(is_ios(None, Some("iPad")) && !is_ios(Some("macOS 15"), Some("Mac")));
    }

    #[test]
    fn the_config_adds_and_takes_away_and_taking_away_wins() {
        let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let settings = NodesSettings {
            allow_commands: names(&["camera.snap", "sms.send"]),
            deny_commands: names(&["sms.send", "canvas.eval"]),
            exec_node: None,
        };
        let may = |command: &str| allows(&settings, Some("android"), None, command);
        assert!(may("camera.snap") && may("canvas.snapshot"));
        assert!(!may("sms.send") && !may("canvas.eval"));
    }
}
