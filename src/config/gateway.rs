//! The `gateway` section, but for who is let in (see `auth`).

use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::explain::{Choice, Ledger};
use super::schema::{Node, env_integer};
use super::{
    AuthSettings, Bind, ConfigError, DialectsSettings, Env, HttpSettings, MetricsSettings,
    Overrides, Paths, ProxySettings, ReloadSettings, RemoteSettings, TlsSettings, UiSettings, auth,
    bind, claude_projects, control_ui, dialects, http, metrics, proxies, reload, tls,
};

/// OpenClaw's port, which its clients try first.
pub const DEFAULT_PORT: u16 = 18789;
/// As in the original.
const DEFAULT_HANDSHAKE_MS: u64 = 15_000;
/// A socket without a login must not live longer than ten minutes.
const MAX_HANDSHAKE_MS: u64 = 600_000;
/// As in the original.
const DEFAULT_MAX_PREAUTH: usize = 32;
/// As in the original.
const DEFAULT_HISTORY_CHARS: usize = 8000;

/// How to listen and whom to let in.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// Whether this machine is meant to run a gateway.
    pub mode: GatewayMode,
    /// Port to listen on; 0 takes any free one.
    pub port: u16,
    /// Address to listen on.
    pub bind: Bind,
    /// Who is let in.
    pub auth: AuthSettings,
    /// How long a socket may take to log in.
    pub handshake_timeout: Duration,
    /// Sockets of one address, or one /64 of v6, that have not logged in yet.
    pub max_preauth_per_ip: usize,
    /// Whether the gateway's user manages devices without a token; ours.
    pub control_socket: bool,
    /// Who stands in front, and what it says of users.
    pub proxies: ProxySettings,
    /// What happens when the config file changes.
    pub reload: ReloadSettings,
    /// Rules for browsers.
    pub control_ui: ControlUiSettings,
    /// How the Control UI is served.
    pub ui: UiSettings,
    /// Which APIs of other software there are.
    pub http: HttpSettings,
    /// The header `Strict-Transport-Security` of every answer, if it has one.
    pub strict_transport_security: Option<String>,
    /// The APIs of other software; ours.
    pub dialects: DialectsSettings,
    /// The gateway's certificate.
    pub tls: TlsSettings,
    /// The gateway that client commands are for when `mode` is `remote`.
    pub remote: RemoteSettings,
    /// What is told to scrapers; ours.
    pub metrics: MetricsSettings,
}

/// `gateway.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayMode {
    /// The gateway runs here.
    Local,
    /// The gateway is another machine; this config is that of a client.
    Remote,
}

impl fmt::Display for GatewayMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Remote => "remote",
        })
    }
}

/// `gateway.controlUi`: which pages may connect, and how much they must prove.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ControlUiSettings {
    /// Origins beside the pages served from this machine; `*` is all.
    pub allowed_origins: Vec<String>,
    /// A page on this machine needs no device identity.
    pub allow_insecure_auth: bool,
    /// No page needs a device identity.
    pub dangerously_disable_device_auth: bool,
    /// The `Host` header counts as an allowed origin.
    pub dangerously_allow_host_header_origin_fallback: bool,
}

/// The inputs of one section.
pub(super) struct Sources<'a> {
    pub env: &'a Env,
    pub overrides: &'a Overrides,
    pub paths: &'a Paths,
    pub file: &'a Path,
}

