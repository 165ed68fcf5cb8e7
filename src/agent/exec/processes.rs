//! All commands that run, and those that have ended a while ago.
//!
//! Owns: their list and their start. Promises: a start needs a permit and uses
//! it up; a session finds only its own; bounded. Must not: tell anybody of them.

use std::io::{self, PipeWriter};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::plan::Plan;
use super::process::Process;
use super::sandbox::Confinement;
use super::supervisor::Supervisor;
use super::{environment, launcher, names, sandbox};
use crate::agent::approvals::{Denial, ExecHost, ExecRequest, Launch, Permit, Program};
use crate::agent::reach::Guard;
use crate::config::{ExecSandbox, Settings};
use crate::sessions::SessionKey;
use crate::support::{Clock, Few, Ids, Live, Tasks, blocking, millis, sort};

/// Commands at a time over all sessions. Each costs a keeper, and a machine
/// that runs more is not served by starting another.
const MAX_RUNNING: usize = 64;
/// Commands that have ended and are still on the list.
const MAX_FINISHED: usize = 64;
/// Inputs that wait for the keeper; then who writes waits.
const MAX_INPUTS: usize = 16;
/// How long the stop of the gateway waits for commands to end.
const STOP_LIMIT: Duration = Duration::from_millis(2500);

/// How a command is started.
#[derive(Debug, Clone)]
pub struct How {
    /// When it is ended, if it has not by itself.
    pub time_limit: Option<Duration>,
    /// What it may write to.
    pub sandbox: ExecSandbox,
}

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The permit does not hold for it.
    #[error("{}", .0.text)]
    Denied(Denial),
    /// Too many run.
    #[error("{MAX_RUNNING} commands are running already; end one of them first")]
    TooMany,
    /// It should be confined, and cannot be.
    #[error("{0}; commands of this session must be confined, so it was not started")]
    Unconfined(String),
    /// The system does not start it.
    #[error("the command cannot be started: {0}")]
    Io(#[from] io::Error),
}

/// All commands of the gateway.
pub struct Processes {
    list: Mutex<Few<String, Arc<Process>>>,
    settings: Live<Settings>,
    overflow_dir: PathBuf,
    launcher: PathBuf,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    tasks: Tasks,
    /// What is done about their ends, which the stop of the gateway waits for.
    pub followers: TaskTracker,
}

impl Processes {
    /// None yet. `launcher` is the program of the gateway, which keeps commands.
    pub fn new(
        settings: Live<Settings>,
        launcher: PathBuf,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        tasks: Tasks,
    ) -> Self {
        Self {
            list: Mutex::default(),
            overflow_dir: settings.now().paths.exec_output_dir(),
            settings,
            launcher,
            clock,
            ids,
            tasks,
            followers: TaskTracker::new(),
        }
    }

    /// Starts what the permit was given for.
    ///
    /// # Errors
    /// When the permit does not hold, or the command cannot be started as it
    /// should be.
    pub async fn start(
        self: &Arc<Self>,
        permit: Permit,
        request: &ExecRequest,
        how: How,
    ) -> Result<Arc<Process>, StartError> {
        hide_our_environment()?;
        let launch = permit.redeem(request).await.map_err(StartError::Denied)?;
        let confinement = self.confinement(request, how.sandbox).await?;
        self.prune();
        let (reader, writer) = io::pipe()?;
        let output = Receiver::from_owned_fd(reader.into())?;
        let (sender, inputs) = mpsc::channel(MAX_INPUTS);
        let process = self.enlist(request, &launch, request.has_terminal.then_some(sender))?;
        let mut attempt = Attempt { all: self, id: process.id.clone(), has_begun: false };
        let plan = self.plan(launch, request.has_terminal, confinement);
        let (keeper, socket) = self.spawn(&plan, writer).await?;
        attempt.has_begun = true;
        let supervisor = Supervisor {
            process: Arc::clone(&process),
            keeper,
            output,
            inputs,
            time_limit: how.time_limit,
            overflow_dir: self.overflow_dir.clone(),
            clock: Arc::clone(&self.clock),
        };
        let (all, id) = (Arc::downgrade(self), process.id.clone());
        self.tasks.spawn("exec", async move {
            let process = Arc::clone(&supervisor.process);
            supervisor.run(socket).await;
            // Nobody looks for it again when somebody has waited for it, or had it removed.
            if !process.look(|state| state.is_background)
                && let Some(all) = all.upgrade()
            {
                all.forget(&id);
            }
        });
        Ok(process)
    }

