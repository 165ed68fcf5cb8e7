//! What no tool may touch, whatever the configuration says.
//!
//! Promises: folders are told by what they are on the disk, so that neither
//! links nor mounts nor another spelling hide them. What cannot be judged is
//! refused.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, RawMode, Stat, fstat, statat};
use serde::{Deserialize, Serialize};

use super::ReachError;
use crate::agent::approvals::Listed;
use crate::config::Settings;
use crate::config::secrets::SecretProvider;

/// Nobody nests folders so deep; it keeps a loop of mounts from going on.
const DEPTH_MAX: usize = 256;
/// Files that one with several names is compared with; with more it is refused.
const NAMES_MAX: usize = 4096;

/// Executable by somebody.
const EXECUTABLE: RawMode = 0o111;

/// Kernel interfaces: processes with their secrets, devices that act when opened.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];
/// Folders of the state directory that models are told of.
const SHARED: [&str; 4] = ["media/inbound", "skills", "plugin-skills", "exec-output"];
/// Folders of the state directory that are closed even inside of a workspace.
const CLOSED: [&str; 6] = ["credentials", "identity", "secrets", "devices", "nodes", "push"];
/// The same, in the folder of each agent.
const CLOSED_OF_AGENT: &str = "agent";

/// Folders of the state directory that models are told of.
pub fn shared_folders(settings: &Settings) -> [PathBuf; 4] {
    SHARED.map(|name| settings.paths.state_dir.join(name))
}

/// A file or folder, whatever its name.
type Id = (u64, u64);

/// Where the gateway keeps what no command that is confined may read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrivatePlaces {
    /// Folders, with all that is in them.
    pub folders: Vec<PathBuf>,
    /// Single files, and those whose names begin so.
    pub files: Vec<PathBuf>,
    /// Folders that are open though they lie in a private one.
    pub open: Vec<PathBuf>,
    /// Folders that are private even inside of an open one.
    pub closed: Vec<PathBuf>,
}

/// What belongs to the gateway and to the system.
#[derive(Clone)]
pub struct Guard {
    state_dir: PathBuf,
    /// Folders that are open though they lie in the state directory.
    open: Vec<PathBuf>,
    /// Single files, wherever they are. Names that begin so are refused, too:
    /// backups and journals.
    files: Vec<PathBuf>,
    /// Programs that are not changed.
    listed: Listed,
}

impl Guard {
    /// The guard of a gateway.
    pub fn new(settings: &Settings) -> Self {
        let paths = &settings.paths;
        let agents = &settings.agents;
        let workspaces = agents.list.iter().map(|agent| agent.workspace.clone());
        let open = workspaces
            .chain([agents.defaults.workspace.clone()])
            .chain(shared_folders(settings))
            .collect();
        let secrets = settings.secrets.providers().filter_map(|provider| match provider {
            SecretProvider::File(file) => Some(file.path.clone()),
            SecretProvider::Env(_) | SecretProvider::Exec(_) => None,
        });
        let own = [
            paths.config_path.clone(),
            paths.dotenv_file(),
            paths.token_file(),
            paths.database(),
            paths.instance_lock(),
            paths.identity_file(),
        ];
        let approvals = paths.expand("~/.openclaw/exec-approvals.json").ok();
        let included = settings.included.iter().cloned();
        let files = own.into_iter().chain(approvals).chain(included).chain(secrets).collect();
        Self { state_dir: paths.state_dir.clone(), open, files, listed: Listed::default() }
    }

    /// The same, and no program is changed that the allowlist may mean.
    #[must_use]
    pub fn sparing(&self, listed: Listed) -> Self {
        Self { listed, ..self.clone() }
    }

    /// The same, with more folders that are open though they lie in the state directory.
    #[must_use]
    pub fn opening(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        self.open.extend(folders);
        self
    }

    /// The places that are the gateway's own.
    pub fn private(&self) -> PrivatePlaces {
        PrivatePlaces {
            folders: vec![self.state_dir.clone()],
            files: self.files.clone(),
            open: self.open.clone(),
            closed: self.closed().collect(),
        }
    }

    /// Whether something in this open folder may be touched; `path` is for the
    /// error.
    pub fn judge_folder(&self, folder: impl AsFd, path: &Path) -> Result<(), ReachError> {
        let refused = || ReachError::Private(path.to_owned());
        let above = above(folder).map_err(|_| refused())?;
        if SYSTEM.iter().filter_map(id_at).any(|id| above.contains(&id)) {
            return Err(refused());
        }
        let state = id_at(&self.state_dir);
        let Some(depth) = above.iter().position(|id| Some(*id) == state) else { return Ok(()) };
        let inside = above.get(..depth).unwrap_or_default();
        let is_open = self.open.iter().filter_map(id_at).any(|id| inside.contains(&id));
        let is_closed = self.closed().filter_map(id_at).any(|id| inside.contains(&id));
        if is_open && !is_closed { Ok(()) } else { Err(refused()) }
    }