pub(super) fn read(
    root: &Node<'_>,
    from: &Sources<'_>,
    ledger: &mut Ledger,
) -> Result<GatewaySettings, ConfigError> {
    let node = root.member("gateway")?;
    let mode = node.member("mode")?.word("local, remote", |text| match text {
        "local" => Some(GatewayMode::Local),
        "remote" => Some(GatewayMode::Remote),
        _ => None,
    })?;
    let mode = ledger.settle("gateway.mode", Choice::file(from.file, mode), GatewayMode::Local);
    let port = Choice::flag("--port", from.overrides.port)
        .or_env("OPENCLAW_GATEWAY_PORT", env_integer(from.env, "OPENCLAW_GATEWAY_PORT", 0, 65_535)?)
        .or_file(from.file, node.member("port")?.integer(65_535)?);
    let port = ledger.settle("gateway.port", port, DEFAULT_PORT);
    let bind = bind::resolve(&node, from.file, from.overrides.bind, ledger)?;
    let proxies = proxies::read(&node, from.file, ledger)?;
    let (handshake_timeout, max_preauth_per_ip) = limits(&node, from, ledger)?;
    let socket = Choice::file(from.file, node.member("controlSocket")?.boolean()?);
    let control_socket = ledger.settle("gateway.controlSocket", socket, true);
    let reload = reload::read(&node, from.file, ledger)?;
    let pages = node.member("controlUi")?;
    let ui = control_ui::read(&pages, from.file, from.paths, ledger)?;
    let control_ui = control_ui(&pages, from.file, ledger)?;
    let http = http::read(&node, from.file, ledger)?;
    let strict_transport_security = http::strict_transport_security(&node, from.file, ledger)?;
    let mut dialects = dialects::read(&node, from.file, ledger)?;
    dialects.claude_projects = claude_projects::read(&node, from, ledger)?;
    let tls = tls::read(&node, from, ledger)?;
    let remote = tls::remote(&node, from, ledger)?;
    let metrics = metrics::read(&node, from.file, ledger)?;
    // Last, because it may generate a token, and that only for a valid config.
    let auth = auth::resolve(&node.member("auth")?, bind, from, ledger)?;
    proxies::check(auth.mode, &proxies)?;
    Ok(GatewaySettings {
        mode,
        port,
        bind,
        auth,
        handshake_timeout,
        max_preauth_per_ip,
        control_socket,
        proxies,
        reload,
        control_ui,
        ui,
        http,
        strict_transport_security,
        dialects,
        tls,
        remote,
        metrics,
    })
}

fn limits(
    node: &Node<'_>,
    from: &Sources<'_>,
    ledger: &mut Ledger,
) -> Result<(Duration, usize), ConfigError> {
    const TIMEOUT: &str = "OPENCLAW_HANDSHAKE_TIMEOUT_MS";
    const PREAUTH: &str = "OPENCLAW_MAX_PREAUTH_CONNECTIONS_PER_IP";
    let timeout = Choice::env(TIMEOUT, env_integer(from.env, TIMEOUT, 1, MAX_HANDSHAKE_MS)?)
        .or_file(from.file, node.member("handshakeTimeoutMs")?.bounded(1, MAX_HANDSHAKE_MS)?);
    let timeout = ledger.settle("gateway.handshakeTimeoutMs", timeout, DEFAULT_HANDSHAKE_MS);
    let preauth = Choice::env(PREAUTH, env_integer(from.env, PREAUTH, 1, 65_535)?);
    // Not a key of the file, in the original neither; named after what it is.
    let preauth = ledger.settle("gateway.maxPreauthPerIp", preauth, DEFAULT_MAX_PREAUTH);
    Ok((Duration::from_millis(timeout), preauth))
}

fn control_ui(
    node: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<ControlUiSettings, ConfigError> {
    let origins = Choice::file(file, node.member("allowedOrigins")?.texts()?);
    let allowed_origins =
        ledger.settle_list("gateway.controlUi.allowedOrigins", origins, Vec::new());
    let mut switch = |name: &str| -> Result<bool, ConfigError> {
        let choice = Choice::file(file, node.member(name)?.boolean()?);
        Ok(ledger.settle(&format!("gateway.controlUi.{name}"), choice, false))
    };
    Ok(ControlUiSettings {
        allowed_origins,
        allow_insecure_auth: switch("allowInsecureAuth")?,
        dangerously_disable_device_auth: switch("dangerouslyDisableDeviceAuth")?,
        dangerously_allow_host_header_origin_fallback: switch(
            "dangerouslyAllowHostHeaderOriginFallback",
        )?,
    })
}

/// `gateway.webchat.chatHistoryMaxChars`.
pub(super) fn history_max_chars(
    root: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<usize, ConfigError> {
    let key = "gateway.webchat.chatHistoryMaxChars";
    let choice = Choice::file(file, root.at(key)?.count()?);
    Ok(ledger.settle(key, choice, DEFAULT_HISTORY_CHARS))
}
