//! Where files live.
//!
//! Owns: the state directory, the config path and the names below them.
//! Promises: the same names as OpenClaw for what both keep. Must not: touch
//! the disk.

use std::path::{Path, PathBuf};

use super::{ConfigError, Env};

/// The places the gateway reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Everything the gateway keeps.
    pub state_dir: PathBuf,
    /// The user's config file.
    pub config_path: PathBuf,
    /// What `~` stands for.
    home: Option<PathBuf>,
}

impl Paths {
    /// Name of the database.
    pub const DATABASE: &str = "clawgate.sqlite";
    /// Name of the lock of the running gateway.
    pub const LOCK: &str = "clawgate.lock";
    /// Name of the folder of prompts for the CLI that answers.
    pub const CLI_PROMPTS: &str = "cli-prompts";
    /// Name of the folder of commands in the background.
    pub const EXEC_RUNNING: &str = "exec-running";

    /// `OPENCLAW_STATE_DIR` and `OPENCLAW_CONFIG_PATH`, else below `~/.openclaw`.
    /// What the config and `.env` say of variables counts for nothing here.
    pub fn resolve(env: &Env) -> Result<Self, ConfigError> {
        let env = &env.of_process();
        let real_home = env.home().map(Path::to_owned);
        let home = match env.get("OPENCLAW_HOME") {
            Some(text) => Some(absolute(&text, real_home.as_deref(), env.cwd())?),
            None => real_home,
        };
        let given = |name| -> Result<Option<PathBuf>, ConfigError> {
            env.get(name).map(|text| absolute(&text, home.as_deref(), env.cwd())).transpose()
        };
        let state_dir = match given("OPENCLAW_STATE_DIR")? {
            Some(dir) => dir,
            None => home.as_ref().ok_or(ConfigError::NoHome)?.join(".openclaw"),
        };
        let config_path =
            given("OPENCLAW_CONFIG_PATH")?.unwrap_or_else(|| state_dir.join("openclaw.json"));
        Ok(Self { state_dir, config_path, home })
    }

    /// A path as written in the config file: `~` is the home, anything relative
    /// is relative to the state directory.
    pub fn expand(&self, text: &str) -> Result<PathBuf, ConfigError> {
        absolute(text, self.home.as_deref(), Some(&self.state_dir))
    }

    /// What `~` stands for.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.state_dir.join(Self::DATABASE)
    }

    /// What belongs to one agent, by its normalized id.
    pub fn agent_dir(&self, agent_id: &str) -> PathBuf {
        self.state_dir.join("agents").join(agent_id)
    }

    /// Transcripts of one agent, by its normalized id.
    pub fn sessions_dir(&self, agent_id: &str) -> PathBuf {
        self.agent_dir(agent_id).join("sessions")
    }

    /// The gateway's own key pair.
    pub fn identity_file(&self) -> PathBuf {
        self.state_dir.join("identity").join("device.json")
    }

    /// Where OpenClaw keeps paired devices.
    pub fn devices_dir(&self) -> PathBuf {
        self.state_dir.join("devices")
    }

    /// Where OpenClaw keeps nodes that were approved.
    pub fn nodes_dir(&self) -> PathBuf {
        self.state_dir.join("nodes")
    }

    /// Which commands may run: OpenClaw keeps this file in the home, wherever
    /// the state is.
    pub fn exec_approvals(&self) -> PathBuf {
        let dir = self.home.as_ref().map(|home| home.join(".openclaw"));
        dir.unwrap_or_else(|| self.state_dir.clone()).join("exec-approvals.json")
    }

    /// What commands have said beyond what is kept in memory.
    pub fn exec_output_dir(&self) -> PathBuf {
        self.state_dir.join("exec-output")
    }

    /// Which commands go on in the background.
    pub fn exec_running_dir(&self) -> PathBuf {
        self.state_dir.join(Self::EXEC_RUNNING)
    }

    /// What the CLI that answers is told of itself, while it does.
    pub fn cli_prompts_dir(&self) -> PathBuf {
        self.state_dir.join(Self::CLI_PROMPTS)
    }

    /// Held by the running gateway.
    pub fn instance_lock(&self) -> PathBuf {
        self.state_dir.join(Self::LOCK)
    }

    /// Where commands of the gateway's user reach it without a token.
    pub fn control_socket(&self) -> PathBuf {
        self.state_dir.join("clawgate.sock")
    }

    /// The Control UI that was installed.
    pub fn control_ui_dir(&self) -> PathBuf {
        self.state_dir.join("control-ui")
    }

    /// The config file, and the variables beside it.
    pub fn config_files(&self) -> [PathBuf; 2] {
        [self.config_path.clone(), self.dotenv_file()]
    }

    /// Variables beside those of the process.
    pub fn dotenv_file(&self) -> PathBuf {
        self.state_dir.join(".env")
    }

    /// What is told once the gateway has begun again, as OpenClaw leaves it.
    pub fn restart_note(&self) -> PathBuf {
        self.state_dir.join("restart-sentinel.json")
    }

    /// The generated gateway token.
    pub fn token_file(&self) -> PathBuf {
        self.state_dir.join("gateway-token")
    }
}