    /// The commands of a session, the oldest first.
    pub fn of_session(&self, session: &SessionKey) -> Vec<Arc<Process>> {
        self.prune();
        let list = self.list.lock();
        let mut own: Vec<_> = list.values().filter(|it| it.session == *session).cloned().collect();
        sort::by_key(&mut own, |process| process.started_at);
        own
    }

    /// A command of this session that was not removed.
    pub fn find(&self, session: &SessionKey, id: &str) -> Option<Arc<Process>> {
        let found = self.list.lock().get(id).cloned();
        found.filter(|process| process.session == *session && !process.is_abandoned())
    }

    /// Takes a command from the list.
    pub fn forget(&self, id: &str) {
        self.list.lock().remove(id);
    }

    /// Ends a command that nobody will ask for any more. It counts as running until it is
    /// gone, and is forgotten then.
    pub fn remove(&self, process: &Process) {
        if process.abandon() {
            self.forget(&process.id);
        }
    }

    /// Does so with those of a session that is no more.
    pub fn end_of_session(&self, session: &SessionKey) {
        for process in self.of_session(session) {
            self.remove(&process);
        }
    }

    /// Puts one on the list that has ended with the last process.
    pub fn add_lost(&self, process: Process) {
        self.list.lock().insert(process.id.clone(), Arc::new(process));
    }

    /// How many commands run.
    pub fn count(&self) -> usize {
        self.list.lock().values().filter(|process| process.look(|state| !state.is_gone)).count()
    }

    /// Why commands that are to be confined are not started; `None` when they
    /// are, or nothing is to be confined.
    pub fn sandbox_error(&self) -> Option<String> {
        let is_wanted = self.settings.now().exec.sandbox.is_wanted();
        is_wanted.then(sandbox::availability).and_then(Result::err)
    }

    /// Ends all commands, and waits until they are gone, and what follows on their ends is done,
    /// or some time is over.
    pub async fn end_all(&self) {
        let all: Vec<_> = self.list.lock().values().cloned().collect();
        let gone = async {
            for process in &all {
                process.end_with_gateway();
            }
            for process in &all {
                process.gone().await;
            }
            self.followers.close();
            self.followers.wait().await;
        };
        if timeout(STOP_LIMIT, gone).await.is_err() {
            tracing::warn!("some commands have not ended; their keepers go on ending them");
        }
    }

    /// What holds the command, when it is to be confined.
    async fn confinement(
        &self,
        request: &ExecRequest,
        sandbox: ExecSandbox,
    ) -> Result<Option<Confinement>, StartError> {
        // Whoever has permitted it was told that it is confined.
        let least = match request.host {
            ExecHost::Gateway => ExecSandbox::Off,
            ExecHost::Sandbox => ExecSandbox::WorkspaceWrite,
            ExecHost::Node => {
                return Err(StartError::Io(io::Error::other("it is for another machine")));
            }
        };
        let mode = sandbox.max(least);
        if mode == ExecSandbox::Off {
            return Ok(None);
        }
        sandbox::availability().map_err(StartError::Unconfined)?;
        let settings = self.settings.now();
        let workspace = request.workspace.clone();
        let confinement = blocking(move || {
            let private = Guard::new(&settings).private();
            Confinement::new(mode, &workspace, &settings.exec.temporary, private)
        });
        Ok(confinement.await.map_err(io::Error::from)?)
    }

