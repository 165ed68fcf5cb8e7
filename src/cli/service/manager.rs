//! Who runs services of this user: systemd or launchd.
//!
//! Owns: which programs are called for that, and what their answers mean.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::ServiceError;

/// The unit of systemd.
const UNIT: &str = "clawgate.service";
/// The label of launchd.
const LABEL: &str = "ai.clawgate.gateway";
/// What is asked of a unit.
const PROPERTIES: &str = "--property=ActiveState,SubState,UnitFileState,MainPID";

/// Who runs services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    /// `systemctl --user`.
    Systemd,
    /// `launchctl`.
    Launchd,
}

/// How the service is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Whether it starts by itself, in the manager's word.
    pub enabled: Option<String>,
    /// How it is, in the manager's words.
    pub state: Option<String>,
    /// Its process.
    pub pid: Option<i32>,
    /// Why nothing is known of it.
    pub trouble: Option<String>,
}

impl Manager {
    /// That of this system.
    pub const HERE: Self = if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd };

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Systemd => "systemd",
            Self::Launchd => "launchd",
        }
    }

    /// What it calls the service.
    pub const fn service(self) -> &'static str {
        match self {
            Self::Systemd => UNIT,
            Self::Launchd => LABEL,
        }
    }

    /// Where the service of a user is defined.
    pub fn file(self, home: &Path) -> PathBuf {
        match self {
            Self::Systemd => home.join(".config/systemd/user").join(UNIT),
            Self::Launchd => home.join("Library/LaunchAgents").join(format!("{LABEL}.plist")),
        }
    }

    /// How its log is read.
    pub fn log(self, home: &Path) -> String {
        match self {
            Self::Systemd => "journalctl --user -u clawgate -f".to_owned(),
            Self::Launchd => {
                format!("tail -f {}", home.join("Library/Logs/clawgate.log").display())
            }
        }
    }

    /// Whether it is there for this user.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(self) -> Result<(), ServiceError> {
        let asked = match self {
            Self::Systemd => systemctl(&["show", "--property=Version"]),
            Self::Launchd => launchctl(&["print", &domain()]),
        };
        match asked {
            Err(ServiceError::Refused { command, said }) => {
                Err(ServiceError::Unavailable { command, said })
            }
            asked => asked.map(|_| ()),
        }
    }

    /// Reads the definition, starts the service now, and from now on by itself. One that
    /// runs by another definition begins anew.
    pub fn enable(self, file: &Path, was_another: bool) -> Result<(), ServiceError> {
        match self {
            Self::Systemd => {
                systemctl(&["daemon-reload"])?;
                systemctl(&["enable", "--now", UNIT])?;
                if was_another {
                    systemctl(&["restart", UNIT])?;
                }
            }
            Self::Launchd => {
                if is_loaded() {
                    self.stop()?;
                }
                self.start(file)?;
            }
        }
        Ok(())
    }

    /// Stops the service and starts it by itself no more.
    pub fn disable(self) -> Result<(), ServiceError> {
        match self {
            Self::Systemd => systemctl(&["disable", "--now", UNIT]).map(|_| ()),
            Self::Launchd if is_loaded() => self.stop(),
            Self::Launchd => Ok(()),
        }
    }

    /// The definition is gone.
    pub fn forget(self) -> Result<(), ServiceError> {
        match self {
            Self::Systemd => systemctl(&["daemon-reload"]).map(|_| ()),
            Self::Launchd => Ok(()),
        }
    }

    /// Starts the service.
    pub fn start(self, file: &Path) -> Result<(), ServiceError> {
        let started = match self {
            Self::Systemd => systemctl(&["start", UNIT]),
            Self::Launchd if is_loaded() => launchctl(&["kickstart", &target()]),
            Self::Launchd => launchctl(&["bootstrap", &domain(), &file.display().to_string()]),
        };
        started.map(|_| ())
    }

    /// Stops the service, and waits for its end.
    pub fn stop(self) -> Result<(), ServiceError> {
        let stopped = match self {
            Self::Systemd => systemctl(&["stop", UNIT]),
            Self::Launchd => launchctl(&["bootout", &target()]),
        };
        stopped.map(|_| ())
    }

    /// Stops and starts the service.
    pub fn restart(self, file: &Path) -> Result<(), ServiceError> {
        match self {
            Self::Systemd => systemctl(&["restart", UNIT]).map(|_| ()),
            Self::Launchd if is_loaded() => launchctl(&["kickstart", "-k", &target()]).map(|_| ()),
            Self::Launchd => self.start(file),
        }
    }

    /// How the service is.
    pub fn look(self) -> Seen {
        let asked = match self {
            Self::Systemd => systemctl(&["show", UNIT, PROPERTIES]).map(|text| of_systemd(&text)),
            Self::Launchd => match launchctl(&["print", &target()]) {
                // So it says that it does not know the service.
                Err(ServiceError::Refused { .. }) => Ok(Seen::default()),
                asked => asked.map(|text| of_launchd(&text)),
            },
        };
        asked.unwrap_or_else(|error| Seen {
            trouble: Some(match error {
                ServiceError::Unavailable { said, .. } | ServiceError::Refused { said, .. } => said,
                other => other.to_string(),
            }),
            ..Seen::default()
        })
    }
}

