//! `secrets.providers`: whom to ask for secrets.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::super::schema::Node;
use super::super::{ConfigError, Paths};
use super::reference::is_provider;
use super::{ResolvedSecrets, SecretCache, SecretSource};
use crate::support::sort;

/// As in OpenClaw: a secret is a local file or a quick program.
const TIMEOUT_MS: u64 = 5000;
/// Nobody waits longer than this for a start.
const TIMEOUT_MAX_MS: u64 = 120_000;
/// As in OpenClaw; keys are small.
const MAX_BYTES: u64 = 1024 * 1024;
/// Most that may be configured.
const MAX_BYTES_MAX: u64 = 20 * 1024 * 1024;
/// The provider that is meant when none is named.
const DEFAULT_PROVIDER: &str = "default";

/// The `secrets` section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SecretsConfig {
    providers: BTreeMap<String, SecretProvider>,
    defaults: BTreeMap<SecretSource, String>,
    /// What programs have told already.
    pub(super) told: SecretCache,
}

/// One of `secrets.providers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretProvider {
    /// Environment variables, only these when there is a list.
    Env(Option<Vec<String>>),
    /// A file.
    File(FileProvider),
    /// A program.
    Exec(ExecProvider),
}

/// What is in a file of secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    /// A JSON object, read by JSON pointer.
    Json,
    /// One secret.
    SingleValue,
}

/// A file of secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileProvider {
    /// Where it is.
    pub path: PathBuf,
    /// What is in it.
    pub mode: FileMode,
    /// How long reading may take.
    pub timeout: Duration,
    /// How much is read at most.
    pub max_bytes: u64,
    /// Whether others may be able to read it.
    pub allow_insecure_path: bool,
}

/// A program that knows secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecProvider {
    /// Absolute path of the program; no shell is involved.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables that it gets.
    pub env: BTreeMap<String, String>,
    /// Variables of ours that it gets as well.
    pub pass_env: Vec<String>,
    /// How long it may run.
    pub timeout: Duration,
    /// How long it may say nothing.
    pub no_output_timeout: Duration,
    /// How much it may say.
    pub max_output_bytes: u64,
    /// Whether it must answer in JSON.
    pub json_only: bool,
    /// Whether `command` may be a symbolic link.
    pub allow_symlink_command: bool,
    /// Whether others may be able to change the program.
    pub allow_insecure_path: bool,
    /// Where the program must be, links followed; anywhere when empty.
    pub trusted_dirs: Vec<PathBuf>,
}

impl SecretProvider {
    /// Which references it is for.
    pub const fn source(&self) -> SecretSource {
        match self {
            Self::Env(_) => SecretSource::Env,
            Self::File(_) => SecretSource::File,
            Self::Exec(_) => SecretSource::Exec,
        }
    }
}

impl SecretsConfig {
    /// What was found last of what it leads to.
    pub fn last_told(&self) -> ResolvedSecrets {
        self.told.last()
    }

    /// All that are configured.
    pub fn providers(&self) -> impl Iterator<Item = &SecretProvider> {
        self.providers.values()
    }

    /// The provider's name and what it is; the default one without a name.
    /// Variables of the environment need no provider.
    pub fn provider<'a>(
        &'a self,
        source: SecretSource,
        name: Option<&'a str>,
    ) -> (&'a str, Option<SecretProvider>) {
        let name = name
            .or_else(|| self.defaults.get(&source).map(String::as_str))
            .unwrap_or(DEFAULT_PROVIDER);
        let found = self.providers.get(name).cloned();
        let implied = name == DEFAULT_PROVIDER && source == SecretSource::Env;
        (name, found.or_else(|| implied.then_some(SecretProvider::Env(None))))
    }
}

