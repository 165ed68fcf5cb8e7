//! `clawgate cron`: the jobs of the running gateway.
//!
//! Owns: what the commands show and ask for. Must not: decide anything of jobs;
//! the gateway does.

mod fields;
mod which;

use clap::{Args, Subcommand};
use serde_json::Value;

use self::fields::{EditFlags, JobFlags};
use self::which::Which;
use super::client::Client;
use super::{CliError, ConnectArgs, Screen, Surroundings, format};
use crate::cron::schedule::date;
use crate::support::{Clock, SystemClock, json};

/// Arguments of `clawgate cron`.
#[derive(Debug, Args)]
pub struct CronArgs {
    #[command(subcommand)]
    command: CronCommand,
}

#[derive(Debug, Subcommand)]
enum CronCommand {
    /// Show whether jobs run, and when the next one does
    Status {
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// List jobs
    List {
        /// Also those that are turned off
        #[arg(long)]
        all: bool,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Show one job
    #[command(visible_alias = "get")]
    Show {
        /// Its id, or a name that no other job has
        id: String,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Make a job
    #[command(visible_alias = "create")]
    Add {
        /// What it is.
        #[command(flatten)]
        flags: Box<JobFlags>,
        /// Make it, but turned off
        #[arg(long)]
        disabled: bool,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Change a job; what is not named stays
    Edit {
        /// Its id, or a name that no other job has
        id: String,
        /// What changes.
        #[command(flatten)]
        flags: Box<JobFlags>,
        /// What else does.
        #[command(flatten)]
        changes: EditFlags,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Run a job now
    Run {
        /// Its id, or a name that no other job has
        id: String,
        /// Only if it is due
        #[arg(long)]
        due: bool,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Show how runs have ended, the newest first
    Runs {
        /// The id of a job, or a name that no other has; all jobs when absent
        id: Option<String>,
        /// The same, as scripts for OpenClaw spell it
        #[arg(long = "id", value_name = "ID", conflicts_with = "id")]
        named_id: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=200))]
        limit: u64,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Remove a job
    #[command(visible_alias = "remove", alias = "delete")]
    Rm {
        /// Its id, or a name that no other job has
        id: String,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Turn a job on
    Enable {
        /// Its id, or a name that no other job has
        id: String,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Turn a job off
    Disable {
        /// Its id, or a name that no other job has
        id: String,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
}

/// What is asked of the gateway, and how its answer is shown.
struct Question {
    connect: ConnectArgs,
    method: &'static str,
    /// `id` is what the user calls the job.
    params: Value,
    tell: fn(&Value) -> String,
}

/// Runs one of them.
pub async fn run(
    args: CronArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let Question { connect, method, mut params, tell } = question(args.command)?;
    let mut client = connect.connect(around).await?;
    let wanted = params["id"].as_str().map(str::to_owned);
    let mut gone = None;
    if let Some(wanted) = wanted {
        match Which::find(&mut client, &wanted).await? {
            Which::One(id) => params["id"] = id.into(),
            // The log outlives its job, and knows it by its id only.
            Which::None if method == "cron.runs" && !wanted.contains(['/', '\\']) => {
                gone = Some(wanted);
            }
            Which::None => return refuse(screen, client, &which::nobody(&wanted)).await,
            Which::Several(ids) => {
                return refuse(screen, client, &which::several(&wanted, &ids)).await;
            }
        }
    }
    if method == "cron.update" {
        keep_calendar(&mut client, &mut params).await?;
    }
    let answer = match params["id"].as_str() {
        // No method answers with one job.
        Some(id) if method == "cron.list" => which::job(&mut client, id).await?,
        _ => client.request(method, params).await?,
    };
    if let Some(wanted) = gone.filter(|_| answer["total"] == 0) {
        return refuse(screen, client, &which::nobody(&wanted)).await;
    }
    if connect.json {
        screen.line(&format::compact(&answer))?;
    } else {
        screen.text(&tell(&answer))?;
    }
    client.close().await;
    Ok(u8::from(answer["removed"] == false || answer["ran"] == false))
}

/// What a patch does not say of a calendar stays as the job has it.
async fn keep_calendar(client: &mut Client, params: &mut Value) -> Result<(), CliError> {
    let schedule = &params["patch"]["schedule"];
    let has_pattern = schedule["expr"].is_string();
    if schedule["kind"] != "cron" || has_pattern && schedule["tz"].is_string() {
        return Ok(());
    }
    let job = which::job(client, params["id"].as_str().unwrap_or_default()).await?;
    let before = &job["schedule"];
    if before["kind"] != "cron" {
        let text = "--tz, --stagger and --exact change a calendar, and this job has none; \
            give --cron or --at with them";
        return if has_pattern { Ok(()) } else { Err(CliError::Usage(text.to_owned())) };
    }
    for name in ["expr", "tz"] {
        if params["patch"]["schedule"][name].is_null() && before[name].is_string() {
            params["patch"]["schedule"][name] = before[name].clone();
        }
    }
    Ok(())
}

fn question(command: CronCommand) -> Result<Question, CliError> {
    let now = SystemClock.now_ms();
    let (connect, method, params, tell): (_, _, _, fn(&Value) -> String) = match command {
        CronCommand::Status { connect } => (connect, "cron.status", json!({}), status_text),
        CronCommand::List { all, connect } => {
            (connect, "cron.list", json!({"includeDisabled": all}), list_text)
        }
        CronCommand::Show { id, connect } => (connect, "cron.list", json!({"id": id}), one_text),
        CronCommand::Add { flags, disabled, connect } => {
            let mut job = flags.members(now)?;
            for (is_there, flag) in [
                (job.contains_key("name"), "--name"),
                (flags.has_schedule(), "--at, --every or --cron"),
                (flags.has_payload(), "--message or --system-event"),
            ] {
                if !is_there {
                    return Err(CliError::Usage(format!("cron add needs {flag}")));
                }
            }
            if disabled {
                job.insert("enabled".into(), false.into());
            }
            (connect, "cron.add", Value::Object(job), job_text)
        }
        CronCommand::Edit { id, flags, changes, connect } => {
            let mut patch = flags.members(now)?;
            changes.add_to(&mut patch);
            if patch.is_empty() {
                return Err(CliError::Usage(
                    "cron edit needs a flag that says what changes".into(),
                ));
            }
            (connect, "cron.update", json!({"id": id, "patch": patch}), job_text)
        }
        CronCommand::Run { id, due, connect } => {
            let mode = if due { "due" } else { "force" };
            (connect, "cron.run", json!({"id": id, "mode": mode}), run_text)
        }
        CronCommand::Runs { id, named_id, limit, connect } => {
            let params = match id.or(named_id) {
                Some(id) => json!({"id": id, "limit": limit}),
                None => json!({"scope": "all", "limit": limit}),
            };
            (connect, "cron.runs", params, runs_text)
        }
        CronCommand::Rm { id, connect } => {
            (connect, "cron.remove", json!({"id": id}), removed_text)
        }
        CronCommand::Enable { id, connect } => {
            (connect, "cron.update", switch(&id, true), job_text)
        }
        CronCommand::Disable { id, connect } => {
            (connect, "cron.update", switch(&id, false), job_text)
        }
    };
    Ok(Question { connect, method, params, tell })
}

async fn refuse(screen: &mut Screen, client: Client, why: &str) -> Result<u8, CliError> {
    screen.error(why)?;
    client.close().await;
    Ok(1)
}

fn switch(id: &str, enabled: bool) -> Value {
    json!({"id": id, "patch": {"enabled": enabled}})
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn time(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), date)
}

fn status_text(status: &Value) -> String {
    let is_on = if status["enabled"] == true { "on" } else { "off" };
    format::table(&[
        ["scheduler".to_owned(), is_on.to_owned()],
        ["jobs".to_owned(), status["jobs"].to_string()],
        ["next".to_owned(), time(&status["nextWakeAtMs"])],
    ])
}

/// When a job runs, in a few words.
fn when(schedule: &Value) -> String {
    match schedule["kind"].as_str() {
        Some("at") => format!("at {}", text(&schedule["at"])),
        Some("every") => match schedule["everyMs"].as_u64().unwrap_or_default() {
            // A span of people has whole seconds.
            every if every % 1000 != 0 => format!("every {every}ms"),
            every => format!("every {}", format::span(every)),
        },
        _ => {
            let tz = schedule["tz"].as_str().map(|tz| format!(" {tz}")).unwrap_or_default();
            format!("cron {}{tz}", text(&schedule["expr"]))
        }
    }
}

/// How a run went, in a word or two: nobody has heard of one that is not delivered.
fn ending<'a>(status: &'a Value, delivery: &Value) -> Option<&'a str> {
    let is_lost = status == "ok" && delivery == "not-delivered";
    if is_lost { Some("not delivered") } else { status.as_str() }
}

fn row(job: &Value) -> [String; 6] {
    let state = &job["state"];
    let shown = if job["enabled"] == false {
        "off"
    } else if state["runningAtMs"].is_u64() {
        "running"
    } else {
        ending(&state["lastRunStatus"], &state["lastDeliveryStatus"]).unwrap_or("waiting")
    };
    [
        text(&job["id"]),
        text(&job["name"]).chars().take(40).collect(),
        when(&job["schedule"]),
        text(&job["sessionTarget"]),
        shown.to_owned(),
        time(&state["nextRunAtMs"]),
    ]
}

fn list_text(page: &Value) -> String {
    let jobs: Vec<_> = page["jobs"].as_array().into_iter().flatten().map(row).collect();
    if jobs.is_empty() {
        return "No jobs. `clawgate cron add --help` shows how to make one.\n".to_owned();
    }
    let head = ["id", "name", "when", "session", "state", "next"].map(str::to_owned);
    format::table(&[vec![head], jobs].concat())
}

/// In one line each, what a job is.
fn facts(job: &Value) -> Vec<[String; 2]> {
    let [id, name, when, target, state, next] = row(job);
    let rows = [
        ("id", id),
        ("name", name),
        ("when", when),
        ("session", target),
        ("state", state),
        ("next", next),
    ];
    rows.map(|(label, value)| [label.to_owned(), value]).to_vec()
}

fn job_text(job: &Value) -> String {
    format::table(&facts(job))
}

/// A job, with what it does and how that went.
fn one_text(job: &Value) -> String {
    let said = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let (payload, state) = (&job["payload"], &job["state"]);
    let lost = Some(&state["lastDeliveryError"]).filter(|error| **error != state["lastError"]);
    let more = [
        ("says", said(&payload["message"]).or_else(|| said(&payload["text"]))),
        ("model", said(&payload["model"])),
        ("fallbacks", listed(&payload["fallbacks"])),
        ("thinking", said(&payload["thinking"])),
        ("tools", listed(&payload["toolsAllow"])),
        ("delivery", delivery_text(&job["delivery"])),
        ("agent", said(&job["agentId"])),
        ("last", state["lastRunAtMs"].as_u64().map(date)),
        ("error", said(&state["lastError"])),
        ("undelivered", lost.and_then(said)),
    ];
    let more = more.into_iter().filter_map(|(label, value)| {
        let value = value?.lines().collect::<Vec<_>>().join(" ");
        Some([label.to_owned(), value])
    });
    format::table(&facts(job).into_iter().chain(more).collect::<Vec<_>>())
}

/// The names of a list, if there are any.
fn listed(names: &Value) -> Option<String> {
    let names: Vec<_> = names.as_array()?.iter().filter_map(Value::as_str).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Who is told what a run answers.
fn delivery_text(delivery: &Value) -> Option<String> {
    let mode = delivery["mode"].as_str()?.to_owned();
    let parts = [("channel", "by"), ("accountId", "as"), ("to", "to"), ("threadId", "in thread")];
    let parts = parts.into_iter().filter_map(|(member, word)| {
        let value = &delivery[member];
        let name = value.as_str().map(str::to_owned);
        let name = name.or_else(|| value.as_u64().map(|id| id.to_string()))?;
        Some(format!("{word} {name}"))
    });
    Some(std::iter::once(mode).chain(parts).collect::<Vec<_>>().join(" "))
}

fn run_text(answer: &Value) -> String {
    match answer["runId"].as_str() {
        Some(run_id) => format!("Runs now: {run_id}\n"),
        None => format!("Does not run: {}\n", text(&answer["reason"])),
    }
}

fn removed_text(answer: &Value) -> String {
    if answer["removed"] == true { "Removed\n".into() } else { "There is no such job\n".into() }
}

fn runs_text(page: &Value) -> String {
    let rows: Vec<_> = page["entries"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| {
            let said = ["error", "deliveryError", "summary"];
            let said = said.iter().find_map(|member| entry[*member].as_str()).unwrap_or_default();
            let job = entry["jobName"].as_str().or(entry["jobId"].as_str()).unwrap_or_default();
            let status = ending(&entry["status"], &entry["deliveryStatus"]).unwrap_or_default();
            let status = if entry["missed"] == true { "missed" } else { status };
            [
                time(&entry["runAtMs"]),
                job.chars().take(40).collect(),
                status.to_owned(),
                format::span(entry["durationMs"].as_u64().unwrap_or_default()),
                said.lines().next().unwrap_or_default().chars().take(80).collect(),
            ]
        })
        .collect();
    if rows.is_empty() { "No runs\n".to_owned() } else { format::table(&rows) }
}
