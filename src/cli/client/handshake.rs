//! From an open socket to `hello-ok`.
//!
//! Owns: the two forms of `connect` and the choice between them. Promises: a
//! gateway that is still starting is waited for. Must not: outlive the limit
//! that its caller sets.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::protocol::Scope;
use crate::support::{Secret, json};

use super::error::{ClientError, GatewayError};
use super::frame::Frame;
use super::socket::Socket;
use super::target::Target;

/// Id of the one request of a handshake.
const CONNECT_ID: &str = "connect";

/// A gateway that says "retry" without a time gets this.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// How to introduce oneself; it decides the rights of a client without a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Protocol v3. Without a device its rights are kept on loopback only.
    Standard,
    /// The simple profile. The only form that gives a device-less client from
    /// elsewhere the rights that its credential is worth.
    Simple,
}

/// Connects and introduces this client; gives the socket and the payload of
/// `hello-ok`.
pub(super) async fn open(target: &Target) -> Result<(Socket, Value), ClientError> {
    let mut form = if target.url.is_loopback() { Form::Standard } else { Form::Simple };
    let mut standard_refusal: Option<Box<GatewayError>> = None;
    loop {
        let error = match attempt(target, form).await {
            Err(ClientError::Handshake(error)) => error,
            other => return other,
        };
        if let Some(pause) = error.retry_after() {
            tokio::time::sleep(pause.max(LEAST_PAUSE)).await;
        } else if form == Form::Standard && error.wants_device() {
            // Auth mode `none`, or no credential at hand.
            form = Form::Simple;
            standard_refusal = Some(error);
        } else if error.message.starts_with("invalid connect params") {
            // The original does not know the simple form; its first answer is
            // the one that helps.
            return Err(ClientError::Handshake(standard_refusal.unwrap_or(error)));
        } else {
            return Err(ClientError::Handshake(error));
        }
    }
}

async fn attempt(target: &Target, form: Form) -> Result<(Socket, Value), ClientError> {
    let mut socket = Socket::open(target).await?;
    if form == Form::Standard {
        wait_for_challenge(&mut socket).await?;
    }
    let params = match form {
        Form::Standard => standard_params(target),
        Form::Simple => simple_params(target),
    };
    socket
        .send(&json!({"type": "req", "id": CONNECT_ID, "method": "connect", "params": params}))
        .await?;
    loop {
        if let Frame::Answer { id, result } = socket.read().await?
            && id == CONNECT_ID
        {
            return Ok((socket, result.map_err(|error| ClientError::Handshake(Box::new(error)))?));
        }
    }
}

async fn wait_for_challenge(socket: &mut Socket) -> Result<(), ClientError> {
    loop {
        if let Frame::Event(event) = socket.read().await?
            && event.name == "connect.challenge"
        {
            return Ok(());
        }
    }
}

fn standard_params(target: &Target) -> Value {
    let mut params = json!({
        "minProtocol": 3,
        "maxProtocol": 3,
        "client": {
            "id": "gateway-client",
            "displayName": "clawgate cli",
            "version": env!("CARGO_PKG_VERSION"),
            "platform": std::env::consts::OS,
            "mode": "backend",
        },
        "role": "operator",
        "scopes": Scope::ALL.map(Scope::as_str),
        "caps": ["tool-events"],
    });
    let auth = credentials(target);
    if !auth.is_empty() {
        params["auth"] = Value::Object(auth);
    }
    params
}

fn simple_params(target: &Target) -> Value {
    let mut params = credentials(target);
    params.insert("clientType".into(), json!("cli"));
    params.insert("clientVersion".into(), json!(env!("CARGO_PKG_VERSION")));
    Value::Object(params)
}

fn credentials(target: &Target) -> Map<String, Value> {
    [("token", &target.token), ("password", &target.password)]
        .into_iter()
        .filter_map(|(name, secret)| {
            let text = secret.as_ref().map(Secret::expose)?;
            Some((name.to_owned(), json!(text)))
        })
        .collect()
}