/// Reads the section.
pub(in crate::config) fn read(
    node: &Node<'_>,
    paths: &Paths,
) -> Result<SecretsConfig, ConfigError> {
    let mut config = SecretsConfig::default();
    for (name, provider) in node.member("providers")?.members()? {
        if !is_provider(&name) {
            let rule = "a provider's name is 1 to 64 of a-z, 0-9, - and _, beginning with a letter";
            return Err(provider.wrong(rule));
        }
        config.providers.insert(name, one(&provider, paths)?);
    }
    let defaults = node.member("defaults")?;
    for source in [SecretSource::Env, SecretSource::File, SecretSource::Exec] {
        if let Some(name) = defaults.member(source.as_str())?.text()? {
            config.defaults.insert(source, name);
        }
    }
    Ok(config)
}

fn one(node: &Node<'_>, paths: &Paths) -> Result<SecretProvider, ConfigError> {
    let source = node.member("source")?;
    let kind = source.word("env, file, exec", SecretSource::parse)?;
    match kind {
        Some(SecretSource::Env) => Ok(SecretProvider::Env(node.member("allowlist")?.texts()?)),
        Some(SecretSource::File) => file(node, paths),
        Some(SecretSource::Exec) => exec(node, paths),
        None => Err(source.wrong("is missing; it must be one of env, file, exec")),
    }
}

fn file(node: &Node<'_>, paths: &Paths) -> Result<SecretProvider, ConfigError> {
    let path = node.member("path")?;
    let mode = node.member("mode")?.word("json, singleValue", |text| match text {
        "json" => Some(FileMode::Json),
        "singleValue" => Some(FileMode::SingleValue),
        _ => None,
    })?;
    Ok(SecretProvider::File(FileProvider {
        path: path.path(paths)?.ok_or_else(|| path.wrong("is missing; it must be a path"))?,
        mode: mode.unwrap_or(FileMode::Json),
        timeout: timeout(&node.member("timeoutMs")?)?.unwrap_or(Duration::from_millis(TIMEOUT_MS)),
        max_bytes: node.member("maxBytes")?.integer(MAX_BYTES_MAX)?.unwrap_or(MAX_BYTES),
        allow_insecure_path: node.member("allowInsecurePath")?.boolean()?.unwrap_or(false),
    }))
}

fn exec(node: &Node<'_>, paths: &Paths) -> Result<SecretProvider, ConfigError> {
    let command = node.member("command")?;
    let program = PathBuf::from(command.required_text()?);
    if !program.is_absolute() {
        return Err(command.wrong("must be an absolute path"));
    }
    let flag = |name: &str, usual: bool| -> Result<bool, ConfigError> {
        Ok(node.member(name)?.boolean()?.unwrap_or(usual))
    };
    let variables = node.member("env")?.members()?.into_iter();
    let env = variables.map(|(name, value)| Ok((name, value.required_text()?)));
    let dirs = node.member("trustedDirs")?.texts()?.unwrap_or_default();
    let limit = timeout(&node.member("timeoutMs")?)?.unwrap_or(Duration::from_millis(TIMEOUT_MS));
    Ok(SecretProvider::Exec(ExecProvider {
        command: program,
        args: node.member("args")?.texts()?.unwrap_or_default(),
        env: sort::map(env.collect::<Result<Vec<_>, ConfigError>>()?),
        pass_env: node.member("passEnv")?.texts()?.unwrap_or_default(),
        timeout: limit,
        no_output_timeout: timeout(&node.member("noOutputTimeoutMs")?)?.unwrap_or(limit),
        max_output_bytes: node
            .member("maxOutputBytes")?
            .integer(MAX_BYTES_MAX)?
            .unwrap_or(MAX_BYTES),
        json_only: flag("jsonOnly", true)?,
        allow_symlink_command: flag("allowSymlinkCommand", false)?,
        allow_insecure_path: flag("allowInsecurePath", false)?,
        trusted_dirs: dirs.iter().map(|dir| paths.expand(dir)).collect::<Result<_, _>>()?,
    }))
}

fn timeout(node: &Node<'_>) -> Result<Option<Duration>, ConfigError> {
    Ok(node.integer(TIMEOUT_MAX_MS)?.map(Duration::from_millis))
}
