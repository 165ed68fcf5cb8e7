//! Configuration, models, secrets, and what the machine has.

use std::collections::BTreeSet;
use std::io::ErrorKind::PermissionDenied;
use std::path::Path;
use std::sync::Arc;

use super::files::give;
use super::finding::{Finding, Severity};
use crate::agent::exec::sandbox_availability;
use crate::agent::missing_models;
use crate::agent::roster::misplaced;
use crate::agent::tools::misnamed;
use crate::app;
use crate::auth::origin::page_verdict;
use crate::config::document::{self, ConfigIssue};
use crate::config::foreign::{self, Foreign};
use crate::config::models::is_same_provider;
use crate::config::secrets::{self, targets};
use crate::config::{self, ConfigError, Env, Overrides, Paths, Settings, keys};
use crate::gateway::tls::{Tls, expiry_of_file};
use crate::providers::{Failover, MissingModel};
use crate::support::{Clock, SystemClock, find_program};

/// Programs that agents use, and what for.
const PROGRAMS: [(&str, &str); 3] = [
    ("git", "agents look at changes and history with it"),
    ("rg", "agents search quickly with it; without it they use grep"),
    ("python3", "many skills need it"),
];

/// What to do about a model that there is not.
const CORRECT_MODEL: &str =
    "correct the place that is named; `clawgate models list` shows what there is";

/// Whether the file can be used.
pub fn config(loaded: &Result<Settings, ConfigError>, env: &Env) -> Finding {
    match loaded {
        Ok(settings) if settings.file.exists => Finding::ok(
            "config.valid",
            format!("the config {} is valid", settings.file.path.display()),
        ),
        Ok(settings) => Finding::ok(
            "config.valid",
            format!("there is no config {}; defaults are used", settings.file.path.display()),
        ),
        Err(error) => Finding::new(
            "config.invalid",
            Severity::Critical,
            error.to_string(),
            if waits(error, env) {
                "started with it, the gateway waits, and serves nothing else, until it is mended"
            } else {
                "the gateway does not start with it"
            },
            match error {
                ConfigError::Unreadable { path, source } if source.kind() == PermissionDenied => {
                    give(path)
                }
                _ if has_earlier(env) => {
                    "mend the place that is named; earlier versions are beside the file, as .bak"
                        .to_owned()
                }
                _ => "mend the place that is named".to_owned(),
            },
        ),
    }
}

/// Whether an earlier version of the file is beside it.
fn has_earlier(env: &Env) -> bool {
    Paths::resolve(env).is_ok_and(|paths| {
        let mut name = paths.config_path.into_os_string();
        name.push(".bak");
        Path::new(&name).exists()
    })
}

/// Whether the fault is one of the file, for whose end a gateway waits.
fn waits(error: &ConfigError, env: &Env) -> bool {
    let looking = Overrides { read_only: true, ..Overrides::default() };
    !error.is_of_disk() && config::load_text("{}", env, &looking).is_ok()
}

/// What is wrong with the file of variables.
pub fn dotenv(env: &Env, paths: &Paths) -> Option<Finding> {
    config::dotenv_fault(env, paths).map(|fault| {
        Finding::new(
            "config.dotenv",
            Severity::Warn,
            fault,
            "what it was to set is not set by it",
            "correct it: docs/configuration.md, Variables beside the file",
        )
    })
}

/// Whether there is a certificate, or one can be made.
pub fn certificate(settings: &Settings, now_ms: u64) -> Option<Finding> {
    let tls = &settings.gateway.tls;
    let expired = || expiry_of_file(&tls.cert_path, now_ms);
    tls.enabled.then(|| match Tls::check(tls).map(|()| expired()) {
        Ok(Some(expired)) => Finding::new(
            "gateway.tls",
            Severity::Warn,
            format!("the certificate {} has expired: {expired}", tls.cert_path.display()),
            "only clients that pin it connect",
            "renew it; docs/deploy.md, TLS in the gateway",
        ),
        Ok(None) => Finding::ok("gateway.tls", "the gateway has a certificate, or can make one"),
        Err(error) => Finding::new(
            "gateway.tls",
            Severity::Critical,
            error.to_string(),
            "the gateway does not start without it",
            "put right what is named; docs/deploy.md, TLS in the gateway",
        ),
    })
}

