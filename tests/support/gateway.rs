//! The real binary as a child process with its own home, state and port.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::config::WORKSPACE;
use super::{WsClient, program};

/// A gateway that is slower than this to open its port does not start.
const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(10);
/// How long a gateway may take from its first answer to saying that it is ready.
const SURE: Duration = Duration::from_secs(1);
/// Another program may take the free port before the gateway does.
const PORT_TRIES: usize = 3;

type Output = Arc<Mutex<String>>;

/// How a gateway is started.
#[derive(Clone, Default)]
pub struct GatewayOptions {
    /// `openclaw.json`; without one the gateway makes its own.
    pub config: Option<Value>,
    pub env: Vec<(String, String)>,
    /// Arguments after `gateway --port N --verbose`.
    pub args: Vec<String>,
    /// A program that is started instead, with the command line of the gateway as
    /// its arguments; it has to become the gateway.
    pub through: Option<PathBuf>,
}

impl GatewayOptions {
    pub fn with_config(config: Value) -> Self {
        Self { config: Some(config), ..Self::default() }
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A running gateway. Dropping it kills its process and removes its files.
pub struct Gateway {
    child: Option<Child>,
    port: u16,
    options: GatewayOptions,
    root: TempDir,
    stdout: Output,
    stderr: Output,
    readers: Vec<JoinHandle<()>>,
}

impl Gateway {
    /// Starts a gateway on fresh state; panics with its stderr when it fails.
    pub async fn start(options: GatewayOptions) -> Self {
        Self::try_start(options).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a gateway on fresh state, in a new root directory.
    pub async fn try_start(options: GatewayOptions) -> Result<Self, String> {
        Self::start_in(TempDir::with_prefix("clawgate-test-").unwrap(), options).await
    }

    /// Starts a gateway on what `root` holds (`home/`, `state/`).
    pub async fn start_in(root: TempDir, options: GatewayOptions) -> Result<Self, String> {
        for folder in ["home", "state", "workspace", "tmp"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let mut gateway = Self {
            child: None,
            port: 0,
            options,
            root,
            stdout: Output::default(),
            stderr: Output::default(),
            readers: Vec::new(),
        };
        if let Some(config) = &gateway.options.config {
            let workspace = gateway.workspace().to_string_lossy().into_owned();
            let text = config.to_string().replace(WORKSPACE, &workspace);
            fs::write(gateway.config_path(), text).unwrap();
        }
        gateway.spawn().await?;
        Ok(gateway)
    }

    /// Starts a gateway on fresh state that needs further ports, and says which it has:
    /// other ones where another program was quicker.
    pub async fn start_with_ports<const N: usize>(
        options: impl Fn([u16; N]) -> GatewayOptions,
    ) -> (Self, [u16; N]) {
        let mut failure = String::new();
        for _ in 0..PORT_TRIES {
            let ports = [(); N].map(|()| free_port());
            match Self::try_start(options(ports)).await {
                Ok(gateway) => return (gateway, ports),
                Err(error) => failure = error,
            }
            if !failure.contains("cannot listen on") {
                break;
            }
        }
        panic!("{failure}")
    }

    async fn spawn(&mut self) -> Result<(), String> {
        let mut failure = String::new();
        for _ in 0..PORT_TRIES {
            self.port = free_port();
            let before = self.times_ready();
            self.launch();
            match self.ready(before).await {
                Ok(()) => return Ok(()),
                Err(error) => failure = error,
            }
            self.kill9();
            if !failure.contains("in use") {
                break;
            }
        }
        Err(failure)
    }

    fn launch(&mut self) {
        let program = Path::new(program());
        let mut command = match &self.options.through {
            Some(through) => {
                let mut command = Command::new(through);
                command.arg(program);
                command
            }
            None => Command::new(program),
        };
        let mut child = command
            .args(["gateway", "--port", &self.port.to_string(), "--verbose"])
            .args(&self.options.args)
            .env_clear()
            .envs(self.environment())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        self.readers.push(collect(child.stdout.take().unwrap(), &self.stdout));
        self.readers.push(collect(child.stderr.take().unwrap(), &self.stderr));
        self.child = Some(child);
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut env = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()),
            ("HOME".to_owned(), text(self.home())),
            ("TMPDIR".to_owned(), text(self.root.path().join("tmp"))),
            ("TZ".to_owned(), "UTC".to_owned()),
            ("OPENCLAW_STATE_DIR".to_owned(), text(self.state_dir())),
            ("OPENCLAW_CONFIG_PATH".to_owned(), text(self.config_path())),
        ]);
        env.extend(self.options.env.iter().cloned());
        env
    }

    /// Whether its port speaks TLS, as far as its config says.
    fn is_tls(&self) -> bool {
        let tls = self.options.config.as_ref().map(|config| &config["gateway"]["tls"]["enabled"]);
        tls.is_some_and(|enabled| *enabled == true)
    }

    /// How often it has said that it is ready.
    fn times_ready(&self) -> usize {
        self.stdout.lock().matches("  Next ").count()
    }

    /// Waits until the port answers a WebSocket upgrade; with TLS until the
    /// gateway says that it is ready.
    async fn ready(&mut self, before: usize) -> Result<(), String> {
        let deadline = Instant::now() + START_LIMIT;
        let address = self.address();
        loop {
            if let Some(status) = self.exited() {
                self.read_to_end();
                return Err(format!("the gateway ended with {status}: {}", self.stderr()));
            }
            if self.is_tls() {
                if self.times_ready() > before {
                    return Ok(());
                }
                sleep(POLL).await;
                continue;
            }
            match WsClient::open_with(&address, "/", &[]).await {
                Ok(_) => {
                    // It may be the gateway of another test that took the port first:
                    // then ours ends.
                    let sure = Instant::now() + SURE;
                    while self.times_ready() == before
                        && self.exited().is_none()
                        && Instant::now() < sure
                    {
                        sleep(POLL).await;
                    }
                    if self.exited().is_none() {
                        return Ok(());
                    }
                }
                Err(_) if Instant::now() < deadline => sleep(POLL).await,
                Err(refusal) => {
                    return Err(format!("not ready: {refusal:?}; stderr: {}", self.stderr()));
                }
            }
        }
    }

    /// Waits for the last lines of a process that has ended.
    fn read_to_end(&mut self) {
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }

    fn exited(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().unwrap())
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// `host:port`, for both `ws://` and `http://`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    pub fn state_dir(&self) -> PathBuf {
        self.root.path().join("state")
    }

