//! `clawgate config get`, `set`, `unset`, `schema`.

use std::io::{Read, stdin};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;

use crate::agent::roster::misplaced;
use crate::cli::args::JsonArgs;
use crate::cli::checked::would_work;
use crate::cli::output::{note, say};
use crate::config::document::{
    self, ConfigBase, ConfigIssue, ConfigSnapshot, ConfigWrite, ConfigWriteError, ConfigWritten,
};
use crate::config::edit::{Step, ValuePath};
use crate::config::keys::{self, Kind};
use crate::config::{self, Env, Overrides};
use crate::support::json;

/// A value that is typed or piped in; far more than anybody writes.
const VALUE_MAX: u64 = 1024 * 1024;

/// Arguments of `config get`.
#[derive(Debug, Clone, Args)]
pub struct GetArgs {
    /// Which value, such as agents.defaults.model or agents.list[0]; all without it
    path: Option<ValuePath>,
    #[command(flatten)]
    json: JsonArgs,
}

/// Arguments of `config set`.
#[derive(Debug, Clone, Args)]
pub struct SetArgs {
    /// Where, such as gateway.port or agents.list[0].name
    path: ValuePath,
    /// The value: JSON5, or a text; - reads it from standard input
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// Take the value as JSON5 only
    #[arg(long)]
    strict_json: bool,
    /// Write it although the gateway knows no such key
    #[arg(long)]
    force: bool,
    /// OpenClaw asks for it where others would be lost; here a value is always replaced.
    #[arg(long, hide = true)]
    replace: bool,
    #[command(flatten)]
    how: HowArgs,
}

/// Arguments of `config unset`.
#[derive(Debug, Clone, Args)]
pub struct UnsetArgs {
    /// What is to be taken away
    path: ValuePath,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Debug, Clone, Copy, Args)]
struct HowArgs {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    json: JsonArgs,
}

/// Arguments of `config schema`.
#[derive(Debug, Clone, Args)]
pub struct SchemaArgs {
    /// Only what may stand here
    path: Option<ValuePath>,
}