/// Keys of the file that mean nothing here.
pub fn unknown(settings: &Settings) -> Option<Finding> {
    let foreign = foreign::found(&settings.raw);
    let places = document::unknown(&settings.raw, &foreign);
    let places: Vec<_> = places.map(|place| place.to_string()).collect();
    (!places.is_empty()).then(|| {
        Finding::new(
            "config.unknown",
            Severity::Info,
            format!("the config has keys that are not known here: {}", places.join(", ")),
            "they are kept and have no effect; OpenClaw or another version may know them",
            "if one of them is misspelt, `clawgate config schema` prints those that there are",
        )
    })
}

/// Values of OpenClaw that turn something off here.
pub fn foreign(settings: &Settings) -> Vec<Finding> {
    let findings = foreign::found(&settings.raw).into_iter().map(|Foreign { path, message }| {
        Finding::new(
            "config.foreign",
            Severity::Warn,
            format!("{path}: {message}"),
            "what it is written for does nothing here",
            "docs/configuration.md, Values that are not built in",
        )
    });
    findings.collect()
}

/// Credentials that count as absent, since a variable is not set.
pub fn unset(settings: &Settings) -> Vec<Finding> {
    let findings = settings.unset.iter().map(|unset| {
        Finding::new(
            "config.unset",
            Severity::Warn,
            format!("{} {unset}", unset.path),
            "the gateway starts without what it is written for",
            format!("set {}, such as in <state dir>/.env, or take the key out", unset.variable),
        )
    });
    findings.collect()
}

/// Values that mean something else than they say: names of no tool, numbers beyond their
/// bounds.
pub fn mistaken(settings: &Settings) -> Vec<Finding> {
    let misnamed = misnamed(&settings.raw).into_iter().map(|it| {
        Finding::new(
            "config.tools",
            Severity::Warn,
            format!("{}: {}", it.path, it.message),
            "a tool that it was to forbid is allowed",
            "correct the name; docs/configuration.md, Tools, names the groups",
        )
    });
    let beyond = keys::beyond(&settings.raw).into_iter().map(|(path, message)| {
        Finding::new(
            "config.bounds",
            Severity::Info,
            format!("{path} {message}"),
            "the gateway works with the bound",
            "write a number within the bounds",
        )
    });
    misnamed.chain(beyond).collect()
}

/// Folders in which no agent should work.
pub fn workspaces(settings: &Settings, env: &Env) -> Vec<Finding> {
    let findings = misplaced(settings, env).into_iter().map(|ConfigIssue { path, message }| {
        Finding::new(
            "agents.workspace",
            Severity::Warn,
            format!("{path}: {message}"),
            "the agent's tools are kept out of what the gateway keeps, so they fail there, or the \
             agent can change everything of its user",
            "name a folder of its own, move the agent's files there, and restart the gateway",
        )
    });
    findings.collect()
}

/// Accounts of channels that are turned on and cannot be used.
pub fn channels(settings: &Settings) -> Vec<Finding> {
    let findings = settings.channels.unusable().into_iter().map(|ConfigIssue { path, message }| {
        Finding::new(
            "channels.unusable",
            Severity::Warn,
            format!("{path}: {message}"),
            "nobody is heard or answered by this account",
            "mend what is named, or turn it off by enabled; docs/channels.md",
        )
    });
    findings.collect()
}

