//! A socket in the state directory, so that whoever runs the gateway can always
//! decide about devices, also without its token.
//!
//! Owns: `clawgate.sock`. Promises: only the user of the gateway (and root) is
//! served, who can also read its private key, which commands in the sandbox
//! cannot; and only with methods about devices. Who is connected goes with the
//! socket. What is left of a gateway that was killed is replaced. Must not: be
//! reached over a network.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::accepting::Accepting;
use crate::auth::Principal;
use crate::bus::Subscriber;
use crate::protocol::{ErrorShape, Profile, Version};
use crate::registry::{Answer, Caller, Ctx, Services};
use crate::support::{Secret, json};

/// What may be asked here begins so.
const METHODS: &str = "device.";
/// A request is one line; none of these methods takes much.
const MAX_LINE: u64 = 64 * 1024;
/// A command asks at once and goes; one that hangs must not stay.
const IDLE_LIMIT: Duration = Duration::from_secs(30);
/// One person uses one command at a time; the rest waits.
const MAX_CONNECTIONS: usize = 16;

/// The socket; its file goes with it.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

/// What whoever connects has to sign with the gateway's key.
pub fn challenge(nonce: &str) -> String {
    format!("clawgate control socket|{nonce}")
}

/// The first line from the other end.
#[derive(Deserialize)]
struct Proof {
    signature: Secret,
}

#[derive(Deserialize)]
struct Request {
    method: String,
    params: Option<Box<RawValue>>,
}

impl ControlSocket {
    /// Makes the socket. Whoever calls this holds the state directory, so a
    /// socket that is there belongs to nobody any more.
    pub fn open(path: &Path) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        // Until here its mode is that of the umask; who else connects by then is
        // turned away by the user it belongs to.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Serves it until the task is dropped, and with it whoever is connected: what has been
    /// asked by then is still done.
    pub async fn serve(self, services: Arc<Services>) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut accepting = Accepting::new("control");
        // Connections are tasks of their own, which would outlast this one.
        let over = CancellationToken::new();
        let _ends = over.clone().drop_guard();
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let (stream, _) = accepting.next(|| self.listener.accept()).await;
            if !is_own_user(&stream) {
                tracing::warn!("another user was refused at the control socket");
                continue;
            }
            let (served, over) = (Arc::clone(&services), over.clone());
            services.tasks.spawn("control", async move {
                if let Err(error) = converse(stream, served, &over).await {
                    tracing::debug!(%error, "control connection");
                }
                drop(place);
            });
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether the other end is the gateway's user or root. The mode of the file
/// says the same; this holds where a file system does not keep modes.
fn is_own_user(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

/// Answers one line after the other, once the other end has proved itself, until the socket
/// is `over`.
async fn converse(
    mut stream: UnixStream,
    services: Arc<Services>,
    over: &CancellationToken,
) -> io::Result<()> {
    let caller = owner(&services);
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    let nonce = services.ids.uuid();
    say(&mut write, &json!({"nonce": nonce}).to_string()).await?;
    let Some(line) = heard(&mut read, over).await? else { return Ok(()) };
    let signed = services.identity.sign(&challenge(&nonce));
    let proof = serde_json::from_slice::<Proof>(&line).ok();
    if !proof.is_some_and(|proof| proof.signature.matches(&signed)) {
        tracing::warn!("somebody without the gateway's key was refused at the control socket");
        let error = ErrorShape::denied("prove that you can read the gateway's key");
        return say(&mut write, &refusal(&error)).await;
    }
    while let Some(line) = heard(&mut read, over).await? {
        let answer = match answer(&services, &caller, &line).await {
            Ok(answer) => format!("{{\"ok\":true,\"payload\":{}}}", answer.json()),
            Err(error) => refusal(&error),
        };
        say(&mut write, &answer).await?;
    }
    Ok(())
}

/// The next line, while the socket is not over.
async fn heard(
    read: &mut (impl AsyncBufRead + Unpin),
    over: &CancellationToken,
) -> io::Result<Option<Vec<u8>>> {
    tokio::select! {
        // First: who always has something to say is heard no more either.
        biased;
        () = over.cancelled() => Ok(None),
        line = next_line(read) => line,
    }
}

/// The next line; `None` when none comes, or one that is too long.
async fn next_line(read: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut bounded = read.take(MAX_LINE);
    let reading = bounded.read_until(b'\n', &mut line);
    let Ok(taken) = tokio::time::timeout(IDLE_LIMIT, reading).await else { return Ok(None) };
    taken?;
    Ok((line.last() == Some(&b'\n')).then_some(line))
}

async fn say(write: &mut (impl AsyncWrite + Unpin), line: &str) -> io::Result<()> {
    let writing = async {
        write.write_all(line.as_bytes()).await?;
        write.write_all(b"\n").await
    };
    tokio::time::timeout(IDLE_LIMIT, writing).await.map_err(io::Error::other)?
}

fn refusal(error: &ErrorShape) -> String {
    let error = error.to_wire(Profile::Standard(Version::V3));
    json!({"ok": false, "error": error}).to_string()
}

async fn answer(
    services: &Arc<Services>,
    caller: &Arc<Caller>,
    line: &[u8],
) -> Result<Answer, ErrorShape> {
    let request: Request = serde_json::from_slice(line)
        .map_err(|error| ErrorShape::invalid(format!("invalid request: {error}")))?;
    if !request.method.starts_with(METHODS) {
        let text = format!("{} is not served here; use the gateway's address", request.method);
        return Err(ErrorShape::denied(text));
    }
    let cx = Ctx::new(Arc::clone(services), Arc::clone(caller));
    let (cx, exchange) = cx.for_request("".into());
    let answering = services.registry.call(cx, &request.method, request.params);
    let answer = answering.map_err(|denial| denial.error)?.await;
    exchange.answered();
    answer
}

/// Whoever may open the socket could change the database as well.
fn owner(services: &Services) -> Arc<Caller> {
    let principal = Arc::new(Principal::of_this_machine());
    let conn_id: Arc<str> = services.ids.uuid().into();
    Arc::new(Caller {
        profile: Profile::Standard(Version::V3),
        client_id: "cli".into(),
        subscriber: Arc::new(Subscriber::new(conn_id, Arc::clone(&principal), &[])),
        principal,
        person: None,
        name: "clawgate cli".into(),
        place: None,
        is_webchat: false,
        is_dashboard: false,
        is_retrying: true,
        key_names: Arc::default(),
    })
}
