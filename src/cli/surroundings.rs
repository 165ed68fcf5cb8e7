//! What client commands know of the machine they run on.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::config::{self, ConfigError, Env, GatewayMode, Origin, Overrides, Paths, Settings};
use crate::gateway::tls::fingerprint_of_file;
use crate::store::instance::{Running, running_at};
use crate::support::is_own_address;

use super::client::{RemoteGateway, Target};
use super::{CliError, LocalGateway, Screen};

/// Sections whose variables the command itself may need.
const OWN_SECTIONS: [&str; 4] = ["gateway", "secrets", "env", "logging"];
/// Stands for a variable that nobody here looks at.
const STAND_IN: &str = "not-in-this-environment";
/// More variables than this no file names in vain.
const MISSING_MAX: usize = 32;

/// The machine a client command runs on.
pub struct Surroundings {
    /// Its environment variables.
    pub env: Env,
    /// Its own gateway.
    pub local: LocalGateway,
    /// Where `chat` keeps the lines that were typed; none: only in memory.
    pub history: Option<PathBuf>,
    /// The control socket of its gateway, and the key that it asks for.
    pub control: Option<(PathBuf, PathBuf)>,
    /// Where its gateway listens, if it runs.
    pub running: Option<Running>,
    /// Whether its gateway listens on every address, as far as the configuration says.
    pub is_on_every_address: bool,
    /// Whether its gateway lets users of a tailnet in.
    pub allows_tailscale: bool,
}

impl Surroundings {
    /// Reads the configuration of this machine's gateway. A broken one is
    /// noted and no reason to stop: the command may be for another gateway, or for
    /// the one that waits for it to be mended.
    pub fn find(env: Env, screen: &mut Screen) -> Self {
        let looking = Overrides { read_only: true, ..Overrides::default() };
        let loaded = settings(&env, &looking).inspect_err(|error| {
            // Nothing can be done about a terminal that is gone.
            let _ = screen.note(&format!("the config of this machine cannot be used: {error}"));
        });
        match loaded.ok().or_else(|| config::salvage(&env, &looking)) {
            Some(settings) => Self::of(settings, env, screen),
            None => Self::of_place(env),
        }
    }

    /// The gateway that runs on this machine's state, whatever the environment and the
    /// configuration say of others.
    pub fn own(&self) -> Result<Target, CliError> {
        let running = near(self.running).ok_or_else(|| {
            CliError::Usage(
                "the gateway of this state directory has no address of this machine; run this where it runs"
                    .into(),
            )
        })?;
        Ok(Target::own(running, &self.local)?)
    }

    /// What the settings say, which may be those of a gateway that only waits.
    fn of(mut settings: Settings, env: Env, screen: &mut Screen) -> Self {
        if let Err(error) = super::follow_secrets(&mut settings, &env) {
            let _ = screen.note(&format!("the gateway's secret is not known: {error:#}"));
        }
        let running = running_at(&settings.paths.instance_lock());
        let Running { address, is_tls } = reached(&settings, &env, running);
        let tls = &settings.gateway.tls;
        Self {
            local: LocalGateway {
                address,
                is_tls,
                tls_fingerprint: fingerprint_of_file(&tls.cert_path).ok(),
                remote: remote(&settings, &env, screen),
                token: settings.gateway.auth.token.clone(),
                password: settings.gateway.auth.password.clone(),
            },
            history: Some(history(&settings.paths)),
            running,
            is_on_every_address: settings.gateway.bind.host().is_unspecified(),
            allows_tailscale: settings.gateway.proxies.allow_tailscale,
            control: Some(control(&settings.paths)),
            env,
        }
    }

    /// What is known without settings: where a gateway runs.
    fn of_place(env: Env) -> Self {
        let paths = Paths::resolve(&env).ok();
        let running = paths.as_ref().and_then(|paths| running_at(&paths.instance_lock()));
        let mut local = LocalGateway::default();
        if let Some(Running { address, is_tls }) = near(running) {
            (local.address, local.is_tls) = (address, is_tls);
        }
        Self {
            local,
            history: paths.as_ref().map(history),
            running,
            is_on_every_address: false,
            allows_tailscale: false,
            control: paths.as_ref().map(control),
            env,
        }
    }
}