/// What the file forbids, and nobody here keeps to.
pub fn unenforced(settings: &Settings) -> Vec<Finding> {
    let findings = app::unenforced(settings).into_iter().map(|it| {
        Finding::new(
            "config.unenforced",
            Severity::Warn,
            format!("{}: this restriction is not enforced here", it.paths.join(", ")),
            "what OpenClaw forbids by it is allowed here",
            format!("nearest: {}", it.nearest),
        )
    });
    findings.collect()
}

/// Whether a page may connect, from somewhere at least.
pub fn page(url: &str, settings: &Settings) -> Finding {
    let Some(verdict) = page_verdict(url, &settings.gateway.control_ui) else {
        // Not repeated: it may hold a token.
        let title = "what --url says is no address of a page";
        let fix = "give one such as https://chat.example.com";
        return Finding::new("gateway.page", Severity::Warn, title, "", fix);
    };
    let text = verdict.to_string();
    let (title, fix) = text.split_once("; ").unwrap_or((&text, ""));
    if verdict.elsewhere.is_ok() && verdict.is_secure {
        return Finding::ok("gateway.page", title);
    }
    let severity = match (&verdict.here, &verdict.elsewhere) {
        (Err(_), Err(_)) => Severity::Critical,
        _ => Severity::Info,
    };
    let why = "a page that is not allowed gets no connection, whatever it knows";
    Finding::new("gateway.page", severity, title, why, fix)
}

/// Whether every reference leads to a secret.
pub async fn references(settings: &Settings, env: &Env) -> Vec<Finding> {
    let all = targets(&settings.raw);
    if all.is_empty() {
        return Vec::new();
    }
    let wanted: BTreeSet<_> = all.iter().map(|target| target.reference.clone()).collect();
    let (_, lost) = secrets::resolve(&wanted, &settings.secrets, env).await;
    let mode = settings.gateway.auth.mode.to_string();
    let findings = lost.into_iter().map(|(reference, error)| {
        let places: Vec<_> = all.iter().filter(|target| target.reference == reference).collect();
        let is_needed = places.iter().any(|target| target.is_needed(&mode));
        let (severity, why) = if is_needed {
            (Severity::Critical, "the gateway does not start without it")
        } else {
            (Severity::Warn, "what needs it does not work")
        };
        let places: Vec<_> = places.iter().map(|target| target.path.to_string()).collect();
        let title = format!("{}: {error}", places.join(", "));
        let fix = "make it available there, or correct the reference or secrets.providers";
        Finding::new("secrets.unresolved", severity, title, why, fix)
    });
    let findings: Vec<_> = findings.collect();
    if findings.is_empty() {
        let title = format!("{} references to secrets lead to one", all.len());
        return vec![Finding::ok("secrets.references", title)];
    }
    findings
}

/// Whether there are the models that are named, and the one that answers can be asked.
pub async fn models(settings: &Settings, env: &Env) -> Vec<Finding> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let failover = match app::models(settings, env, &clock).await {
        Ok(failover) => failover,
        Err(error) => {
            return vec![Finding::new(
                "models.unusable",
                Severity::Critical,
                error.to_string(),
                "the gateway does not start",
                CORRECT_MODEL,
            )];
        }
    };
    let named_in_vain = missing_models(Arc::clone(&failover), &settings.agents);
    let mut findings: Vec<_> = named_in_vain.into_iter().map(missing).collect();
    findings.extend(twice(settings));
    findings.extend(cli_backend(&failover));
    if failover.catalog().default_choice().model.options.missing.is_none() {
        findings.push(default_model(settings, &failover).await);
    }
    findings
}

/// A model that is named, and that there is not.
fn missing(MissingModel { path, message, is_answered, .. }: MissingModel) -> Finding {
    let (severity, detail) = if is_answered {
        (Severity::Warn, "whoever wants it is answered by another model")
    } else {
        (Severity::Critical, "whoever wants it is answered by an error")
    };
    Finding::new("models.missing", severity, format!("{path}: {message}"), detail, CORRECT_MODEL)
}

