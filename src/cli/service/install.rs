//! Installing the service, and removing it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use super::definition::{SEARCH_PATH, Wanted};
use super::holder::Holder;
use super::place::{Installed, Place};
use super::{Done, ServiceError};
use crate::cli::surroundings::{STAND_IN, with_missing};
use crate::config::{ConfigError, Env, GatewayMode, Overrides, Settings};
use crate::providers::{key_in_environment, known_providers};
use crate::store::atomic::{create_private_dir, write_private};
use crate::store::instance::Running;
use crate::support::json;

/// Variables that are secret, beside the keys of providers.
const SECRETS: [&str; 2] = ["OPENCLAW_GATEWAY_TOKEN", "OPENCLAW_GATEWAY_PASSWORD"];
const PORT: &str = "OPENCLAW_GATEWAY_PORT";
/// Variables that a service has of its own.
const OF_SERVICE: [&str; 6] = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER"];

/// Arguments of `clawgate gateway install`.
#[derive(Debug, Clone, Default, Args)]
pub struct InstallArgs {
    /// Port of the service [default: `OPENCLAW_GATEWAY_PORT`, or that of the config]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Replace a service that is defined otherwise
    #[arg(long)]
    force: bool,
    /// Which program runs OpenClaw's own gateway.
    #[arg(long, hide = true, value_name = "NAME")]
    runtime: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What was installed.
#[derive(Debug)]
pub struct Report {
    /// Whether it was so before.
    was_there: bool,
    /// For people, in lines.
    text: String,
    service: Value,
}

impl Report {
    /// What to tell people.
    pub fn text(&self) -> &str {
        self.text.trim_end()
    }
}

impl From<Report> for Done {
    fn from(report: Report) -> Self {
        let result = if report.was_there { "already-installed" } else { "installed" };
        let mut done = Self::new(result, report.text);
        done.more.insert("service".into(), report.service);
        done
    }
}

/// Defines the service, starts it now, and from now on by itself.
///
/// # Errors
/// When nobody runs services of this user, another one is there, a gateway runs that would be
/// in its way, or it would not start.
pub fn install(env: &Env, args: &InstallArgs) -> Result<Report, ServiceError> {
    let place = Place::of(env)?;
    place.manager.check()?;
    let looking = Overrides { read_only: true, ..Overrides::default() };
    // A config that is no good is told by the gateway, which then waits for it to be mended.
    let (settings, lacking) = match with_missing(env, &looking) {
        Ok((settings, lacking)) => (Some(settings), lacking),
        Err(ConfigError::MissingVariable { variable, .. }) => (None, BTreeSet::from([variable])),
        Err(_) => (None, BTreeSet::new()),
    };
    let before = match place.installed()? {
        Installed::No => None,
        Installed::Yes(before) => Some(before),
        Installed::Another(state_dir) if !args.force => return Err(place.another(state_dir)),
        Installed::Another(_) => Some(String::new()),
    };
    let path = search_path(&place, env, before.as_deref().filter(|_| !args.force));
    let wanted = wanted(&place, env, args, settings.as_ref(), path)?;
    let text = wanted.text(place.manager)?;
    let was_there = before.as_ref() == Some(&text);
    if before.is_some() && !was_there && !args.force {
        return Err(ServiceError::Exists(place.file));
    }
    let holder = Holder::of(&place.paths.instance_lock());
    if let Some(holder) = holder
        && (before.is_none() || place.manager.look().pid != Some(holder.number()))
    {
        return Err(ServiceError::RunsByHand(holder.number()));
    }
    if let Some(settings) = &settings {
        would_start(settings, args.port, holder)?;
    }
    // The service may write to them and cannot make them.
    for dir in [&place.home.join(".openclaw"), &place.paths.state_dir] {
        create_private_dir(dir)?;
    }
    // One may be on a disk that is not there now; the others work without it.
    let mut unmade = settings.iter().flat_map(folders).collect::<Vec<_>>();
    unmade.retain(|dir| create_private_dir(dir).is_err());
    if !was_there {
        if let Some(dir) = place.file.parent() {
            create_private_dir(dir)?;
        }
        write_private(&place.file, text.as_bytes())?;
    }
    place.manager.enable(&place.file, before.is_some() && !was_there)?;
    let mut missing = missing_variables(env, settings.as_ref(), &wanted);
    missing.extend(lacking);
    let file = place.variables_file();
    missing.retain(|name| !is_written(&file, name));
    Ok(report(&place, &missing, &unmade, was_there))
}

/// Whether a gateway of these settings would start; a service that does not is begun again and
/// again, and looks as if it ran. The one that runs already has its port itself.
fn would_start(
    settings: &Settings,
    port: Option<u16>,
    own: Option<Holder>,
) -> Result<(), ServiceError> {
    let gateway = &settings.gateway;
    if gateway.mode == GatewayMode::Remote {
        return Err(ServiceError::OfClient(settings.file.path.clone()));
    }
    let address = SocketAddr::new(gateway.bind.host(), port.unwrap_or(gateway.port));
    let has_port = |running: Running| running.address.port() == address.port();
    let is_own = own.is_some_and(|own| own.running.is_none_or(has_port));
    match TcpListener::bind(address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && !is_own => {
            Err(ServiceError::PortTaken { address })
        }
        _ => Ok(()),
    }
}

/// Stops the service and removes its definition.
pub fn uninstall(env: &Env) -> Result<Done, ServiceError> {
    let place = Place::of(env)?;
    match place.installed()? {
        Installed::No => {
            let text = format!("No service is installed: {} is not there\n", place.file.display());
            return Ok(Done::new("not-installed", text));
        }
        Installed::Another(state_dir) => return Err(place.another(state_dir)),
        Installed::Yes(_) => {}
    }
    place.manager.check()?;
    place.manager.disable()?;
    fs::remove_file(&place.file)
        .map_err(|source| ServiceError::Definition { path: place.file.clone(), source })?;
    place.manager.forget()?;
    let text = format!(
        "Removed {} service: {}\nThe state stays: {}\n",
        place.manager.name(),
        place.file.display(),
        place.paths.state_dir.display()
    );
    Ok(Done::new("uninstalled", text))
}

/// Where the service looks for programs: where it did before, so that another terminal makes no
/// other service of it, or where this one does. Its working directory is another one.
fn search_path(place: &Place, env: &Env, before: Option<&str>) -> Option<String> {
    if let Some(before) = before {
        return place.search_path(before);
    }
    let path = env.get(SEARCH_PATH)?;
    let can_be_said = |folder: &&str| folder.starts_with('/') && !folder.contains(char::is_control);
    let folders: Vec<_> = path.split(':').filter(can_be_said).collect();
    (!folders.is_empty()).then(|| folders.join(":"))
}

/// What the definition says.
fn wanted(
    place: &Place,
    env: &Env,
    args: &InstallArgs,
    settings: Option<&Settings>,
    path: Option<String>,
) -> Result<Wanted, ServiceError> {
    let (paths, usual) = (&place.paths, place.home.join(".openclaw"));
    let mut wanted = Wanted {
        program: named(&std::env::current_exe().map_err(ServiceError::Program)?),
        home: named(&place.home),
        ..Wanted::default()
    };
    let mut say = |name, value: String| wanted.variables.push((name, value));
    if paths.state_dir != usual {
        say("OPENCLAW_STATE_DIR", named(&paths.state_dir));
        say("OPENCLAW_LOG_DIR", named(&paths.state_dir.join("logs")));
    }
    if paths.config_path != paths.state_dir.join("openclaw.json") {
        say("OPENCLAW_CONFIG_PATH", named(&paths.config_path));
    }
    if let Some(home) = paths.home().filter(|home| *home != place.home) {
        say("OPENCLAW_HOME", named(home));
    }
    if let Some(port) = args.port.map(|port| port.to_string()).or_else(|| env.get(PORT)) {
        say(PORT, port);
    }
    if let Some(path) = path {
        say(SEARCH_PATH, path);
    }
    let mut writable = vec![paths.state_dir.clone()];
    // A config in the home itself does not open all of that: it is then changed by hand.
    let of_config = paths.config_path.parent().filter(|dir| !place.home.starts_with(dir));
    writable.extend(of_config.map(Path::to_owned));
    writable.extend(paths.home().map(|home| home.join(".openclaw")));
    if let Some(settings) = settings {
        writable.extend(folders(settings));
    }
    wanted.writable = beside(&usual, writable);
    Ok(wanted)
}

/// Those that a config names and that are written to; where a variable is missing in the
/// name, nobody knows which one that is.
fn folders(settings: &Settings) -> Vec<PathBuf> {
    let workspaces = settings.agents.list.iter().map(|agent| agent.workspace.clone());
    let of_log = settings.logging.file.as_deref().and_then(Path::parent).map(Path::to_owned);
    let is_known = |dir: &PathBuf| !dir.to_string_lossy().contains(STAND_IN);
    workspaces.chain(of_log).filter(is_known).collect()
}

/// Those that are in no other one, each once.
fn beside(usual: &Path, folders: Vec<PathBuf>) -> Vec<String> {
    let mut kept: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let is_in = |outer: &PathBuf| folder.starts_with(outer);
        if !folder.starts_with(usual) && !kept.iter().any(is_in) {
            kept.push(folder);
        }
    }
    kept.iter().map(|folder| named(folder)).collect()
}