/// What the configuration says; of variables that are for others than this command, such as
/// a provider's key, it does not need those that only the gateway has.
///
/// # Errors
/// When it cannot be used; of several missing variables the one that the command needs.
pub(super) fn settings(env: &Env, looking: &Overrides) -> Result<Settings, ConfigError> {
    config::load(env, looking).or_else(|error| without_missing(env, looking, error))
}

fn without_missing(
    env: &Env,
    looking: &Overrides,
    first: ConfigError,
) -> Result<Settings, ConfigError> {
    let Some(name) = missing_elsewhere(&first) else { return Err(first) };
    let mut names = BTreeSet::from([name]);
    let error = loop {
        match config::load(&standing_in(env, names.clone()), looking) {
            Ok(settings) => {
                let own = OWN_SECTIONS.map(|section| settings.raw[section].to_string());
                let is_used = |name: &String| own.iter().any(|text| text.contains(name));
                return if names.iter().any(is_used) { Err(first) } else { Ok(settings) };
            }
            Err(error) => {
                let Some(name) = missing_elsewhere(&error) else { break error };
                let is_new = names.insert(name);
                if !is_new || names.len() > MISSING_MAX {
                    return Err(first);
                }
            }
        }
    };
    // Of anything else the reason may be what stands in.
    let is_own = matches!(error, ConfigError::MissingVariable { .. });
    Err(if is_own { error } else { first })
}

/// The variable that a value lacks which this command does not need.
fn missing_elsewhere(error: &ConfigError) -> Option<String> {
    let ConfigError::MissingVariable { key, variable, .. } = error else { return None };
    let section = key.split(['.', '[']).next().unwrap_or_default();
    (!OWN_SECTIONS.contains(&section)).then(|| variable.clone())
}

/// The same variables, and something for these, which nobody here looks at.
fn standing_in(env: &Env, names: BTreeSet<String>) -> Env {
    let own = env.clone();
    let lookup = move |name: &str| {
        own.get(name).or_else(|| names.contains(name).then(|| STAND_IN.to_owned()))
    };
    let (home, cwd) = (env.home().map(Path::to_owned), env.cwd().map(Path::to_owned));
    Env::new(lookup, home).in_directory(cwd)
}

fn history(paths: &Paths) -> PathBuf {
    paths.state_dir.join("chat_history")
}

fn control(paths: &Paths) -> (PathBuf, PathBuf) {
    (paths.control_socket(), paths.identity_file())
}

/// A gateway that runs on this machine: an address that it noted counts only while
/// it is one of this machine.
fn near(running: Option<Running>) -> Option<Running> {
    running.filter(|running| is_own_address(running.address.ip()))
}

/// Where this machine's gateway is: where it really listens, unless somebody
/// says otherwise by the variable. That of a file is not said for this command.
/// Credentials are sent there, so an address that a gateway noted counts only while
/// it is one of this machine, and of the configuration only the port does.
fn reached(settings: &Settings, process: &Env, running: Option<Running>) -> Running {
    let gateway = &settings.gateway;
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), gateway.port);
    let configured = Running { address, is_tls: gateway.tls.enabled };
    match settings.origin_of("gateway.port") {
        Some(Origin::Env(name)) if process.get(name).is_some() => configured,
        _ => near(running).unwrap_or(configured),
    }
}

