//! Why something could not be done with the service.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::cli::client::{ClientError, TargetError};
use crate::config::ConfigError;
use crate::store::atomic::FileError;

/// Why something could not be done with the service, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Nobody runs services of this user here.
    #[error(
        "no service of this user can run here: {command}: {said}. Log in as the user itself \
         (by ssh or on the console; after `su` there is no session), use \
         config/clawgate-system.service (docs/deploy.md), or run `clawgate gateway run` \
         under what starts programs here, as in a container"
    )]
    Unavailable {
        /// What was tried.
        command: String,
        /// What it said.
        said: String,
    },
    /// Who runs services did not do it.
    #[error("`{command}` failed: {said}")]
    Refused {
        /// What was asked for.
        command: String,
        /// What it said.
        said: String,
    },
    /// A service is there that says something else.
    #[error(
        "{} is there and is not what would be written; look at it, then replace it: \
         clawgate gateway install --force",
        .0.display()
    )]
    Exists(PathBuf),
    /// The service is that of another gateway.
    #[error(
        "{} runs the gateway of another state directory, {}; there is one service for a user, \
         so run this one by `clawgate gateway run`, or set OPENCLAW_STATE_DIR to that directory",
        file.display(), state_dir.display()
    )]
    Another {
        /// The service.
        file: PathBuf,
        /// Its state directory.
        state_dir: PathBuf,
    },
    /// The state directory has a gateway that is no service.
    #[error(
        "a gateway (pid {0}) that is not the service runs on this state directory; stop it \
         first: clawgate gateway stop"
    )]
    RunsByHand(i32),
    /// A gateway with this config ends at once.
    #[error(
        "gateway.mode is remote in {}: this config belongs to a client of another gateway, and a \
         service of it would not start; set gateway.mode to local first",
        .0.display()
    )]
    OfClient(PathBuf),
    /// Somebody else listens where the gateway is to.
    #[error(
        "another program listens at {address}, so the service would not start: \
         `lsof -nP -iTCP:{} -sTCP:LISTEN` says which one, and OpenClaw's own gateway ends by \
         `openclaw gateway stop`. Stop it, or choose another port by --port",
        address.port()
    )]
    PortTaken {
        /// Where that is.
        address: SocketAddr,
    },
    /// Nothing is there to be started.
    #[error(
        "no gateway runs and no service is installed: `clawgate gateway install` makes a service \
         that starts by itself, `clawgate gateway run` runs the gateway in this terminal"
    )]
    NotInstalled,
    /// Somebody has the state directory, and does not listen.
    #[error(
        "the process {0} uses the state directory and does not listen: a gateway that starts, or \
         an import. Try again in a moment"
    )]
    Busy(i32),
    /// The pid of the lock is that of another program here.
    #[error(
        "the gateway of this state directory is no process of this machine, but perhaps of a \
         container (there it is {0}); use this command where it runs"
    )]
    Elsewhere(i32),
    /// It goes on.
    #[error("the gateway (pid {pid}) still runs after {seconds} s; `kill {pid}` stops it at once")]
    StillRuns {
        /// Whose process.
        pid: i32,
        /// How long was waited.
        seconds: u64,
    },
    /// It has not begun again.
    #[error(
        "the gateway (pid {pid}) has not begun again after {seconds} s; `clawgate logs` may tell why"
    )]
    NotBegun {
        /// Whose process.
        pid: i32,
        /// How long was waited.
        seconds: u64,
    },
    /// It goes on as it was.
    #[error(
        "the gateway (pid {pid}) does not begin again: {why}. Put that right, then: \
         clawgate gateway restart"
    )]
    GivenUp {
        /// Whose process.
        pid: i32,
        /// What it says.
        why: String,
    },
    /// It has ended in place of beginning again.
    #[error("the gateway (pid {0}) has ended; `clawgate logs` may tell why")]
    Ended(i32),
    /// A name that cannot be written into the definition of a service.
    #[error("{0:?} cannot be written into a service: it has characters that end a line")]
    Name(String),
    /// The process gets no signal.
    #[error("cannot send a signal to the gateway (pid {pid}): {source}")]
    Signal {
        /// Whose process.
        pid: i32,
        /// Why not.
        source: io::Error,
    },
    /// Which program this is could not be found out.
    #[error("cannot find the path of this program: {0}")]
    Program(io::Error),
    /// The place of the state is not known, or the config no good.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file or folder cannot be made.
    #[error("{}: {}", .0, cause(.0))]
    File(#[from] FileError),
    /// The file of the service cannot be read or removed.
    #[error("cannot use {}: {source}", path.display())]
    Definition {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It has no address.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// It does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The terminal is gone.
    #[error(transparent)]
    Screen(#[from] io::Error),
}

fn cause(error: &FileError) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}