fn named(path: &Path) -> String {
    path.display().to_string()
}

fn report(place: &Place, missing: &[String], unmade: &[PathBuf], was_there: bool) -> Report {
    let manager = place.manager;
    let done = if was_there { "Service is installed as it was" } else { "Installed service" };
    let mut text = format!(
        "{done}: {}\n\
         It runs now and starts by itself ({}: {})\n\
         State:  {}\n\
         Log:    {}   or   clawgate logs --follow\n\
         Status: clawgate gateway status\n",
        place.file.display(),
        manager.name(),
        manager.service(),
        place.paths.state_dir.display(),
        manager.log(&place.home),
    );
    if cfg!(not(target_os = "macos")) {
        text.push_str(
            "It ends when you log out; so that it stays, and starts with the machine: \
             loginctl enable-linger\n",
        );
    }
    for dir in unmade {
        let advice = format!(
            "{} cannot be made, and the service cannot write to it: make it, then clawgate \
             gateway restart\n",
            dir.display()
        );
        text.push_str(&advice);
    }
    if !missing.is_empty() {
        let advice = format!(
            "The service does not get {}, which this terminal has or the config needs: write \
             NAME=value into {} (chmod 600), then clawgate gateway restart\n",
            missing.join(", "),
            place.variables_file().display()
        );
        text.push_str(&advice);
    }
    let unmade: Vec<_> = unmade.iter().map(|dir| dir.to_string_lossy()).collect();
    let service = json!({"label": manager.name(), "name": manager.service(),
        "file": place.file.to_string_lossy(),
        "stateDir": place.paths.state_dir.to_string_lossy(), "log": manager.log(&place.home),
        "missingVariables": missing, "missingFolders": unmade});
    Report { was_there, text, service }
}