/// The gateway elsewhere, if the configuration is that of its client.
fn remote(settings: &Settings, env: &Env, screen: &mut Screen) -> Option<RemoteGateway> {
    let remote = &settings.gateway.remote;
    let url = remote.url.clone().filter(|_| settings.gateway.mode == GatewayMode::Remote)?;
    let [token, password] = super::remote_credentials(settings, env).unwrap_or_else(|error| {
        let _ = screen.note(&format!("the secret of the remote gateway is not known: {error:#}"));
        [None, None]
    });
    Some(RemoteGateway { url, token, password, tls_fingerprint: remote.tls_fingerprint })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::instance::InstanceLock;

    /// A gateway of this home is there, at this address.
    fn runs_in(home: &Path, running: Running) -> InstanceLock {
        let mut lock = InstanceLock::acquire(&home.join(".openclaw/clawgate.lock")).unwrap();
        lock.publish(running).unwrap();
        lock
    }

    #[test]
    fn a_config_that_cannot_be_used_leaves_the_way_to_the_gateway_that_waits() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join(".openclaw");
        let address: SocketAddr = "127.0.0.1:19007".parse().unwrap();
        let lock = runs_in(home.path(), Running { address, is_tls: true });
        let found = |text: &str| {
            fs::write(state.join("openclaw.json"), text).unwrap();
            Surroundings::find(Env::fixed([], home.path()), &mut Screen::silent())
        };
        let waits = found("{gateway: {port: 7, auth: {token: 'secret-1'}}, session: 5}");
        assert_eq!((waits.local.address, waits.local.is_tls), (address, true));
        assert!(waits.local.token.unwrap().matches("secret-1"));
        assert_eq!(waits.history, Some(state.join("chat_history")));
        let socket = (state.join("clawgate.sock"), state.join("identity/device.json"));
        assert_eq!(waits.control.as_ref(), Some(&socket));
        // Where no secret is known it is still there.
        let unknown = found("{oops");
        assert_eq!((unknown.local.address, unknown.local.is_tls), (address, true));
        assert!(unknown.local.token.is_none() && unknown.control == Some(socket));
        drop(lock);
    }

    #[test]
    fn a_variable_that_only_the_gateway_has_hides_nothing_of_its_settings() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join(".openclaw");
        fs::create_dir(&state).unwrap();
        let provider = "{baseUrl: 'http://127.0.0.1:9/v1', apiKey: '${NOBODY_HAS_THIS}', \
                        api: 'openai-completions', models: [{id: 'm'}]}";
        let found = |token: &str| {
            let gateway = format!("{{bind: 'lan', auth: {{token: '{token}'}}}}");
            let text = format!("{{gateway: {gateway}, models: {{providers: {{p: {provider}}}}}}}");
            fs::write(state.join("openclaw.json"), text).unwrap();
            Surroundings::find(Env::fixed([], home.path()), &mut Screen::silent())
        };
        let known = found("secret-of-the-file-1");
        assert!(known.is_on_every_address);
        assert!(known.local.token.unwrap().matches("secret-of-the-file-1"));
        // What the command itself needs is not made up.
        for token in ["${NOBODY_HAS_THIS}", "${NOR_THIS}"] {
            let known = found(token);
            assert!(!known.is_on_every_address, "{token}");
            assert!(known.local.token.is_none_or(|it| !it.matches(STAND_IN)), "{token}");
        }
        // Of two that are missing it is the one that is told.
        for section in [
            "gateway: {auth: {token: {source: 'env', id: 'NOR_THIS'}}}",
            "logging: {file: '/${NOR_THIS}'}",
        ] {
            let text = format!("{{{section}, models: {{providers: {{p: {provider}}}}}}}");
            fs::write(state.join("openclaw.json"), text).unwrap();
            let looking = Overrides { read_only: true, ..Overrides::default() };
            let error = settings(&Env::fixed([], home.path()), &looking).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("NOR_THIS"), "{error}");
        }
    }

    #[test]
    fn a_port_of_a_file_does_not_hide_the_gateway_that_runs() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join(".openclaw");
        let address: SocketAddr = "127.0.0.1:19008".parse().unwrap();
        let lock = runs_in(home.path(), Running { address, is_tls: false });
        fs::write(state.join(".env"), "OPENCLAW_GATEWAY_PORT=7\n").unwrap();
        let found = |env| Surroundings::find(env, &mut Screen::silent()).local.address;
        assert_eq!(found(Env::fixed([], home.path())), address);
        let said = Env::fixed([("OPENCLAW_GATEWAY_PORT", "8")], home.path());
        assert_eq!(found(said).port(), 8);
        drop(lock);
    }
}