    pub fn config_path(&self) -> PathBuf {
        self.state_dir().join("openclaw.json")
    }

    pub fn workspace(&self) -> PathBuf {
        self.root.path().join("workspace")
    }

    pub fn stdout(&self) -> String {
        self.stdout.lock().clone()
    }

    pub fn stderr(&self) -> String {
        self.stderr.lock().clone()
    }

    /// Waits until its log on stderr has this: what was answered is told there at about that time.
    pub async fn logs(&self, text: &str) {
        let deadline = Instant::now() + START_LIMIT;
        while !self.stderr().contains(text) {
            assert!(Instant::now() < deadline, "{text:?} is not in the log: {}", self.stderr());
            sleep(POLL).await;
        }
    }

    /// A new WebSocket to this gateway.
    pub async fn open(&self) -> WsClient {
        WsClient::open(&self.address()).await
    }

    /// Ends the process without warning, as `kill -9` does.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends SIGTERM and returns at once.
    pub fn signal_term(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Sends a signal and returns at once.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Sends SIGTERM and waits for the exit; `None` when it does not come.
    pub async fn terminate(&mut self) -> Option<ExitStatus> {
        self.signal_term();
        self.wait_exit(STOP_LIMIT).await
    }

    /// Waits for the exit; `None` when it does not come.
    pub async fn wait_exit(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Some(status) = self.exited() {
                self.child = None;
                self.last_lines().await;
                return Some(status);
            }
            sleep(POLL).await;
        }
        None
    }

    /// Waits until all that was said is read. What it has started may hold its pipes longer.
    async fn last_lines(&self) {
        let sure = Instant::now() + SURE;
        while !self.readers.iter().all(JoinHandle::is_finished) && Instant::now() < sure {
            sleep(POLL).await;
        }
    }

    /// Starts the gateway again on the same state and kills it `after` a
    /// moment, ready or not.
    pub async fn start_and_kill(&mut self, after: Duration) {
        self.kill9();
        self.port = free_port();
        self.launch();
        sleep(after).await;
        self.kill9();
    }

    /// Resident memory of the process, in KiB.
    pub fn resident_kib(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().trim_end_matches("kB").trim().parse().ok()
    }

    /// Starts the gateway again on the same state and the same port.
    pub async fn restart_in_place(&mut self) {
        self.kill9();
        let before = self.times_ready();
        self.launch();
        self.ready(before).await.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Starts the gateway again on the same state, after `kill9` or `terminate`.
    pub async fn restart(&mut self) {
        self.try_restart().await.unwrap_or_else(|error| panic!("{error}"));
    }

    /// The same where it may fail; says why.
    pub async fn try_restart(&mut self) -> Result<(), String> {
        self.kill9();
        self.spawn().await
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// A port nobody listens on at this moment.
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn collect(pipe: impl Read + Send + 'static, into: &Output) -> JoinHandle<()> {
    let into = Arc::clone(into);
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let mut text = into.lock();
            text.push_str(&line);
            text.push('\n');
        }
    })
}