/// Prints a value of the file, with what it includes, without secrets.
pub fn get(args: &GetArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let seen = ConfigSnapshot::read(env)?;
    if let Some(issue) = seen.issues.first().filter(|_| !seen.is_readable) {
        bail!("{}", issue.message);
    }
    let found = match &args.path {
        None => Some(&seen.source),
        Some(path) => path.find(&seen.source),
    };
    let Some(value) = found else {
        let path = args.path.as_ref().map(ToString::to_string).unwrap_or_default();
        if let Some(issue) = seen.issues.first().filter(|_| !seen.is_whole) {
            let file = seen.path.display();
            bail!(
                "{path} is not in {file}, and not all that it includes is read: {}",
                issue.message
            );
        }
        let known = args.path.as_ref().and_then(|path| keys::find(path.steps()));
        let default = known.as_ref().and_then(|found| found.key).map_or("", |key| key.default);
        match known {
            None => bail!("{path} is not in {}", seen.path.display()),
            Some(_) if default.is_empty() => bail!("{path} is not set"),
            Some(_) => bail!("{path} is not set; the default is {default}"),
        }
    };
    let text = match value {
        Value::String(text) if !args.json.json => text.clone(),
        value => format!("{value:#}"),
    };
    say(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a value.
pub fn set(args: &SetArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let known = keys::find(args.path.steps());
    if known.is_none() {
        let what = unknown(&args.path);
        let is_near = matches!(args.path.steps().first(),
            Some(Step::Key(name)) if keys::is_section(name));
        if !is_near {
            bail!("{what}");
        }
        if !args.force {
            bail!("{what}; --force writes it all the same");
        }
        note(&format!("{what}; it has no effect"));
    }
    let value = value(args, known.as_ref().map(|found| &found.kind))?;
    let change = ConfigWrite::Set(args.path.clone(), value.clone());
    let written = apply(&change, &args.path, args.how, env)?;
    let shown = config::redact::redacted_at(args.path.steps(), &value);
    let text = format!("{} is {shown}", args.path);
    told(&args.path, &written, &text, args.how)
}

/// Takes a value away.
pub fn unset(args: &UnsetArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let written = apply(&ConfigWrite::Unset(args.path.clone()), &args.path, args.how, env)?;
    told(&args.path, &written, &format!("{} is not set", args.path), args.how)
}

/// Prints the schema.
pub fn schema(args: &SchemaArgs) -> anyhow::Result<ExitCode> {
    let schema = match &args.path {
        None => keys::schema(),
        Some(path) => match keys::find(path.steps()) {
            Some(found) => keys::schema_of(&found.kind),
            None => bail!("{}", unknown(path)),
        },
    };
    say(&format!("{schema:#}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// What is written: where a text belongs, what looks like a number is one, too.
fn value(args: &SetArgs, kind: Option<&Kind>) -> anyhow::Result<Value> {
    let written = if args.value == "-" { piped()? } else { args.value.clone() };
    let read = config::parse_value(written.trim(), Path::new("the value"));
    if args.strict_json {
        return read.with_context(|| args.path.to_string());
    }
    // The space around a text is a part of it.
    let text = || Value::String(written.clone());
    Ok(match (kind, read) {
        (Some(Kind::Text | Kind::Word(_)), Ok(value)) if !value.is_string() => text(),
        (Some(Kind::Secret), Ok(value)) if !value.is_string() && !value.is_object() => text(),
        (_, Ok(value)) => value,
        (_, Err(_)) => text(),
    })
}

/// What stands on standard input, but for the end of its last line.
fn piped() -> anyhow::Result<String> {
    let mut text = String::new();
    stdin().take(VALUE_MAX + 1).read_to_string(&mut text).context("standard input")?;
    if text.len() as u64 > VALUE_MAX {
        bail!("the value has more than {VALUE_MAX} bytes");
    }
    let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    Ok(line.unwrap_or(&text).to_owned())
}

fn apply(
    change: &ConfigWrite,
    path: &ValuePath,
    how: HowArgs,
    env: &Env,
) -> anyhow::Result<ConfigWritten> {
    let base = ConfigBase::Any;
    let written = if how.dry_run {
        document::preview(change, &base, env, fits(env))
    } else {
        document::write(change, &base, env, fits(env))
    };
    written.map_err(|error| match error {
        ConfigWriteError::Invalid(issue) => {
            let wrong: Result<ValuePath, _> = issue.path.parse();
            let wrong = wrong.unwrap_or_else(|_| path.clone());
            let allowed = keys::find(wrong.steps())
                .map(|found| format!("\n  {}", keys::describe(&found).replace('\n', "\n  ")));
            let place = if issue.path.is_empty() { path.to_string() } else { issue.path };
            anyhow::anyhow!("{place}: {}{}", issue.message, allowed.unwrap_or_default())
        }
        other => other.into(),
    })
}

/// The check of every command that writes; and no agent gets a folder in which none may
/// work, unless it has it already.
fn fits(env: &Env) -> impl Fn(&str) -> Result<(), ConfigIssue> + Send + Sync + use<> {
    let (works, env) = (would_work(env), env.clone());
    move |text| {
        works(text)?;
        let looking = Overrides { read_only: true, ..Overrides::default() };
        // A file that cannot be used is mended step by step.
        let Ok(before) = config::load(&env, &looking) else { return Ok(()) };
        let Ok(after) = config::load_text(text, &env, &looking) else { return Ok(()) };
        let known = misplaced(&before, &env);
        let new = misplaced(&after, &env).into_iter().find(|issue| !known.contains(issue));
        new.map_or(Ok(()), Err)
    }
}

fn told(
    path: &ValuePath,
    written: &ConfigWritten,
    text: &str,
    how: HowArgs,
) -> anyhow::Result<ExitCode> {
    let file = written.path.display();
    if how.json.json {
        let now = path.find(&written.config).cloned();
        let answer = json!({"path": path.to_string(), "file": file.to_string(), "value": now,
            "changed": written.changed, "dryRun": how.dry_run,
            "requiresRestart": written.needs_restart});
        say(&format!("{answer:#}\n"))?;
    } else if !written.changed {
        say(&format!("{text} (in {file}), as before\n"))?;
    } else if how.dry_run {
        say(&format!("{text} (in {file}): this would be written\n"))?;
    } else {
        say(&format!("{text} (in {file})\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// That there is no such key, and which there are beside it.
fn unknown(path: &ValuePath) -> String {
    let steps = path.steps();
    let known = (0..steps.len()).rev().find_map(|count| {
        let above = steps.get(..count).filter(|above| !above.is_empty())?;
        keys::find(above).map(|found| (ValuePath::from(above.to_vec()), found))
    });
    if let Some((above, found)) = known {
        return format!("there is no key {path}; {above} is {}", keys::allowed(&found.kind));
    }
    let names: Vec<_> = keys::SECTIONS.iter().map(|section| section.key.name).collect();
    let name = match steps.first() {
        Some(Step::Key(name)) => name.clone(),
        _ => path.to_string(),
    };
    format!("there is no section {name}; there are {}", names.join(", "))
}