    /// Whether this file of an open folder may be touched.
    pub fn judge_file(
        &self,
        folder: impl AsFd,
        name: &Path,
        file: Option<&Stat>,
        path: &Path,
    ) -> Result<(), ReachError> {
        let refused = || ReachError::Private(path.to_owned());
        let folder = fstat(&folder).map(|facts| id(&facts)).map_err(|_| refused())?;
        let name = name.as_os_str().as_encoded_bytes();
        for own in &self.files {
            let own_name = own.file_name().unwrap_or_default().as_encoded_bytes();
            if name.starts_with(own_name) && own.parent().and_then(id_at) == Some(folder) {
                return Err(refused());
            }
        }
        let Some(facts) = file else { return Ok(()) };
        let this = id(facts);
        if self.files.iter().filter_map(id_at).any(|own| own == this) {
            return Err(refused());
        }
        if facts.st_nlink > 1 && self.is_other_name(this) {
            return Err(refused());
        }
        Ok(())
    }

    /// Whether what this open file says may be told. `path` is where it really is; files right
    /// in the folder `home` may be there, whatever folder that is.
    pub fn judge_opened(
        &self,
        file: impl AsFd,
        path: &Path,
        home: Option<&Path>,
    ) -> Result<(), ReachError> {
        let refused = || ReachError::Private(path.to_owned());
        let (above, name) = path.parent().zip(path.file_name()).ok_or_else(refused)?;
        let folder = File::open(above).map_err(|_| refused())?;
        let facts = fstat(&file).map_err(|_| refused())?;
        if home != Some(above) {
            self.judge_folder(&folder, path)?;
        }
        self.judge_file(&folder, Path::new(name), Some(&facts), path)
    }

    /// Whether what is made in this open folder is the gateway's user's only: in the state
    /// directory, and in workspaces.
    pub fn keeps_private(&self, folder: impl AsFd) -> bool {
        let Ok(above) = above(folder) else { return true };
        let mut places = std::iter::once(&self.state_dir).chain(&self.open).filter_map(id_at);
        places.any(|id| above.contains(&id))
    }

    /// Whether a file of this mode may be changed, removed or put at this path.
    pub fn judge_change(&self, mode: RawMode, path: &Path) -> Result<(), ReachError> {
        let is_program = mode & EXECUTABLE != 0;
        if is_program && self.listed.may_mean(path) {
            return Err(ReachError::Listed(path.to_owned()));
        }
        Ok(())
    }

    /// Whether a file with several names is one of those in the closed folders.
    fn is_other_name(&self, this: Id) -> bool {
        let mut seen = 0;
        for folder in self.closed().chain([self.state_dir.clone()]) {
            let Ok(entries) = fs::read_dir(folder) else { continue };
            for entry in entries {
                seen += 1;
                let facts = entry.and_then(|entry| entry.metadata());
                if seen > NAMES_MAX || facts.is_ok_and(|facts| id_of(&facts) == this) {
                    return true;
                }
            }
        }
        false
    }

    fn closed(&self) -> impl Iterator<Item = PathBuf> {
        let agents = fs::read_dir(self.state_dir.join("agents"));
        let agents = agents.into_iter().flatten().filter_map(Result::ok).take(NAMES_MAX);
        CLOSED
            .iter()
            .map(|name| self.state_dir.join(name))
            .chain(agents.map(|agent| agent.path().join(CLOSED_OF_AGENT)))
    }
}

/// The folder and all above it, the innermost first.
fn above(folder: impl AsFd) -> io::Result<Vec<Id>> {
    let mut ids = vec![id(&fstat(&folder)?)];
    let mut path = String::from("..");
    for _ in 0..DEPTH_MAX {
        let next = id(&statat(&folder, path.as_str(), AtFlags::empty())?);
        if ids.last() == Some(&next) {
            return Ok(ids);
        }
        ids.push(next);
        path.push_str("/..");
    }
    Err(io::ErrorKind::InvalidFilename.into())
}

fn id(facts: &Stat) -> Id {
    // Their types differ from system to system.
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)]
    (facts.st_dev as u64, facts.st_ino as u64)
}

fn id_of(facts: &Metadata) -> Id {
    (facts.dev(), facts.ino())
}

fn id_at(path: impl AsRef<Path>) -> Option<Id> {
    fs::metadata(path).ok().map(|facts| id_of(&facts))
}
