//! `clawgate doctor`: whether a gateway would work here, and what to do.
//!
//! Owns: which things are looked at, and in which order. Promises: nothing is
//! changed without `--fix`, and with it only permissions; no secret is shown.
//! Must not: need a running gateway, or a valid configuration.

mod files;
mod finding;
mod jobs;
mod kept;
mod running;
mod setup;
mod state;
mod usable;

use std::process::ExitCode;

use clap::Args;

use super::args::JsonArgs;
use super::output::say_of_others;
use super::{block_on, one_thread, service};
use crate::config::{self, Env, GatewayMode, Overrides, Paths};
use crate::support::{Clock, SystemClock};

pub(super) use files::{check as check_files, tls_key};
pub(super) use finding::{Finding, Report, Severity};
pub(super) use setup::unenforced as check_restrictions;
pub(super) use usable::reused as check_hooks;

/// Arguments of `clawgate doctor`.
#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_excessive_bools)] // each is a flag
#[command(
    after_help = "Exit codes: 0 all is well, 1 something does not work or is open to others, \
    2 something should be better (also: wrong arguments)."
)]
pub struct DoctorArgs {
    /// Close files that are open to other users
    #[arg(long, alias = "repair")]
    fix: bool,
    /// Nothing ever is asked here.
    #[arg(long, hide = true)]
    non_interactive: bool,
    /// The same.
    #[arg(long, hide = true)]
    yes: bool,
    /// OpenClaw looks for services of others with it.
    #[arg(long, hide = true)]
    deep: bool,
    /// Nothing is suggested about workspaces here.
    #[arg(long, hide = true)]
    no_workspace_suggestions: bool,
    #[command(flatten)]
    json: JsonArgs,
    /// Also tell whether a page at this address may connect
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

/// Looks at everything.
pub fn run(args: &DoctorArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let paths = Paths::resolve(env)?;
    let of_service = service::search_path(env).map(|path| along(env, path));
    let (env, is_of_service) = (of_service.as_ref().unwrap_or(env), of_service.is_some());
    let loaded = config::load(env, &Overrides { read_only: true, ..Overrides::default() });
    let mut findings = vec![setup::config(&loaded, env)];
    findings.extend(setup::dotenv(env, &paths));
    if let Ok(settings) = &loaded {
        findings.extend(setup::unknown(settings));
        findings.extend(setup::foreign(settings));
        findings.extend(setup::unset(settings));
        findings.extend(setup::mistaken(settings));
        findings.extend(setup::workspaces(settings, env));
        findings.extend(setup::channels(settings));
        findings.extend(usable::origins(settings));
        findings.extend(setup::unenforced(settings));
        if let Some(url) = &args.url {
            findings.push(setup::page(url, settings));
        }
    }
    findings.extend(state::directory(&paths));
    findings.extend(check_files(&paths));
    findings.extend(loaded.as_ref().ok().and_then(tls_key));
    findings.extend(running::check(&paths, loaded.as_ref().ok(), env));
    let now = SystemClock.now_ms();
    findings.extend(loaded.as_ref().ok().and_then(|it| setup::certificate(it, now)));
    let database = state::database(&paths);
    // One that cannot be read tells nothing, and each look at it would wait for that.
    if database.as_ref().is_some_and(|it| it.severity == Severity::Ok) {
        findings.extend(loaded.as_ref().ok().and_then(|it| jobs::unheard(&paths, it)));
        findings.extend(jobs::put_off(&paths, now));
        let openclaw = state::openclaw(&paths, loaded.as_ref().ok());
        // What OpenClaw has begun here since is in no list either, and comes with the rest.
        let settings = loaded.as_ref().ok().filter(|_| openclaw.is_none());
        findings.extend(settings.and_then(|it| state::unlisted(&paths, it)));
        findings.extend(loaded.as_ref().ok().and_then(|it| state::gone(&paths, it)));
        findings.extend(openclaw);
    }
    if database.as_ref().is_none_or(|it| it.severity == Severity::Ok) {
        findings.extend(loaded.as_ref().ok().and_then(|it| jobs::unreadable(&paths, it)));
    }
    findings.extend(database);
    findings.extend(state::unreadable_indexes(&paths, loaded.as_ref().ok()));
    findings.extend(state::transcripts(&paths));
    findings.extend(kept::check(&paths));
    if let Ok(settings) = &loaded {
        let runtime = one_thread()?;
        let with_own = settings.environment(env);
        findings.extend(block_on(&runtime, setup::references(settings, &with_own)));
        findings.extend(block_on(&runtime, usable::hooks(settings, &with_own)));
        // Where the gateway is elsewhere no agent works here, and no model is asked.
        if settings.gateway.mode != GatewayMode::Remote {
            findings.extend(usable::files_of_agents(settings));
            findings.extend(block_on(&runtime, setup::models(settings, env)));
        }
    }
    findings.extend(setup::programs(env, is_of_service));
    findings.push(setup::sandbox(loaded.as_ref().ok()));
    findings.push(state::clock(&paths, now));
    tell(Report::new(findings), args.fix, args.json.json)
}

/// The same, where programs are looked for along this path.
fn along(env: &Env, path: String) -> Env {
    env.overlaid(move |name, own| if name == "PATH" { Some(path.clone()) } else { own })
}

/// Fixes what is to be fixed, and prints the report.
pub(super) fn tell(mut report: Report, fix: bool, json: bool) -> anyhow::Result<ExitCode> {
    if fix {
        report.fix();
    }
    say_of_others(&if json { format!("{:#}\n", report.to_json()) } else { report.to_text() })?;
    Ok(report.exit_code())
}
