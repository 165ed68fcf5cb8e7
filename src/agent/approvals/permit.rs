//! The right to start one command once.
//!
//! Owns: what a permit is bound to. Promises: it can be redeemed once, soon,
//! and only for the very command, directory, environment, agent, session and
//! host that were decided on; a program that was chosen by the allowlist is
//! still the same file. Must not: be made anywhere else than in this module's
//! parent.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::support::blocking;

use super::denial::Denial;
use super::request::ExecRequest;

/// A permit is redeemed at once by whoever asked for it. What takes longer is
/// stuck, and the world may have changed.
const LIFETIME: Duration = Duration::from_mins(1);

/// How a command is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// This file, without a shell: it was found on the allowlist.
    Direct {
        /// The file, without symbolic links.
        path: PathBuf,
        /// Its name for itself (`argv[0]`).
        name: String,
        /// What follows.
        args: Vec<String>,
    },
    /// This text, by a shell.
    Shell(String),
}

/// What may be started now, exactly so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// What is started.
    pub program: Program,
    /// Where, without symbolic links.
    pub cwd: PathBuf,
    /// With which environment, and no other variables.
    pub env: BTreeMap<String, String>,
}

/// The right to start one command once.
#[derive(Debug)]
pub struct Permit {
    binding: Binding,
    program: Program,
    approval: Option<String>,
    valid_until: Instant,
}

impl Permit {
    /// A permit for this request, as the world is now. Touches the disk.
    pub(super) fn issue(
        request: &ExecRequest,
        binding: Binding,
        direct: Option<Program>,
        approval: Option<String>,
    ) -> Self {
        let program = direct.unwrap_or_else(|| Program::Shell(request.command.clone()));
        Self { binding, program, approval, valid_until: Instant::now() + LIFETIME }
    }

    /// Id of the approval that it comes from, if a person was asked.
    pub fn approval_id(&self) -> Option<&str> {
        self.approval.as_deref()
    }

    /// Takes the right: what is to be started, if all is as it was.
    ///
    /// # Errors
    /// When the request or what it names on disk is another by now, or too much
    /// time has gone by.
    pub async fn redeem(self, request: &ExecRequest) -> Result<Launch, Denial> {
        let Self { binding, program, valid_until, .. } = self;
        if Instant::now() >= valid_until {
            return Err(Denial::drifted(request, "permit-expired"));
        }
        let now = match &program {
            Program::Direct { path, .. } => Binding::take(request, Some(path.clone())).await,
            Program::Shell(_) => Binding::take(request, None).await,
        };
        let now = now.map_err(|error| Denial::unreadable(request, &error))?;
        if now != binding {
            return Err(Denial::changed(request));
        }
        Ok(Launch { program, cwd: now.cwd, env: request.env.clone() })
    }
}

/// The world that a decision was made in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binding {
    digest: [u8; 32],
    cwd: PathBuf,
}

impl Binding {
    /// Looks at the request and at what it names on disk.
    pub async fn take(request: &ExecRequest, program: Option<PathBuf>) -> io::Result<Self> {
        let request = request.clone();
        let looked = blocking(move || Self::look(&request, program.as_deref()));
        looked.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// The same on this thread.
    pub fn look(request: &ExecRequest, program: Option<&Path>) -> io::Result<Self> {
        let mut hash = Digester(Sha256::new());
        hash.text(&request.command);
        let cwd = fs::canonicalize(&request.cwd)?;
        let place = fs::metadata(&cwd)?;
        if !place.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        hash.path(&cwd);
        hash.number(place.dev());
        hash.number(place.ino());
        hash.number(count(request.env.len()));
        for (name, value) in &request.env {
            hash.text(name);
            hash.text(value);
        }
        hash.text(&request.agent);
        hash.text(request.session.as_str());
        hash.text(request.host.as_str());
        hash.text(&request.call_id);
        hash.number(u64::from(request.has_terminal));
        if let Some(path) = program {
            let file = fs::metadata(path)?;
            hash.path(path);
            for fact in [file.dev(), file.ino(), file.size()] {
                hash.number(fact);
            }
            hash.text(&format!("{}.{}", file.mtime(), file.mtime_nsec()));
        }
        Ok(Self { digest: hash.0.finalize().into(), cwd })
    }

    /// Where the command runs, without symbolic links.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }
}

/// Each piece with its length before it, so that no two lists of pieces are the
/// same bytes.
struct Digester(Sha256);

impl Digester {
    fn bytes(&mut self, bytes: &[u8]) {
        self.number(count(bytes.len()));
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn path(&mut self, path: &Path) {
        self.bytes(path.as_os_str().as_encoded_bytes());
    }

    fn number(&mut self, number: u64) {
        self.0.update(number.to_be_bytes());
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
