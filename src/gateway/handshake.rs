//! Challenge, connect, hello-ok.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::auth::{Admission, Auth, DeviceGrant, Peer, Principal};
use crate::bus::{Beacon, Event, EventKind, Subscriber};
use crate::config::AuthMode;
use crate::nodes::Joining;
use crate::protocol::connect::{Connect, StandardConnect, parse_connect};
use crate::protocol::hello::{
    Features, Granted, GrantedToken, HelloOk, Policy, ServerInfo, SessionDefaults, Snapshot,
};
use crate::protocol::{
    ErrorCode, ErrorShape, FrameError, Profile, Request, Role, Scope, Version, is_dashboard,
    parse_binary, response_err, response_of,
};
use crate::registry::{Caller, KeyNames};
use crate::sessions::SessionKey;
use crate::store::NodeFacts;
use crate::support::json;
use crate::telemetry::metrics::{NUMBERS, OpenConnection};
use crate::telemetry::quoted;

use super::footing::Footing;
use super::frames::Frames;
use super::leave::Leave;
use super::render::View;
use super::socket::{Received, Socket};
use super::upgrade::Gateway;

/// A connection that was let in.
pub struct Welcome {
    /// Who it is.
    pub caller: Caller,
    /// How it wants its events.
    pub view: View,
    /// What takes it out of the lists at its end.
    pub leave: Leave,
}

/// How a handshake ends that does not succeed.
pub enum Farewell {
    /// With this code.
    Close { code: u16, reason: String },
    /// The client has said it, and sees it answered.
    Answer,
}

impl Farewell {
    fn silent(code: u16) -> Self {
        Self::Close { code, reason: String::new() }
    }

    /// Closes the socket.
    pub async fn say(self, socket: Socket) {
        let rest = match self {
            Self::Close { code, reason } => socket.close(code, &reason).await,
            Self::Answer => socket.part(Frames::default()),
        };
        rest.finish().await;
    }
}

/// Runs the handshake; `Err` is how to close.
pub async fn run(
    gateway: &Arc<Gateway>,
    socket: &mut Socket,
    peer: &Peer,
) -> Result<Welcome, Option<Farewell>> {
    let services = &gateway.services;
    let conn_id: Arc<str> = services.ids.uuid().into();
    let nonce = services.ids.uuid();
    let challenge = Event::new(
        EventKind::ConnectChallenge,
        &json!({"nonce": nonce, "ts": services.clock.now_ms()}),
    );
    if !socket.send(challenge.frame(0)).await {
        return Err(None);
    }
    let limit = services.settings.now().gateway.handshake_timeout;
    let message = tokio::time::timeout(limit, first_message(socket))
        .await
        .inspect_err(|_| NUMBERS.handshakes.count("timeout"))
        .map_err(|_| Some(Farewell::silent(1000)))?
        .inspect_err(|end| {
            let is_gone = matches!(end, Farewell::Answer);
            NUMBERS.handshakes.count(if is_gone { "gone" } else { "invalid" });
        })
        .map_err(Some)?;
    let attempt = Attempt { gateway, peer, conn_id, nonce };
    let request = attempt.first_request(socket, &message).await.map_err(|farewell| {
        NUMBERS.handshakes.count("invalid");
        Some(farewell)
    })?;
    let Request { id, params, .. } = request;
    let id = id.into_owned();
    drop(message);
    match attempt.decide(params.as_deref()).await {
        Ok(decision) => {
            socket.authenticated();
            let welcome = attempt.welcome(socket, &id, decision).await;
            NUMBERS.handshakes.count(if welcome.is_some() { "ok" } else { "gone" });
            welcome.ok_or(None)
        }
        Err(refusal) => {
            let is_paired = refusal.error.code != ErrorCode::NotPaired;
            NUMBERS.handshakes.count(if is_paired { "refused" } else { "not_paired" });
            Err(Some(attempt.refuse(socket, &id, &refusal).await))
        }
    }
}

/// Which program it says that it is.
fn client_id(connect: &Connect) -> Arc<str> {
    match connect {
        Connect::Standard(connect) => connect.client.id.as_str().into(),
        Connect::Simple(connect) => connect.client_type.as_deref().unwrap_or("simple").into(),
    }
}

