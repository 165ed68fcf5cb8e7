//! Where the service of this user is, and whether it is that of this state directory.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::ServiceError;
use super::definition::{SEARCH_PATH, state_dir, variable};
use super::manager::Manager;
use crate::config::{ConfigError, Env, Paths};

/// The places that matter.
pub struct Place {
    /// Those of the gateway.
    pub paths: Paths,
    /// The home of its user.
    pub home: PathBuf,
    /// Who runs services.
    pub manager: Manager,
    /// The definition of the service.
    pub file: PathBuf,
}

/// The service that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installed {
    /// None.
    No,
    /// That of this state directory, by this definition.
    Yes(String),
    /// That of another state directory, which is this.
    Another(PathBuf),
}

impl Place {
    /// The places of this environment.
    pub fn of(env: &Env) -> Result<Self, ServiceError> {
        let paths = Paths::resolve(env)?;
        let home = env.home().ok_or(ConfigError::NoHome)?.to_owned();
        let manager = Manager::HERE;
        Ok(Self { paths, file: manager.file(&home), home, manager })
    }

    /// The service that is installed.
    pub fn installed(&self) -> Result<Installed, ServiceError> {
        let text = match fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Installed::No),
            Err(source) => {
                return Err(ServiceError::Definition { path: self.file.clone(), source });
            }
        };
        let of = state_dir(&text, self.manager, &self.home);
        Ok(if of == self.paths.state_dir { Installed::Yes(text) } else { Installed::Another(of) })
    }

    /// Where the service of this definition looks for programs, where that says so.
    pub fn search_path(&self, definition: &str) -> Option<String> {
        variable(definition, self.manager, &self.home, SEARCH_PATH)
    }

    /// Where variables are written that the service gets.
    pub fn variables_file(&self) -> PathBuf {
        if cfg!(target_os = "macos") {
            self.paths.dotenv_file()
        } else {
            self.home.join(".config/clawgate.env")
        }
    }

    /// That the service belongs to another state directory.
    pub fn another(&self, state_dir: PathBuf) -> ServiceError {
        ServiceError::Another { file: self.file.clone(), state_dir }
    }
}
