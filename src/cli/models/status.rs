//! `clawgate models status`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::super::args::JsonArgs;
use super::super::block_on;
use super::super::format::table;
use super::super::output::{note, say};
use super::list::has_profile;
use super::{Facts, agent, probe};
use crate::config::Env;
use crate::config::models::is_same_provider;
use crate::providers::credentials::{ProfileState, status};
use crate::providers::{ModelInfo, key_in_environment, known_provider};
use crate::support::json;

/// A provider that is well answers within this.
const PROBE_MS: u64 = 8000;
/// `--check`: something is missing, has ended, or did not work when it was tried.
const BROKEN: u8 = 1;
/// `--check`: something ends soon.
const EXPIRING: u8 = 2;

/// Arguments of `clawgate models status`.
#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_excessive_bools)] // each is one flag
pub struct StatusArgs {
    /// Whose model and credentials [default: the default agent]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Print the name of the default model only; what a probe finds wrong goes to stderr
    #[arg(long, conflicts_with = "json")]
    plain: bool,
    #[command(flatten)]
    json: JsonArgs,
    /// Exit with 1 when a credential is missing, has ended or, with --probe, does not work; 2
    /// when one ends within a day
    #[arg(long)]
    check: bool,
    /// Ask each provider one short question, which costs a few tokens
    #[arg(long)]
    probe: bool,
    /// How long each answer may take
    #[arg(long, value_name = "MS", default_value_t = PROBE_MS)]
    probe_timeout: u64,
}

/// Shows what answers, and what lets us in.
pub fn run(args: &StatusArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let facts = Facts::find(env)?;
    let agent = agent(&facts.settings, args.agent.as_deref())?;
    let catalog = facts.failover.catalog();
    let in_use = in_use(&facts, &agent);
    let Some(primary) = in_use.first() else { return Ok(ExitCode::FAILURE) };
    let credentials = facts.failover.credentials();
    let stored = block_on(&facts.runtime, credentials.profiles(&agent));
    let now_ms = facts.clock.now_ms();
    let profiles = block_on(&facts.runtime, status::of_profiles(credentials, &agent, now_ms));
    let around = facts.settings.environment(env);
    let auth: Vec<_> = providers(&in_use, &profiles)
        .into_iter()
        .map(|id| provider_row(&id, &in_use, &stored, &profiles, &around))
        .collect();
    let probes = if args.probe { probes(&facts, &agent, &in_use, args) } else { Vec::new() };
    let choice = catalog.default_choice();
    let reason = if choice.model.is(&primary.reference()) {
        choice.reason.as_str()
    } else {
        "its agent names it"
    };
    let fallbacks: Vec<_> =
        in_use.iter().skip(1).map(|model| model.reference().to_string()).collect();
    let aliases: serde_json::Map<_, _> = facts
        .settings
        .agents
        .defaults
        .models
        .iter()
        .filter_map(|model| Some((model.alias.clone()?, json!(model.name))))
        .collect();
    let missing: Vec<_> = auth
        .iter()
        .filter(|row| row["effective"]["kind"] == "missing")
        .map(|row| row["provider"].clone())
        .collect();
    let whole = json!({
        "configPath": facts.settings.file.path.to_string_lossy(),
        "agentId": agent,
        "agentDir": facts.settings.paths.agent_dir(&agent).join("agent").to_string_lossy(),
        "defaultModel": primary.reference().to_string(),
        "reason": reason,
        "fallbacks": fallbacks,
        "aliases": aliases,
        "allowed": facts.settings.agents.defaults.models.iter().map(|model| &model.name).collect::<Vec<_>>(),
        "auth": {
            "storePath": credentials.path(&agent).to_string_lossy(),
            "missingProvidersInUse": missing,
            "providers": auth,
            "profiles": profiles,
            "probes": probes,
        },
    });
    say(&match (args.plain, args.json.json) {
        (true, _) => format!("{}\n", primary.reference()),
        (_, true) => format!("{whole:#}\n"),
        _ => text(&whole),
    })?;
    if args.plain {
        for [what, how] in probe_rows(&whole).filter(|row| row["status"] != "ok").map(told) {
            note(&format!("{what}: {how}"));
        }
    }
    Ok(if args.check { ExitCode::from(check(&whole)) } else { ExitCode::SUCCESS })
}

/// The model of an agent and its fallbacks.
fn in_use(facts: &Facts, agent: &str) -> Vec<Arc<ModelInfo>> {
    let (catalog, agents) = (facts.failover.catalog(), &facts.settings.agents);
    let own = agents.agent(agent).and_then(|agent| agent.model.as_ref());
    let primary = own.and_then(|setting| catalog.named(&setting.primary));
    let primary = primary.unwrap_or_else(|| Arc::clone(&catalog.default_choice().model));
    let of_all = agents.defaults.model.as_ref().and_then(|setting| setting.fallbacks.as_ref());
    let fallbacks = own.and_then(|setting| setting.fallbacks.as_ref()).or(of_all);
    let others = fallbacks.into_iter().flatten().filter_map(|name| catalog.named(name));
    std::iter::once(primary).chain(others).collect()
}

