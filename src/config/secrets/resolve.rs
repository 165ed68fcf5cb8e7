//! From references to secrets.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;

use super::{SecretProvider, SecretRef, SecretSource, SecretsConfig, exec, file};
use crate::config::Env;
use crate::support::Secret;
use crate::telemetry;

/// Why a reference leads nowhere. No text of it comes from a provider.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// `secrets.providers` has no such provider.
    #[error("secrets.providers.{name}: there is no such provider with source {}", source_kind.as_str())]
    NoProvider {
        /// Its name.
        name: String,
        /// The source that is wanted.
        source_kind: SecretSource,
    },
    /// The provider's list does not have the variable.
    #[error("secrets.providers.{name}.allowlist does not name {variable}")]
    NotAllowed {
        /// The provider.
        name: String,
        /// The variable.
        variable: String,
    },
    /// The variable is not there.
    #[error("the environment variable {0} is not set")]
    NotSet(String),
    /// The provider has no such secret.
    #[error("secrets.providers.{name} has no secret {id}")]
    NotThere {
        /// The provider.
        name: String,
        /// The id.
        id: String,
    },
    /// The file or program cannot be opened or started.
    #[error("cannot use {}: {source}", path.display())]
    Unreadable {
        /// It.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is no file.
    #[error("{} is not a regular file", .0.display())]
    NoFile(PathBuf),
    /// It belongs to another user.
    #[error("{} belongs to another user", .0.display())]
    Foreign(PathBuf),
    /// Others can get at it.
    #[error("{} is open to others (mode {mode:o}); close it with chmod, or set allowInsecurePath", path.display())]
    Open {
        /// It.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The program is a link.
    #[error("{} is a symbolic link; name the program itself, or set allowSymlinkCommand", .0.display())]
    Link(PathBuf),
    /// The program is somewhere else.
    #[error("{} is in none of trustedDirs", .0.display())]
    Untrusted(PathBuf),
    /// It takes too long.
    #[error("{} did not answer within {limit:?}", what.display())]
    Slow {
        /// File or program.
        what: PathBuf,
        /// How long it had.
        limit: Duration,
    },
    /// It says too much.
    #[error("{} gives more than {limit} bytes", what.display())]
    TooLarge {
        /// File or program.
        what: PathBuf,
        /// The most that is read.
        limit: u64,
    },
    /// The program failed.
    #[error("{} ended with {status}", path.display())]
    Failed {
        /// The program.
        path: PathBuf,
        /// How it ended.
        status: String,
    },
    /// The answer is none.
    #[error("{}: {why}", what.display())]
    NoAnswer {
        /// File or program.
        what: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Secrets by where they were found.
#[derive(Debug, Clone, Default)]
pub struct ResolvedSecrets(HashMap<SecretRef, Secret>);

impl ResolvedSecrets {
    /// The secret of this reference.
    pub fn get(&self, reference: &SecretRef) -> Option<&Secret> {
        self.0.get(reference)
    }

    /// Adds one.
    pub fn insert(&mut self, reference: SecretRef, secret: Secret) {
        self.0.insert(reference, secret);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&SecretRef, &Secret)> {
        self.0.iter()
    }
}

/// Looks all references up, each provider once and all at the same time; what a
/// program has told before is known. The second list tells of those that lead
/// nowhere.
pub async fn resolve(
    references: &BTreeSet<SecretRef>,
    config: &SecretsConfig,
    env: &Env,
) -> (ResolvedSecrets, Lost) {
    let mut wanted = references.clone();
    let (known, reloads) = config.told.take_known(&mut wanted);
    let (mut found, lost) = resolve_now(&wanted, config, env).await;
    config.told.learn(&found, reloads);
    found.0.extend(known.0);
    (found, lost)
}

/// Asks again for all references, and for what programs have told before. When
/// one of `needed` leads nowhere, everything stays as it was. The second list
/// tells which of `others` do; what a program has told of them stays known.
///
/// # Errors
/// Each of `needed` that leads nowhere.
pub async fn reload(
    needed: &BTreeSet<SecretRef>,
    others: &BTreeSet<SecretRef>,
    config: &SecretsConfig,
    env: &Env,
) -> Result<(ResolvedSecrets, Lost), Lost> {
    let mut wanted = config.told.references();
    wanted.extend(needed.union(others).cloned());
    let (found, lost) = resolve_now(&wanted, config, env).await;
    if lost.iter().any(|(reference, _)| needed.contains(reference)) {
        return Err(lost.into_iter().filter(|(it, _)| needed.contains(it)).collect());
    }
    config.told.swap(&found, others);
    Ok((found, lost.into_iter().filter(|(it, _)| others.contains(it)).collect()))
}

async fn resolve_now(
    references: &BTreeSet<SecretRef>,
    config: &SecretsConfig,
    env: &Env,
) -> (ResolvedSecrets, Lost) {
    let mut groups: BTreeMap<(SecretSource, &str), Vec<&SecretRef>> = BTreeMap::new();
    for reference in references {
        let (name, _) = config.provider(reference.source, reference.provider.as_deref());
        groups.entry((reference.source, name)).or_default().push(reference);
    }
    let asked = groups.iter().map(|((source, name), group)| ask(*source, name, group, config, env));
    let mut found = ResolvedSecrets::default();
    let mut lost = Vec::new();
    for (reference, answer) in join_all(asked).await.into_iter().flatten() {
        match answer {
            Ok(secret) => {
                telemetry::hide(&secret);
                found.insert(reference, secret);
            }
            Err(error) => lost.push((reference, error)),
        }
    }
    (found, lost)
}

/// References that lead nowhere, and why.
pub type Lost = Vec<(SecretRef, SecretError)>;

type Answers = Vec<(SecretRef, Result<Secret, SecretError>)>;

async fn ask(
    source: SecretSource,
    name: &str,
    group: &[&SecretRef],
    config: &SecretsConfig,
    env: &Env,
) -> Answers {
    let (_, provider) = config.provider(source, Some(name));
    let each = |answer: &dyn Fn(&SecretRef) -> Result<Secret, SecretError>| -> Answers {
        group.iter().map(|&reference| (reference.clone(), answer(reference))).collect()
    };
    let missing = |reference: &SecretRef| SecretError::NotThere {
        name: name.to_owned(),
        id: reference.id.clone(),
    };
    match provider.filter(|provider| provider.source() == source) {
        None => {
            each(&|_| Err(SecretError::NoProvider { name: name.to_owned(), source_kind: source }))
        }
        Some(SecretProvider::Env(allowed)) => {
            each(&|reference| variable(&reference.id, name, allowed.as_deref(), env))
        }
        Some(SecretProvider::File(provider)) => match file::read(provider).await {
            Ok(content) => {
                each(&|reference| content.get(&reference.id).ok_or_else(|| missing(reference)))
            }
            Err(error) => all_fail(group, name, error),
        },
        Some(SecretProvider::Exec(provider)) => {
            let ids: Vec<&str> = group.iter().map(|reference| reference.id.as_str()).collect();
            match exec::ask(&provider, name, &ids, env).await {
                Ok(known) => each(&|reference| {
                    known.get(&reference.id).cloned().ok_or_else(|| missing(reference))
                }),
                Err(error) => all_fail(group, name, error),
            }
        }
    }
}

/// The first reference gets the reason, the others that there is no secret.
fn all_fail(group: &[&SecretRef], name: &str, error: SecretError) -> Answers {
    let mut error = Some(error);
    let answer = |reference: &&SecretRef| {
        let nothing = || SecretError::NotThere { name: name.to_owned(), id: reference.id.clone() };
        ((*reference).clone(), Err(error.take().unwrap_or_else(nothing)))
    };
    group.iter().map(answer).collect()
}

fn variable(
    variable: &str,
    name: &str,
    allowed: Option<&[String]>,
    env: &Env,
) -> Result<Secret, SecretError> {
    if allowed.is_some_and(|allowed| !allowed.iter().any(|known| known == variable)) {
        let (name, variable) = (name.to_owned(), variable.to_owned());
        return Err(SecretError::NotAllowed { name, variable });
    }
    env.get(variable).map(Secret::new).ok_or_else(|| SecretError::NotSet(variable.to_owned()))
}

#[cfg(test)]
mod tests;
