//! Challenge and connect: who is it, and may it come in?

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::auth::Peer;
use crate::bus::{Event, EventKind};
use crate::config::AuthMode;
use crate::protocol::connect::{Connect, parse_connect};
use crate::protocol::{
    ErrorCode, ErrorShape, FrameError, Profile, Request, Version, parse_binary, response_err,
};
use crate::support::json;
use crate::telemetry::metrics::NUMBERS;
use crate::telemetry::quoted;

use super::frames::Frames;
use super::socket::{Received, Socket};
use super::upgrade::Gateway;
use super::welcome::{Decision, Guest, Welcome};

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
    let attempt = Attempt { guest: Guest { gateway, peer, conn_id }, nonce };
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
            let welcome = attempt.guest.welcome(socket, &id, decision).await;
            NUMBERS.handshakes.count(match &welcome {
                Some(welcome) if welcome.caller.subscriber.outbox.is_cut() => "refused",
                Some(_) => "ok",
                None => "gone",
            });
            welcome.ok_or(None)
        }
        Err(refusal) => {
            let is_paired = refusal.error.code != ErrorCode::NotPaired;
            NUMBERS.handshakes.count(if is_paired { "refused" } else { "not_paired" });
            Err(Some(attempt.refuse(socket, &id, &refusal).await))
        }
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

struct Attempt<'a> {
    guest: Guest<'a>,
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
        let auth = self.guest.gateway.auth.now();
        let connect = parse_connect(params).map_err(Refused::standard)?;
        let peer = &auth.vouchers().ask(self.guest.peer).await;
        let now_ms = self.guest.gateway.services.clock.now_ms();
        let (profile, admission) = match &connect {
            Connect::Standard(connect) => {
                let version = Version::negotiate(connect.min_protocol, connect.max_protocol)
                    .ok_or_else(Refused::version)?;
                let admission = auth
                    .admit_standard(connect, peer, &self.guest.conn_id, &self.nonce, now_ms)
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
                    .admit_simple(connect, peer, &self.guest.conn_id, &self.nonce, now_ms)
                    .await
                    .map_err(|error| Refused { error, profile, code: 1008 })?;
                (profile, admission)
            }
        };
        Ok(Decision { connect, profile, admission: admission.of_peer(peer), auth })
    }

    async fn refuse(&self, socket: &mut Socket, id: &str, refused: &Refused) -> Farewell {
        let Refused { error, profile, code } = refused;
        let detail = |name: &str| error.details.as_ref()?.get(name)?.as_str();
        tracing::warn!(
            conn = %self.guest.conn_id,
            client = %self.guest.gateway.auth.now().client_ip(self.guest.peer),
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
}