    /// Puts it on the list, under a name that is free.
    fn enlist(
        &self,
        request: &ExecRequest,
        launch: &Launch,
        inputs: Option<mpsc::Sender<Vec<u8>>>,
    ) -> Result<Arc<Process>, StartError> {
        let random = uuid::Uuid::parse_str(&self.ids.uuid()).map_or(0, |id| id.as_u128());
        let mut list = self.list.lock();
        let is_alive = |process: &&Arc<Process>| process.look(|state| !state.is_gone);
        if list.values().filter(is_alive).count() >= MAX_RUNNING {
            return Err(StartError::TooMany);
        }
        let id = names::choose(random, |name| list.contains_key(name));
        let process = Arc::new(Process::new(
            id.clone(),
            request.command.clone(),
            launch.cwd.clone(),
            request.session.clone(),
            self.clock.now_ms(),
            inputs,
        ));
        list.insert(id, Arc::clone(&process));
        Ok(process)
    }

    fn plan(&self, launch: Launch, has_terminal: bool, confinement: Option<Confinement>) -> Plan {
        let (program, name, args) = match launch.program {
            Program::Direct { path, name, args } => (path, name, args),
            Program::Shell(text) => {
                let shell = environment::shell(&self.settings.now().exec);
                let name = shell.rsplit('/').next().unwrap_or("sh").to_owned();
                (PathBuf::from(shell), name, vec!["-c".into(), text])
            }
        };
        let mut env = launch.env;
        if let Some(temporary) = confinement.as_ref().and_then(|it| it.temporary.as_ref()) {
            env.insert("TMPDIR".into(), temporary.display().to_string());
        }
        Plan {
            program,
            name,
            args,
            cwd: launch.cwd,
            env,
            has_terminal,
            terminal: None,
            confinement,
            launcher: self.launcher.clone(),
        }
    }

    /// Starts a keeper and gives it the plan.
    async fn spawn(&self, plan: &Plan, output: PipeWriter) -> io::Result<(Child, UnixStream)> {
        let plan = plan.to_bytes()?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let launcher = self.launcher.clone();
        let spawned = blocking(move || {
            let output = OwnedFd::from(output);
            Command::new(launcher)
                .arg0("clawgate")
                .arg(launcher::KEEP)
                .env_clear()
                .current_dir("/")
                .stdin(OwnedFd::from(theirs))
                .stdout(output.try_clone()?)
                .stderr(output)
                .spawn()
        });
        let keeper = spawned.await.map_err(io::Error::other)??;
        let mut socket = UnixStream::from_std(ours)?;
        socket.write_all(&plan).await?;
        Ok((keeper, socket))
    }

    /// Forgets what has ended long ago, and the oldest of too many.
    fn prune(&self) {
        let now = self.clock.now_ms();
        let mut list = self.list.lock();
        let mut finished: Vec<(u64, String)> = list
            .values()
            .filter_map(|process| {
                let ended = process.look(|state| {
                    let ending = state.ending.as_ref().filter(|_| state.is_gone);
                    ending.map(|ending| ending.at)
                });
                Some((ended?, process.id.clone()))
            })
            .collect();
        sort::plain(&mut finished);
        let too_many = finished.len().saturating_sub(MAX_FINISHED);
        for (index, (ended, id)) in finished.iter().enumerate() {
            if index < too_many
                || now.saturating_sub(*ended) > millis(self.settings.now().exec.keep_finished)
            {
                list.remove(id);
            }
        }
    }
}

/// A command on the list that has not begun: its start may fail, and whoever
/// waits for it may give up.
struct Attempt<'a> {
    all: &'a Processes,
    id: String,
    has_begun: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.has_begun {
            self.all.forget(&self.id);
        }
    }
}

/// Commands run as the same user, and the kernel lets them read the environment
/// and the memory of the gateway, where secrets are, unless it is told not to.
#[cfg(target_os = "linux")]
fn hide_our_environment() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};

    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
fn hide_our_environment() -> io::Result<()> {
    Ok(())
}