/// Whether it is a chat in a page, and not the control UI.
fn is_webchat(connect: &Connect) -> bool {
    matches!(connect, Connect::Standard(connect)
        if connect.client.mode == "webchat" && connect.client.id != "openclaw-control-ui")
}

/// What a client calls itself.
fn called(connect: &Connect) -> Arc<str> {
    match connect {
        Connect::Standard(connect) => {
            let client = &connect.client;
            client.display_name.as_ref().unwrap_or(&client.id).as_str().into()
        }
        Connect::Simple(connect) => connect.client_type.as_deref().unwrap_or("client").into(),
    }
}

async fn first_message(socket: &mut Socket) -> Result<bytes::Bytes, Farewell> {
    loop {
        match socket.receive().await {
            Received::Message(message) => return Ok(message.into()),
            Received::Binary(message) => return Ok(message),
            Received::Control => {}
            Received::TooLarge => return Err(Farewell::silent(1009)),
            Received::Broken(code) => return Err(Farewell::silent(code)),
            Received::Gone(_) => return Err(Farewell::Answer),
        }
    }
}

struct Refused {
    error: ErrorShape,
    profile: Profile,
    code: u16,
}

impl Refused {
    fn standard(error: ErrorShape) -> Self {
        Self { error, profile: Profile::Standard(Version::V3), code: 1008 }
    }

    fn version() -> Self {
        let error = ErrorShape::invalid("protocol mismatch").details(json!({
            "expectedProtocol": Version::V3.number(),
            "minProtocol": Version::V3.number(),
            "maxProtocol": Version::V4.number(),
        }));
        Self { code: 1002, ..Self::standard(error) }
    }
}

/// Who comes in, and how it wants to speak.
struct Decision {
    connect: Connect,
    profile: Profile,
    admission: Admission,
    /// By which rules.
    auth: Arc<Auth>,
}

struct Attempt<'a> {
    gateway: &'a Arc<Gateway>,
    peer: &'a Peer,
    conn_id: Arc<str>,
    nonce: String,
}

