//! What client commands know of the machine they run on.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::config::{self, ConfigError, Env, GatewayMode, Origin, Overrides, Paths, Settings};
use crate::gateway::tls::fingerprint_of_file;
use crate::store::instance::{Running, running_at};
use crate::support::is_own_address;

use super::client::{RemoteGateway, Target, authorities};
use super::{CliError, LocalGateway, Screen};

/// Sections whose variables the command itself may need.
const OWN_SECTIONS: [&str; 4] = ["gateway", "secrets", "env", "logging"];
/// Stands for a variable that nobody here looks at.
pub(super) const STAND_IN: &str = "not-in-this-environment";
/// More variables than this no file names in vain.
const MISSING_MAX: usize = 32;

/// Settings, and the variables that they lack.
type Partial = (Settings, BTreeSet<String>);

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
    /// Whether its secret is one that the configuration only refers to, read just now.
    pub refers_to_secret: bool,
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
        let used = loaded.ok().map(|settings| mending(&settings, &env).unwrap_or(settings));
        let found = match used.or_else(|| config::salvage(&env, &looking)) {
            Some(settings) => Self::of(settings, env, screen),
            None => Self::of_place(env),
        };
        // As Node does: fewer are believed then, which is no reason to stop.
        let extra = found.local.extra_authorities.as_deref();
        if let Some(Err(error)) = extra.map(authorities) {
            let _ = screen.note(&format!("NODE_EXTRA_CA_CERTS is left out: {error}"));
        }
        found
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
        let refers = !settings.gateway.auth.referred.is_empty();
        if let Err(error) = super::follow_secrets(&mut settings, &env) {
            let _ = screen.note(&format!("the gateway's secret is not known: {error:#}"));
        }
        let running = running_at(&settings.paths.instance_lock());
        let Running { address, is_tls, fingerprint, .. } = reached(&settings, &env, running);
        let of_file = || fingerprint_of_file(&settings.gateway.tls.cert_path).ok();
        let remote = remote(&settings, &env, screen);
        Self {
            refers_to_secret: refers && remote.is_none(),
            local: LocalGateway {
                address,
                is_tls,
                // While it is renewed the files are not what the gateway goes by.
                tls_fingerprint: fingerprint.or_else(of_file),
                remote,
                token: settings.gateway.auth.token.clone(),
                password: settings.gateway.auth.password.clone(),
                extra_authorities: extra_authorities(&settings.environment(&env)),
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
        let extra_authorities = extra_authorities(&env);
        let mut local = LocalGateway { extra_authorities, ..LocalGateway::default() };
        if let Some(Running { address, is_tls, fingerprint, .. }) = near(running) {
            (local.address, local.is_tls) = (address, is_tls);
            local.tls_fingerprint = fingerprint;
        }
        Self {
            local,
            history: paths.as_ref().map(history),
            running,
            is_on_every_address: false,
            allows_tailscale: false,
            refers_to_secret: false,
            control: paths.as_ref().map(control),
            env,
        }
    }
}

/// What the gateway of this machine goes by instead of these settings, where it only waits for
/// its config file to be mended: the fault may be one that only a gateway finds.
pub(super) fn mending(settings: &Settings, env: &Env) -> Option<Settings> {
    let running = running_at(&settings.paths.instance_lock());
    let is_own = settings.gateway.mode != GatewayMode::Remote;
    running.filter(|running| running.mends && is_own)?;
    config::salvage(env, &Overrides { read_only: true, ..Overrides::default() })
}

/// What the configuration says; of variables that are for others than this command, such as
/// a provider's key, it does not need those that only the gateway has.
///
/// # Errors
/// When it cannot be used; of several missing variables the one that the command needs.
pub(super) fn settings(env: &Env, looking: &Overrides) -> Result<Settings, ConfigError> {
    with_missing(env, looking).map(|(settings, _)| settings)
}

/// The same, with the names of the variables that are missing.
pub(super) fn with_missing(env: &Env, looking: &Overrides) -> Result<Partial, ConfigError> {
    config::load(env, looking)
        .map(|settings| with_unset(settings, BTreeSet::new()))
        .or_else(|error| without_missing(env, looking, error))
}