/// Those of the models, then those with stored credentials.
fn providers(in_use: &[Arc<ModelInfo>], profiles: &[Value]) -> Vec<String> {
    let used = in_use.iter().map(|model| model.provider.clone());
    let stored = profiles.iter().filter_map(|row| Some(row["provider"].as_str()?.to_owned()));
    let mut all: Vec<String> = Vec::new();
    for id in used.chain(stored) {
        if !all.iter().any(|known| is_same_provider(known, &id)) {
            all.push(id);
        }
    }
    all
}

fn provider_row(
    id: &str,
    in_use: &[Arc<ModelInfo>],
    stored: &[ProfileState],
    profiles: &[Value],
    env: &Env,
) -> Value {
    let model = in_use.iter().find(|model| model.provider == id);
    let variable = key_in_environment(id, &|name| env.get(name));
    let without = model.filter(|model| !model.has_credential());
    let unset = without.and_then(|model| model.options.unset.as_deref());
    let (kind, detail) = if has_profile(stored, id) {
        let first = stored.iter().find(|it| it.opens(id));
        ("profiles", first.map(|state| state.profile.id.clone()).unwrap_or_default())
    } else if let Some(why) = unset {
        // No other key is used for one that is written.
        ("missing", why.to_owned())
    } else if let Some(variable) = variable {
        ("env", variable.to_owned())
    } else if model.is_some_and(|model| model.api_key.is_some()) {
        ("config", format!("models.providers.{id}.apiKey"))
    } else if model.is_none() {
        // Its stored credentials alone have it shown.
        ("profiles", "none can be used; see: clawgate models auth list".to_owned())
    } else if model.is_some_and(|model| model.has_credential()) {
        ("none", "none is needed".to_owned())
    } else {
        let set = known_provider(id).map(|(_, variable)| format!("set {variable}, or "));
        let set = set.unwrap_or_default();
        ("missing", format!("{set}run: clawgate models auth add --provider {id}"))
    };
    let count = profiles
        .iter()
        .find(|row| row["provider"].as_str().is_some_and(|it| is_same_provider(it, id)))
        .and_then(|row| row["profiles"].as_array())
        .map_or(0, Vec::len);
    json!({"provider": id, "effective": {"kind": kind, "detail": detail}, "profiles": count})
}

fn probes(facts: &Facts, agent: &str, in_use: &[Arc<ModelInfo>], args: &StatusArgs) -> Vec<Value> {
    let limit = Duration::from_millis(args.probe_timeout);
    let asked = in_use.iter().map(|model| probe::ask(facts, agent, model, limit));
    block_on(&facts.runtime, futures_util::future::join_all(asked)).into_iter().flatten().collect()
}

fn check(whole: &Value) -> u8 {
    let auth = &whole["auth"];
    let statuses = auth["profiles"].as_array().into_iter().flatten().map(|row| &row["status"]);
    let statuses: Vec<_> = statuses.collect();
    let is = |wanted: &str| statuses.iter().any(|status| **status == wanted);
    let lacks = auth["missingProvidersInUse"].as_array().is_some_and(|missing| !missing.is_empty());
    let has_failed = probe_rows(whole).any(|row| row["status"] != "ok");
    if lacks || has_failed || is("expired") || is("missing") {
        BROKEN
    } else if is("expiring") {
        EXPIRING
    } else {
        0
    }
}

fn probe_rows(whole: &Value) -> impl Iterator<Item = &Value> {
    whole["auth"]["probes"].as_array().into_iter().flatten()
}

/// Which question it was, and what came of it.
fn told(probe: &Value) -> [String; 2] {
    let string = |name: &str| probe[name].as_str().unwrap_or_default();
    let error = probe["error"].as_str().map(|error| format!(": {error}")).unwrap_or_default();
    let (profile, status) = (string("profileId"), string("status"));
    [
        format!("Probe {}/{}", string("provider"), string("model")),
        format!("{profile} {status} in {} ms{error}", probe["latencyMs"]),
    ]
}

fn text(whole: &Value) -> String {
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut rows = vec![
        ["Config".into(), string(&whole["configPath"])],
        [
            "Default".into(),
            format!("{} ({})", string(&whole["defaultModel"]), string(&whole["reason"])),
        ],
    ];
    let list = |value: &Value| {
        let items: Vec<_> = value.as_array().into_iter().flatten().map(string).collect();
        if items.is_empty() { "none".to_owned() } else { items.join(", ") }
    };
    rows.push(["Fallbacks".into(), list(&whole["fallbacks"])]);
    for (alias, name) in whole["aliases"].as_object().into_iter().flatten() {
        rows.push(["Alias".into(), format!("{alias} = {}", string(name))]);
    }
    rows.push(["Credentials".into(), string(&whole["auth"]["storePath"])]);
    for row in whole["auth"]["providers"].as_array().into_iter().flatten() {
        let effective = &row["effective"];
        rows.push([
            format!("  {}", string(&row["provider"])),
            format!("{}: {}", string(&effective["kind"]), string(&effective["detail"])),
        ]);
    }
    rows.extend(probe_rows(whole).map(told));
    table(&rows)
}