impl Attempt<'_> {
    /// Is the message a `connect` request at all?
    async fn first_request<'a>(
        &self,
        socket: &mut Socket,
        message: &'a [u8],
    ) -> Result<Request<'a>, Farewell> {
        let request = match parse_binary(message) {
            Ok(request) => request,
            Err(FrameError::NotJson) => return Err(Farewell::silent(1000)),
            Err(FrameError::NotRequest { .. }) => {
                return Err(Farewell::Close { code: 1008, reason: "invalid request frame".into() });
            }
        };
        if request.method != "connect" {
            let error = ErrorShape::invalid("invalid handshake: first request must be connect");
            return Err(self.refuse(socket, &request.id, &Refused::standard(error)).await);
        }
        Ok(request)
    }

    /// Who is it, and may it come in?
    async fn decide(&self, params: Option<&RawValue>) -> Result<Decision, Refused> {
        let auth = self.gateway.auth.now();
        let connect = parse_connect(params).map_err(Refused::standard)?;
        let peer = &auth.vouchers().ask(self.peer).await;
        let now_ms = self.gateway.services.clock.now_ms();
        let (profile, admission) = match &connect {
            Connect::Standard(connect) => {
                let version = Version::negotiate(connect.min_protocol, connect.max_protocol)
                    .ok_or_else(Refused::version)?;
                let admission = auth
                    .admit_standard(connect, peer, &self.conn_id, &self.nonce, now_ms)
                    .await
                    .map_err(|error| {
                        let is_for_devices = error.code == ErrorCode::NotPaired;
                        let is_by_token = auth.mode() == AuthMode::Token;
                        let told = connect.lacks_token().filter(|_| is_for_devices && is_by_token);
                        Refused::standard(told.unwrap_or(error))
                    })?;
                (Profile::Standard(version), admission)
            }
            Connect::Simple(connect) => {
                let profile = Profile::Simple;
                let admission = auth
                    .admit_simple(connect, peer, &self.conn_id, &self.nonce, now_ms)
                    .await
                    .map_err(|error| Refused { error, profile, code: 1008 })?;
                (profile, admission)
            }
        };
        Ok(Decision { connect, profile, admission, auth })
    }

    async fn refuse(&self, socket: &mut Socket, id: &str, refused: &Refused) -> Farewell {
        let Refused { error, profile, code } = refused;
        let detail = |name: &str| error.details.as_ref()?.get(name)?.as_str();
        tracing::warn!(
            conn = %self.conn_id,
            client = %self.gateway.auth.now().client_ip(self.peer),
            reason = quoted(&error.message),
            code = detail("code").unwrap_or_default(),
            origin = detail("origin"),
            host = detail("host"),
            "connect refused"
        );
        socket.send(response_err(&Value::from(id), error, *profile)).await;
        let reason = match detail("requestId") {
            Some(request_id) => format!("{} (requestId: {request_id})", error.message),
            None => error.message.clone(),
        };
        Farewell::Close { code: *code, reason }
    }

    async fn welcome(&self, socket: &mut Socket, id: &str, decision: Decision) -> Option<Welcome> {
        let Decision { connect, profile, admission, auth } = decision;
        let services = &self.gateway.services;
        let principal = Arc::new(admission.principal);
        let (caps, user_agent) = match &connect {
            Connect::Standard(connect) => {
                (connect.caps.clone(), connect.user_agent.clone().unwrap_or_default())
            }
            // The simple chat API shows tool events to everybody.
            Connect::Simple(_) => (vec!["tool-events".to_owned()], String::new()),
        };
        let presence_key = match &connect {
            Connect::Standard(connect) => {
                // A device's names are normalised for hello; the list shows
                // what it asked for.
                let device_id = admission.device_id.as_deref();
                let scopes =
                    if device_id.is_some() { &connect.scopes } else { &admission.scope_names };
                self.announce(connect, device_id, principal.role(), scopes)
            }
            Connect::Simple(_) => None,
        };
        let conn_id = Arc::clone(&self.conn_id);
        let open = OpenConnection::new(principal.role().as_str(), profile.dialect());
        let leave = Leave::new(Arc::clone(self.gateway), conn_id, presence_key, open);
        let key_names = Arc::new(KeyNames::default());
        let subscriber =
            Arc::new(Subscriber::new(Arc::clone(&self.conn_id), Arc::clone(&principal), &caps));
        // Joined before the snapshot is taken: what happens in between comes
        // as an event after hello, so nothing falls through (#116043).
        self.gateway.hub.join(Arc::clone(&subscriber));
        // After that, so that whoever asks the node for something reaches it.
        if principal.role() == Role::Node
            && let (Connect::Standard(connect), Some(node_id)) = (&connect, &admission.device_id)
        {
            services.nodes.join(self.joining(connect, node_id)).await;
        }
        let standing = admission.granted.as_ref().map(|granted| granted.standing.clone());
        Footing::new(auth, standing).look_again(self.gateway, &subscriber).await;
        let granted = granted(principal.role(), admission.scope_names, admission.granted);
        let hello = self.hello(profile, &principal, granted);
        let sent = match response_of(id, &hello, hello.space()) {
            Ok(frame) => {
                let send = socket.send(frame);
                subscriber.outbox.unless_cut(send).await.unwrap_or(false)
            }
            Err(error) => {
                tracing::error!(%error, "hello could not be written");
                false
            }
        };
        if !sent {
            return None;
        }
        tracing::info!(conn = %self.conn_id, role = principal.role().as_str(), ?profile, "connected");
        services.health.refresh_soon();
        if principal.role() == Role::Node {
            services.voice.greet(&subscriber).await;
        }
        let view = View::new(profile, &user_agent, Arc::clone(&key_names));
        let is_dashboard = is_dashboard(&user_agent);
        let name = called(&connect);
        let is_near = self.peer.is_local();
        let caller = Caller {
            principal,
            profile,
            client_id: client_id(&connect),
            subscriber,
            name,
            place: (!is_near).then(|| self.gateway.auth.now().place_of(self.peer)),
            is_webchat: is_webchat(&connect),
            is_dashboard,
            is_retrying: true,
            key_names,
        };
        Some(Welcome { caller, view, leave })
    }

    /// A node that comes in, in its own words.
    fn joining(&self, connect: &StandardConnect, node_id: &str) -> Joining {
        let (client, offers) = (connect.client.clone(), connect.offers.clone());
        let is_near = self.peer.is_local();
        let remote_ip =
            (!is_near).then(|| self.gateway.auth.now().client_ip(self.peer).to_string());
        Joining {
            node_id: node_id.to_owned(),
            conn_id: Arc::clone(&self.conn_id),
            facts: NodeFacts {
                display_name: client.display_name,
                platform: Some(client.platform),
                version: Some(client.version),
                client_id: Some(client.id),
                client_mode: Some(client.mode),
                device_family: client.device_family,
                model_identifier: client.model_identifier,
                caps: Some(connect.caps.clone()),
                commands: Some(offers.commands),
                remote_ip,
                ..NodeFacts::default()
            },
            permissions: offers.permissions,
            path_env: offers.path_env,
        }
    }

    fn announce(
        &self,
        connect: &StandardConnect,
        device_id: Option<&str>,
        role: Role,
        scopes: &[String],
    ) -> Option<String> {
        let beacon = Beacon::of_client(&connect.client, device_id, role.as_str(), scopes)?;
        let ip = self.gateway.auth.now().remote_ip(self.peer);
        let beacon = Beacon { ip: ip.map(|ip| ip.to_string()), ..beacon };
        let services = &self.gateway.services;
        let key = beacon.instance_id.clone().unwrap_or_else(|| self.conn_id.to_string());
        services.presence.arrive(&key, beacon, services.clock.now_ms());
        Some(key)
    }

    fn hello(&self, profile: Profile, principal: &Principal, auth: Granted) -> HelloOk<'_> {
        let services = &self.gateway.services;
        let settings = &services.settings.now();
        let (presence, state_version) = services.presence.snapshot(services.clock.now_ms());
        let keys = &services.keys.now();
        let is_admin = principal.allows(Scope::Admin);
        let shown = |path: &std::path::Path| is_admin.then(|| path.display().to_string());
        let mut methods = services.registry.names_for(principal);
        methods.retain(|method| services.repair.as_ref().is_none_or(|it| it.serves(method)));
        let is_v4 = profile == Profile::Standard(Version::V4);
        HelloOk {
            kind: "hello-ok",
            protocol: profile.protocol_number(),
            server: ServerInfo { version: crate::handlers::SERVER_VERSION, conn_id: &self.conn_id },
            features: Features { methods, events: EventKind::names_for(principal) },
            snapshot: Snapshot {
                presence,
                health: services.health.last().map_or_else(empty_object, |it| Box::clone(&it)),
                state_version,
                uptime_ms: services.uptime_ms(),
                session_defaults: SessionDefaults {
                    default_agent_id: keys.default_agent.to_string(),
                    main_key: keys.main_key.clone(),
                    main_session_key: SessionKey::main(&keys.default_agent, keys).to_string(),
                    scope: settings.session.scope.as_str(),
                },
                config_path: shown(&settings.paths.config_path),
                state_dir: shown(&settings.paths.state_dir),
                auth_mode: is_admin.then(|| self.gateway.auth.now().mode().as_str()),
            },
            plugin_surface_urls: is_v4.then(|| json!({})),
            auth,
            policy: Policy::default(),
        }
    }
}

/// `auth` of hello-ok.
fn granted(role: Role, scopes: Vec<String>, device: Option<DeviceGrant>) -> Granted {
    let (own, others) = match device {
        Some(DeviceGrant { token, issued_at_ms, others, .. }) => {
            (token.map(|token| (token.expose().to_owned(), issued_at_ms)), others)
        }
        None => (None, Vec::new()),
    };
    let (device_token, issued_at_ms) = own.unzip();
    let others = others.into_iter().map(|(role, token, scopes, issued_at_ms)| GrantedToken {
        device_token: token.expose().to_owned(),
        role,
        scopes,
        issued_at_ms,
    });
    Granted { role, scopes, device_token, issued_at_ms, device_tokens: others.collect() }
}

fn empty_object() -> Box<RawValue> {
    to_raw_value(&json!({})).unwrap_or_else(|_| Box::<RawValue>::default())
}