fn is_loaded() -> bool {
    launchctl(&["print", &target()]).is_ok()
}

fn domain() -> String {
    format!("gui/{}", rustix::process::getuid().as_raw())
}

fn target() -> String {
    format!("{}/{LABEL}", domain())
}

fn systemctl(args: &[&str]) -> Result<String, ServiceError> {
    call("systemctl", &[&["--user"], args].concat())
}

fn launchctl(args: &[&str]) -> Result<String, ServiceError> {
    call("launchctl", args)
}

/// What the program says, which must end well.
fn call(program: &str, args: &[&str]) -> Result<String, ServiceError> {
    let command = [&[program], args].concat().join(" ");
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| ServiceError::Unavailable {
        command: command.clone(),
        said: error.to_string(),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = told.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = if lines.is_empty() { output.status.to_string() } else { lines.join("; ") };
    Err(ServiceError::Refused { command, said })
}

/// The lines `NAME=value` of `systemctl show`.
fn of_systemd(text: &str) -> Seen {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        let found = lines.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
        found.filter(|value| !value.is_empty())
    };
    let state = value("ActiveState").map(|state| match value("SubState") {
        Some(sub) => format!("{state} ({sub})"),
        None => state,
    });
    let pid = value("MainPID").and_then(|pid| pid.parse::<i32>().ok()).filter(|pid| *pid != 0);
    Seen { enabled: value("UnitFileState"), state, pid, trouble: None }
}

/// The lines `name = value` of `launchctl print`, of which some come again deeper inside.
fn of_launchd(text: &str) -> Seen {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.trim().split_once(" = "));
        lines.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    let pid = value("pid").and_then(|pid| pid.parse::<i32>().ok());
    Seen { enabled: Some("loaded".to_owned()), state: value("state"), pid, trouble: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_systemd_tells_is_read() {
        let text = "MainPID=4711\nActiveState=active\nSubState=running\nUnitFileState=enabled\n";
        let seen = of_systemd(text);
        assert_eq!((seen.pid, seen.enabled.as_deref()), (Some(4711), Some("enabled")));
        assert_eq!(seen.state.as_deref(), Some("active (running)"));
        let none = of_systemd("MainPID=0\nActiveState=inactive\nSubState=dead\nUnitFileState=\n");
        assert_eq!((none.pid, none.enabled), (None, None));
        assert_eq!(none.state.as_deref(), Some("inactive (dead)"));
    }

    #[test]
    fn what_launchd_tells_is_read() {
        let text = "gui/501/ai.clawgate.gateway = {\n\tactive count = 1\n\tstate = running\n\n\
                    \tpid = 4711\n\tspawn type = daemon (3)\n\t\tstate = active\n}\n";
        let seen = of_launchd(text);
        assert_eq!((seen.pid, seen.state.as_deref()), (Some(4711), Some("running")));
    }

    #[test]
    fn each_has_its_place_for_the_definition() {
        let file = |manager: Manager| manager.file(Path::new("/h")).display().to_string();
        assert_eq!(file(Manager::Systemd), "/h/.config/systemd/user/clawgate.service");
        assert_eq!(file(Manager::Launchd), "/h/Library/LaunchAgents/ai.clawgate.gateway.plist");
    }
}