fn absolute(text: &str, home: Option<&Path>, base: Option<&Path>) -> Result<PathBuf, ConfigError> {
    if text == "~" || text.starts_with("~/") {
        let home = home.ok_or(ConfigError::NoHome)?;
        return Ok(text.strip_prefix("~/").map_or_else(|| home.to_owned(), |rest| home.join(rest)));
    }
    let path = Path::new(text);
    Ok(base.map_or_else(|| path.to_owned(), |base| base.join(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved<const N: usize>(variables: [(&str, &str); N]) -> (String, String) {
        let env = Env::fixed(variables, "/home/u").in_directory(Some("/cwd".into()));
        let paths = Paths::resolve(&env).unwrap();
        (paths.state_dir.display().to_string(), paths.config_path.display().to_string())
    }

    #[test]
    fn variables_move_the_places_and_tilde_is_the_home() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(resolved([]), pair("/home/u/.openclaw", "/home/u/.openclaw/openclaw.json"));
        assert_eq!(
            resolved([("OPENCLAW_STATE_DIR", "~/x")]),
            pair("/home/u/x", "/home/u/x/openclaw.json")
        );
        assert_eq!(
            resolved([("OPENCLAW_STATE_DIR", "rel")]),
            pair("/cwd/rel", "/cwd/rel/openclaw.json")
        );
        assert_eq!(
            resolved([("OPENCLAW_CONFIG_PATH", "/etc/o.json5")]),
            pair("/home/u/.openclaw", "/etc/o.json5")
        );
        assert_eq!(
            resolved([("OPENCLAW_HOME", "/srv"), ("OPENCLAW_CONFIG_PATH", "~/c")]),
            pair("/srv/.openclaw", "/srv/c")
        );
    }

    #[test]
    fn without_a_home_the_state_dir_must_be_given() {
        let error = Paths::resolve(&Env::new(|_| None, None)).unwrap_err();
        assert!(error.to_string().contains("OPENCLAW_STATE_DIR"), "{error}");
        let given = Env::new(|name| (name == "OPENCLAW_STATE_DIR").then(|| "/s".into()), None);
        assert_eq!(Paths::resolve(&given).unwrap().state_dir, Path::new("/s"));
    }

    #[test]
    fn names_below_the_state_dir_are_those_of_the_layout() {
        let paths = Paths::resolve(&Env::fixed([], "/h")).unwrap();
        for (path, expected) in [
            (paths.database(), "/h/.openclaw/clawgate.sqlite"),
            (paths.sessions_dir("main"), "/h/.openclaw/agents/main/sessions"),
            (paths.identity_file(), "/h/.openclaw/identity/device.json"),
            (paths.devices_dir(), "/h/.openclaw/devices"),
            (paths.nodes_dir(), "/h/.openclaw/nodes"),
            (paths.instance_lock(), "/h/.openclaw/clawgate.lock"),
            (paths.control_socket(), "/h/.openclaw/clawgate.sock"),
            (paths.dotenv_file(), "/h/.openclaw/.env"),
            (paths.token_file(), "/h/.openclaw/gateway-token"),
        ] {
            assert_eq!(path, Path::new(expected));
        }
        let files = ["/h/.openclaw/openclaw.json", "/h/.openclaw/.env"].map(PathBuf::from);
        assert_eq!(paths.config_files(), files);
    }
}