fn without_missing(
    env: &Env,
    looking: &Overrides,
    first: ConfigError,
) -> Result<Partial, ConfigError> {
    let Some(name) = missing_elsewhere(&first) else { return Err(first) };
    let mut names = BTreeSet::from([name]);
    let error = loop {
        let missing = names.clone();
        let standing_in = env.overlaid(move |name, own| {
            let own = own.filter(|value| !value.trim().is_empty());
            own.or_else(|| missing.contains(name).then(|| STAND_IN.to_owned()))
        });
        match config::load(&standing_in, looking) {
            Ok(settings) => {
                let own = OWN_SECTIONS.map(|section| settings.raw[section].to_string());
                let is_used = |name: &String| own.iter().any(|text| text.contains(name));
                let is_known = !names.iter().any(is_used);
                return if is_known { Ok(with_unset(settings, names)) } else { Err(first) };
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

/// The settings, with the names and those of the variables that they do without.
fn with_unset(settings: Settings, mut names: BTreeSet<String>) -> Partial {
    names.extend(settings.unset.iter().map(|unset| unset.variable.clone()));
    (settings, names)
}

/// The variable that a value lacks which this command does not need.
fn missing_elsewhere(error: &ConfigError) -> Option<String> {
    let ConfigError::MissingVariable { key, variable, .. } = error else { return None };
    let section = key.split(['.', '[']).next().unwrap_or_default();
    (!OWN_SECTIONS.contains(&section)).then(|| variable.clone())
}

/// The file of authorities that are believed beside the system's.
fn extra_authorities(env: &Env) -> Option<PathBuf> {
    env.get("NODE_EXTRA_CA_CERTS").map(PathBuf::from)
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
    let configured = Running { is_tls: gateway.tls.enabled, ..Running::at(address) };
    let origin = settings.origin_of("gateway.port");
    let is_said = matches!(origin, Some(Origin::Env(name)) if process.get(name).is_some());
    let is_meant = |running: &Running| !is_said || running.address.port() == gateway.port;
    near(running).filter(is_meant).unwrap_or(configured)
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
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;
    use crate::store::instance::InstanceLock;
    use crate::support::{Fingerprint, json};

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
        let pin = Fingerprint::of(b"in use");
        let tls = Running { is_tls: true, fingerprint: Some(pin), ..Running::at(address) };
        let lock = runs_in(home.path(), tls);
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
        assert_eq!(unknown.local.tls_fingerprint, Some(pin));
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
        let lock = runs_in(home.path(), Running::at(address));
        fs::write(state.join(".env"), "OPENCLAW_GATEWAY_PORT=7\n").unwrap();
        let found = |env| Surroundings::find(env, &mut Screen::silent()).local.address;
        assert_eq!(found(Env::fixed([], home.path())), address);
        let said = Env::fixed([("OPENCLAW_GATEWAY_PORT", "8")], home.path());
        assert_eq!(found(said).port(), 8);
        drop(lock);
    }

    #[test]
    fn the_certificate_that_a_gateway_has_in_use_goes_before_that_of_the_file() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join(".openclaw");
        let (address, pin) = ("127.0.0.1:19009".parse().unwrap(), Fingerprint::of(b"in use"));
        let tls = Running { is_tls: true, ..Running::at(address) };
        let mut lock = runs_in(home.path(), Running { fingerprint: Some(pin), ..tls });
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::create_dir_all(state.join("gateway/tls")).unwrap();
        fs::write(state.join("gateway/tls/gateway-cert.pem"), made.cert.pem()).unwrap();
        fs::write(state.join("openclaw.json"), "{gateway: {tls: {enabled: true}}}").unwrap();
        let found = |env| Surroundings::find(env, &mut Screen::silent()).local.tls_fingerprint;
        let at = |port| Env::fixed([("OPENCLAW_GATEWAY_PORT", port)], home.path());
        let of_file = Some(Fingerprint::of(made.cert.der()));
        assert_eq!(found(Env::fixed([], home.path())), Some(pin));
        assert_eq!(found(at("19009")), Some(pin));
        assert_eq!(found(at("8")), of_file, "of another gateway");
        lock.publish(tls).unwrap();
        assert_eq!(found(Env::fixed([], home.path())), of_file, "of an earlier version");
    }

    #[test]
    fn a_gateway_that_waits_to_be_mended_is_asked_with_the_secret_that_it_goes_by() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join(".openclaw");
        let running = Running::at("127.0.0.1:19010".parse().unwrap());
        let mut lock = runs_in(home.path(), running);
        fs::write(state.join("gateway-token"), "generated-secret").unwrap();
        let kept = state.join("token.txt");
        fs::write(&kept, "secret-elsewhere").unwrap();
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o600)).unwrap();
        let config = json!({
            "secrets": {"providers": {"f": {"source": "file", "path": kept, "mode": "singleValue"}}},
            "gateway": {"auth": {"token": {"source": "file", "provider": "f", "id": "value"}}},
        });
        fs::write(state.join("openclaw.json"), config.to_string()).unwrap();
        let is_asked_with = |secret: &str, refers: bool| {
            let env = Env::fixed([], home.path());
            let around = Surroundings::find(env, &mut Screen::silent());
            assert!(around.local.token.unwrap().matches(secret), "{secret}");
            assert_eq!(around.refers_to_secret, refers, "{secret}");
        };
        is_asked_with("secret-elsewhere", true);
        lock.publish(Running { mends: true, ..running }).unwrap();
        is_asked_with("generated-secret", false);
    }
}