/// Providers that differ in nothing but how they are written.
fn twice(settings: &Settings) -> Vec<Finding> {
    let ids: Vec<_> = settings.models.providers.iter().map(|(id, _)| id).collect();
    let later = ids.iter().enumerate().filter_map(|(place, id)| {
        let first = ids.iter().take(place).find(|first| is_same_provider(first, id))?;
        Some(Finding::new(
            "models.twice",
            Severity::Warn,
            format!("models.providers: {first} and {id} are two ways to write one provider"),
            "of two models with the same name the first one answers; credentials are of both",
            "put their models under one of them, or give one another name",
        ))
    });
    later.collect()
}

/// Whether the CLI that may answer is there.
fn cli_backend(failover: &Failover) -> Option<Finding> {
    let catalog = failover.catalog();
    let backend = catalog.models().iter().find_map(|model| model.options.cli.as_deref())?;
    let command = backend.command.display();
    if let Some(program) = backend.program() {
        return Some(Finding::ok("models.cli", format!("{} is there", program.display())));
    }
    let is_first = catalog.default_choice().model.options.cli.is_some();
    Some(Finding::new(
        "models.cli",
        if is_first { Severity::Critical } else { Severity::Warn },
        format!("there is no program {command} that can be started"),
        "whoever wants a model of claude-cli is answered by an error",
        "install it, or correct agents.defaults.cliBackends.claude-cli.command",
    ))
}

/// Whether the model that answers by default can be asked.
async fn default_model(settings: &Settings, failover: &Failover) -> Finding {
    let choice = failover.catalog().default_choice();
    let name = choice.model.reference();
    if name.provider == "offline" {
        return Finding::new(
            "models.none",
            Severity::Warn,
            "no model is configured; the embedded one answers",
            "it only repeats and explains itself",
            "clawgate onboard",
        );
    }
    let agent = &settings.agents.default_id;
    let stored = failover.credentials().profiles(agent).await;
    let is_stored = stored.iter().any(|it| it.opens(&name.provider));
    if is_stored || choice.model.has_credential() {
        let title = format!(
            "there is a credential for {name}, or it needs none; nobody was asked: \
             clawgate models status --probe ({})",
            choice.reason
        );
        return Finding::ok("models.auth", title);
    }
    Finding::new(
        "models.auth",
        Severity::Critical,
        format!("there is no credential for {name}, the default model"),
        "every message ends in an error",
        format!("clawgate models auth add --provider {}", name.provider),
    )
}

/// Programs of the machine; whether the `PATH` is that of the service.
pub fn programs(env: &Env, is_of_service: bool) -> Vec<Finding> {
    let path = env.get("PATH").unwrap_or_default();
    let (whose, otherwise) = if is_of_service {
        (" of the service", "; if this terminal finds it: clawgate gateway install --force")
    } else {
        ("", "")
    };
    let findings = PROGRAMS.iter().map(|(name, why)| {
        if find_program(Path::new(name), &path).is_some() {
            return Finding::ok("machine.program", format!("{name} is installed"));
        }
        let title = format!("{name} is not in PATH{whose}");
        let fix = format!("install {name}{otherwise}");
        Finding::new("machine.program", Severity::Info, title, *why, fix)
    });
    findings.collect()
}

/// Whether commands can be confined.
pub fn sandbox(settings: Option<&Settings>) -> Finding {
    let Err(why) = sandbox_availability() else {
        return Finding::ok("machine.sandbox", "commands can be confined");
    };
    let is_wanted = settings.is_some_and(|it| it.exec.sandbox.is_wanted());
    let (severity, detail) = if is_wanted {
        (Severity::Critical, "the configuration asks for it, so every command is refused")
    } else {
        (Severity::Info, "a command can do what the gateway's user can")
    };
    let fix = "a Linux of 6.2 or later has what is needed";
    Finding::new(
        "machine.sandbox",
        severity,
        format!("commands cannot be confined: {why}"),
        detail,
        fix,
    )
}