/// Names of variables of this process that a service would need and does not get.
fn missing_variables(env: &Env, settings: Option<&Settings>, told: &Wanted) -> Vec<String> {
    let lookup = |name: &str| env.get(name);
    let keys = known_providers().filter_map(|id| key_in_environment(id, &lookup));
    let mut names: BTreeSet<_> = keys.chain(SECRETS).map(str::to_owned).collect();
    if let Some(settings) = settings {
        refer(&settings.raw, &mut names);
    }
    let is_told = |name: &str| told.variables.iter().any(|(known, _)| *known == name);
    let has = |name: &str| OF_SERVICE.contains(&name) || is_told(name);
    names.into_iter().filter(|name| env.get(name).is_some() && !has(name)).collect()
}

/// Whether the file gives the variable a value.
fn is_written(file: &Path, name: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.trim_start().split_once('='));
    lines.any(|(written, value)| written == name && !value.trim().is_empty())
}

/// Variables that a config refers to: `${NAME}` in a text, and secrets that are in one.
fn refer(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            let begun = text.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
            names.extend(begun.map(|(name, _)| name.to_owned()));
        }
        Value::Array(items) => {
            for item in items {
                refer(item, names);
            }
        }
        Value::Object(members) => {
            let is_variable = members.get("source").is_some_and(|source| source == "env");
            let id = members.get("id").and_then(Value::as_str).filter(|_| is_variable);
            names.extend(id.map(str::to_owned));
            for member in members.values() {
                refer(member, names);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn wanted_with<const N: usize>(variables: [(&str, &str); N], home: &Path) -> Wanted {
        let env = Env::fixed(variables, home);
        let (args, settings) = (InstallArgs::default(), settings(&env));
        wanted(&Place::of(&env).unwrap(), &env, &args, settings.as_ref(), None).unwrap()
    }

    fn settings(env: &Env) -> Option<Settings> {
        config::load(env, &Overrides { read_only: true, ..Overrides::default() }).ok()
    }

    #[test]
    fn only_what_is_not_usual_is_said() {
        let home = tempfile::tempdir().unwrap();
        let usual = wanted_with([("ANTHROPIC_API_KEY", "sk-canary")], home.path());
        assert_eq!((&usual.variables, &usual.writable), (&Vec::new(), &Vec::new()));
        let state = home.path().join(".openclaw");
        fs::create_dir(&state).unwrap();
        let config = "{agents: {list: [{id: 'a', workspace: '/data/a'}, \
                      {id: 'b', workspace: '/data/a/b'}]}}";
        fs::write(state.join("openclaw.json"), config).unwrap();
        let port = wanted_with([("OPENCLAW_GATEWAY_PORT", "19001")], home.path());
        assert_eq!(port.variables, [("OPENCLAW_GATEWAY_PORT", "19001".to_owned())]);
        assert_eq!(port.writable, ["/data/a"]);
    }

    #[test]
    fn another_state_directory_and_config_are_said() {
        let home = tempfile::tempdir().unwrap();
        let second = wanted_with(
            [("OPENCLAW_STATE_DIR", "/srv/two"), ("OPENCLAW_CONFIG_PATH", "/etc/two.json")],
            home.path(),
        );
        let names: Vec<_> = second.variables.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["OPENCLAW_STATE_DIR", "OPENCLAW_LOG_DIR", "OPENCLAW_CONFIG_PATH"]);
        assert_eq!(second.writable, ["/srv/two", "/etc"]);
    }

    #[test]
    fn variables_that_the_service_misses_are_named_and_not_shown() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join(".openclaw");
        fs::create_dir(&state).unwrap();
        let config = "{gateway: {auth: {token: '${MINE}'}}, channels: {telegram: {botToken: \
                      {source: 'env', provider: 'default', id: 'BOT'}}}, \
                      x: ['${PATH}${ABSENT}', {y: '${OPENCLAW_GATEWAY_PORT}'}]}";
        fs::write(state.join("openclaw.json"), config).unwrap();
        let variables = [
            ("ANTHROPIC_API_KEY", "sk-canary"),
            ("OPENCLAW_GATEWAY_PASSWORD", "canary"),
            ("OPENCLAW_GATEWAY_PORT", "19001"),
            ("MINE", "canary-canary-canary"),
            ("BOT", "1:canary"),
            ("PATH", "/bin"),
            ("OTHER", "canary"),
        ];
        let env = Env::fixed(variables, home.path());
        let (settings, told) = (settings(&env).unwrap(), wanted_with(variables, home.path()));
        let missing = missing_variables(&env, Some(&settings), &told);
        assert_eq!(missing, ["ANTHROPIC_API_KEY", "BOT", "MINE", "OPENCLAW_GATEWAY_PASSWORD"]);
        let text = report(&Place::of(&env).unwrap(), &missing, &[], false).text;
        assert!(text.contains("BOT, MINE") && !text.contains("canary"), "{text}");
    }
}
