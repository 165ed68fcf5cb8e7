//! `cron.*`, `wake`, `set-heartbeats`.

mod delivery;
mod job;
mod lenient;
mod preview;
mod state;
mod written;

use serde_json::Value;

pub use delivery::{AlertRules, Delivery, DeliveryMode, Destination, FailureAlert};
pub use job::{
    AgentTurn, CronUpdateParams, JobPatch, NewJob, Payload, PayloadPatch, Schedule, TurnPatch,
    WakeMode,
};

use super::super::decode::{
    Fields, Params, any, boolean, integer_from, list, literal, non_empty, text,
};
pub use preview::CronPreviewParams;
pub use state::StatePatch;
pub use written::{OF_PAYLOAD, OF_SCHEDULE, OF_TURN, modernize, named};

/// Most entries of one page.
const PAGE_MAX: u64 = 200;

/// Params of `cron.list`. `agentId` is of protocol 4.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CronListParams {
    /// Whether jobs are listed that do not run.
    pub include_disabled: bool,
    /// `all`, `enabled` or `disabled`; decides before `include_disabled`.
    pub enabled: Option<String>,
    /// At most so many.
    pub limit: Option<u64>,
    /// After so many.
    pub offset: u64,
    /// Only those with this text in id, name, description, payload or agent.
    pub query: Option<String>,
    /// Only those of this agent.
    pub agent_id: Option<String>,
    /// `nextRunAtMs`, `updatedAtMs` or `name`.
    pub sort_by: Option<String>,
    /// Whether the last comes first.
    pub descending: bool,
}

impl Params for CronListParams {
    fn read(f: &mut Fields) -> Self {
        // What makes an answer shorter.
        f.newer(&["compact", "includeDeliveryPreviews"]);
        Self {
            include_disabled: f.optional("includeDisabled", boolean()).unwrap_or_default(),
            limit: f.optional("limit", integer_from(1).max(PAGE_MAX)),
            offset: f.optional("offset", integer_from(0)).unwrap_or_default(),
            query: f.optional("query", text()),
            agent_id: f.optional("agentId", non_empty()),
            enabled: f.optional("enabled", literal(&["all", "enabled", "disabled"])),
            sort_by: f.optional("sortBy", literal(&["nextRunAtMs", "updatedAtMs", "name"])),
            descending: f.optional("sortDir", literal(&["asc", "desc"])).as_deref() == Some("desc"),
        }
    }
}

/// Params of `cron.get` and `cron.remove`: the id of a job, by either name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CronIdParams {
    /// Which one.
    pub id: String,
}

impl Params for CronIdParams {
    fn read(f: &mut Fields) -> Self {
        let forms: [fn(&mut Fields) -> Self; 2] = [
            |f| Self { id: f.required("id", non_empty()) },
            |f| Self { id: f.required("jobId", non_empty()) },
        ];
        f.one_of_forms(&forms).unwrap_or_default()
    }
}

/// Params of `cron.run`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CronRunParams {
    /// Which one.
    pub id: String,
    /// Whether it runs only when it is due.
    pub only_due: bool,
}

impl CronRunParams {
    fn read_form(f: &mut Fields, name: &str) -> Self {
        let id = f.required(name, non_empty());
        let mode = f.optional("mode", literal(&["due", "force"]));
        Self { id, only_due: mode.as_deref() == Some("due") }
    }
}

impl Params for CronRunParams {
    fn read(f: &mut Fields) -> Self {
        let forms: [fn(&mut Fields) -> Self; 2] =
            [|f| Self::read_form(f, "id"), |f| Self::read_form(f, "jobId")];
        f.one_of_forms(&forms).unwrap_or_default()
    }
}

/// Params of `cron.runs`. `runId` is of protocol 4.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CronRunsParams {
    /// Only those of this job.
    pub id: Option<String>,
    /// `job`, which needs an id, or `all`, whatever the id.
    pub scope: Option<String>,
    /// Only the one that `cron.run` has answered with.
    pub run_id: Option<String>,
    /// At most so many.
    pub limit: Option<u64>,
    /// After so many.
    pub offset: u64,
    /// Only those that ended like this.
    pub statuses: Vec<String>,
    /// Only those delivered like this.
    pub deliveries: Vec<String>,
    /// Only those with this text.
    pub query: Option<String>,
    /// Whether the oldest comes first.
    pub ascending: bool,
}

const STATUSES: [&str; 3] = ["ok", "error", "skipped"];
const DELIVERIES: [&str; 4] = ["delivered", "not-delivered", "unknown", "not-requested"];

impl Params for CronRunsParams {
    fn read(f: &mut Fields) -> Self {
        let is_id = |id: &str| !id.is_empty() && !id.contains(['/', '\\']);
        let id_rule = non_empty().pattern("^[^/\\\\]+$", is_id);
        let scope = f.optional("scope", literal(&["job", "all"]));
        let id = f.optional("id", id_rule);
        let job_id = f.optional("jobId", id_rule);
        let run_id = f.optional("runId", non_empty());
        let limit = f.optional("limit", integer_from(1).max(PAGE_MAX));
        let offset = f.optional("offset", integer_from(0)).unwrap_or_default();
        let statuses = f.optional("statuses", list(literal(&STATUSES)).min(1));
        let status = f.optional("status", literal(&["all", "ok", "error", "skipped"]));
        let deliveries = f.optional("deliveryStatuses", list(literal(&DELIVERIES)).min(1));
        let delivery = f.optional("deliveryStatus", literal(&DELIVERIES));
        let status = status.filter(|status| status != "all");
        Self {
            scope,
            id: id.or(job_id),
            run_id,
            limit,
            offset,
            statuses: statuses.or_else(|| status.map(|one| vec![one])).unwrap_or_default(),
            deliveries: deliveries.or_else(|| delivery.map(|one| vec![one])).unwrap_or_default(),
            query: f.optional("query", text()),
            ascending: f.optional("sortDir", literal(&["asc", "desc"])).as_deref() == Some("asc"),
        }
    }
}

/// Params of `wake`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WakeParams {
    /// Whether the main session answers at once.
    pub mode: WakeMode,
    /// What it is told.
    pub text: String,
}

impl Params for WakeParams {
    fn read(f: &mut Fields) -> Self {
        let mode = f.required("mode", literal(&["now", "next-heartbeat"]));
        let text = f.required("text", non_empty());
        f.ignore_rest();
        Self { mode: WakeMode::parse(&mode), text }
    }
}

/// Params of `set-heartbeats`, read by hand as the original does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetHeartbeatsParams {
    /// Whether heartbeats come; none when that is not said.
    pub enabled: Option<bool>,
}

impl Params for SetHeartbeatsParams {
    fn read(f: &mut Fields) -> Self {
        let enabled = f.optional("enabled", any()).as_ref().and_then(Value::as_bool);
        f.ignore_rest();
        Self { enabled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::decode::{Setting, Unknown, decode};
    use crate::support::json;

    fn add(value: Value) -> Result<NewJob, String> {
        decode("cron.add", value, Unknown::Refuse).map_err(|error| error.message)
    }

    #[test]
    fn a_wrong_schedule_is_told_in_the_words_of_the_original() {
        let params = json!({"name": "x", "schedule": {"kind": "every", "everyMs": 0},
            "sessionTarget": "main", "wakeMode": "now",
            "payload": {"kind": "systemEvent", "text": "x"}});
        assert_eq!(
            add(params).unwrap_err(),
            "invalid cron.add params: at /schedule: must have required property 'at'; at /schedule: \
             unexpected property 'everyMs'; at /schedule/kind: must be equal to constant; at \
             /schedule/everyMs: must be >= 1; at /schedule: must have required property 'expr'; at \
             /schedule: must match a schema in anyOf"
        );
        assert_eq!(
            add(json!({"name": "x"})).unwrap_err(),
            "invalid cron.add params: must have required property 'schedule'; must have required \
             property 'sessionTarget'; must have required property 'payload'"
        );
    }

    #[test]
    fn older_spellings_and_those_of_dashboards_mean_the_same() {
        let job = |schedule: Value, payload: Value| {
            add(json!({"name": "x", "schedule": schedule, "payload": payload})).unwrap()
        };
        let legacy = job(json!({"atMs": 1_795_325_231_925_u64}), json!({"text": "x"}));
        assert_eq!(legacy.schedule, Schedule::At { at: "1795325231925".into() });
        assert_eq!((legacy.session_target.as_str(), legacy.wake_mode), ("main", WakeMode::Now));
        let dashboard = job(
            json!({"kind": "every", "intervalMs": 5}),
            json!({"kind": "systemEvent", "event": "tick", "data": {"n": 1}}),
        );
        assert_eq!(dashboard.schedule, Schedule::Every { every_ms: 5, anchor_ms: None });
        assert_eq!(dashboard.payload, Payload::SystemEvent { text: "tick: {\"n\":1}".into() });
        let turn = job(json!({"kind": "cron", "expression": "* * * * *"}), json!({"message": "m"}));
        assert_eq!(turn.session_target, "isolated");
        let flat = json!({"jobId": "j", "enabled": false});
        let update: CronUpdateParams = decode("cron.update", flat, Unknown::Refuse).unwrap();
        assert_eq!((update.id.as_str(), update.patch.enabled), ("j", Some(false)));
    }

    #[test]
    fn blank_fields_of_a_form_say_nothing() {
        let delivery = json!({"mode": "deliver", "channel": "", "to": " 7 ", "accountId": ""});
        let payload = json!({"kind": "agentTurn", "message": "m", "model": " ", "thinking": ""});
        let job = json!({"name": "x", "schedule": {"everyMs": 5}, "payload": payload,
            "delivery": delivery});
        let job = add(job).unwrap();
        let meant = Delivery {
            mode: Some(DeliveryMode::Announce),
            to: Some("7".into()),
            ..Delivery::default()
        };
        assert_eq!(job.delivery, Some(meant));
        let meant = AgentTurn { message: "m".into(), ..AgentTurn::default() };
        assert_eq!(job.payload, Payload::AgentTurn(meant));
    }

    /// A job that asks something every hour, with other members.
    fn hourly(others: Value) -> Value {
        let mut job = json!({"name": "n", "schedule": {"kind": "every", "everyMs": 3_600_000},
            "payload": {"kind": "agentTurn", "message": "x"}});
        if let (Value::Object(job), Value::Object(others)) = (&mut job, others) {
            job.extend(others);
        }
        job
    }

    fn changed(patch: &Value) -> JobPatch {
        let params = json!({"id": "j", "patch": patch});
        decode::<CronUpdateParams>("cron.update", params, Unknown::Refuse).unwrap().patch
    }

    #[test]
    fn what_the_original_puts_right_means_the_same() {
        let plain = || hourly(json!({}));
        let meant = add(plain()).unwrap();
        for written in [
            json!({"job": plain()}),
            json!({"data": plain()}),
            hourly(json!({"name": " n ", "isolation": {"postToMain": true}, "kind": "every"})),
            hourly(json!({"sessionTarget": "ISOLATED", "wakeMode": " NOW", "agentId": " "})),
            hourly(json!({"session": "Isolated", "text": "", "tz": "UTC"})),
            hourly(json!({"payload": {"kind": "AGENTTURN", "message": "x", "model": "  ",
                "timeoutSeconds": ""}})),
            json!({"name": "n", "everyMs": 3_600_000, "message": "x"}),
            hourly(json!({"schedule": {"kind": " Every", "everyMs": 3_600_000, "at": ""}})),
        ] {
            assert_eq!(add(written.clone()), Ok(meant.clone()), "{written}");
        }
        let turn = AgentTurn {
            message: "x".into(),
            model: Some("m".into()),
            thinking: Some("low".into()),
            timeout_seconds: Some(json!(60)),
            ..AgentTurn::default()
        };
        let meant = NewJob { payload: Payload::AgentTurn(turn), ..meant };
        let payload = json!({"message": "x", "model": "m", "thinking": " low ",
            "timeoutSeconds": " 60"});
        let beside = json!({"model": " m", "thinking": "low", "timeoutSeconds": 60});
        let said = json!({"name": "n", "schedule": {"everyMs": 3_600_000}, "text": "x",
            "model": "m", "thinking": "low", "timeoutSeconds": 60});
        for written in [hourly(json!({"payload": payload})), hourly(beside), said] {
            assert_eq!(add(written.clone()), Ok(meant.clone()), "{written}");
        }
        let event = json!({"payload": {"kind": "SystemEvent", "text": "x"}, "model": "m",
            "message": "y", "channel": "telegram", "sessionKey": " main ", "enabled": "False"});
        let event = add(hourly(event)).unwrap();
        assert_eq!((event.enabled, event.session_key.as_deref()), (Some(false), Some("main")));
        assert_eq!(event.payload, Payload::SystemEvent { text: "x".into() });
        assert_eq!((event.session_target.as_str(), event.delivery), ("main", None));
        for name in [json!(""), json!(" \n")] {
            let named = hourly(json!({"name": name, "payload": {"message": "\n Feed it \nnow"}}));
            assert_eq!(add(named).unwrap().name, "Feed it");
        }
        let patch = changed(&json!({"message": "y", "sessionKey": " main "}));
        let turn = AgentTurn { message: "y".into(), ..AgentTurn::default() };
        let turn = TurnPatch { turn, ..TurnPatch::default() };
        assert_eq!(patch.payload, Some(PayloadPatch::AgentTurn(Box::new(turn))));
        assert_eq!(patch.session_key, Setting::Set("main".into()));
    }

    #[test]
    fn where_answers_go_is_read_where_older_releases_kept_it() {
        let announced = Delivery {
            mode: Some(DeliveryMode::Announce),
            channel: Some("telegram".into()),
            to: Some("7".into()),
            best_effort: Some(true),
            ..Delivery::default()
        };
        let silent = Delivery { mode: Some(DeliveryMode::None), ..Delivery::default() };
        let words = json!({"deliver": true, "channel": " Telegram", "to": "7",
            "bestEffortDeliver": true});
        let mut within = words.clone();
        within["message"] = "x".into();
        let own =
            json!({"mode": " Announce", "channel": "Telegram", "to": "7", "bestEffort": true});
        for (written, meant) in [
            (words, Some(&announced)),
            (json!({"payload": within}), Some(&announced)),
            (
                json!({"delivery": own, "payload": {"message": "x", "deliver": false}}),
                Some(&announced),
            ),
            (json!({"deliver": false}), Some(&silent)),
            (json!({"deliver": true}), None),
        ] {
            let job = add(hourly(written.clone())).unwrap();
            assert_eq!(job.delivery.as_ref(), meant, "{written}");
        }
        let patch = changed(&json!({"payload": {"deliver": false}}));
        assert_eq!(patch.delivery.map(|delivery| delivery.said), Some(silent));
        assert_eq!(patch.payload, Some(PayloadPatch::AgentTurn(Box::default())));
    }

    #[test]
    fn what_nobody_can_read_is_told_with_its_place() {
        for (written, told) in [
            (json!({"job": hourly(json!({"enabled": "maybe"}))}), "at /enabled: must be boolean"),
            (hourly(json!({"name": 5})), "at /name: must be string"),
            (
                hourly(json!({"timeoutSeconds": "soon"})),
                "at /payload/timeoutSeconds: must be number",
            ),
            (hourly(json!({"deliver": true, "to": 7})), "at root: unexpected property 'to'"),
            (hourly(json!({"wakeMode": "later"})), "at /wakeMode: must be equal to constant"),
            (
                hourly(json!({"delivery": {"to": "7"}})),
                "at /delivery: must have required property 'mode'",
            ),
            (hourly(json!({"delivery": null, "deliver": false})), "at /delivery: must be object"),
            (
                hourly(json!({"delivery": null, "channel": "telegram"})),
                "at /delivery: must be object",
            ),
            (hourly(json!({"payload": "x", "message": "y"})), "at /payload: must be object"),
            // Without the zone it would be another moment.
            (
                hourly(json!({"schedule": {"at": "2030-01-01T09:00", "tz": "Asia/Tokyo"}})),
                "at /schedule: unexpected property 'tz'",
            ),
        ] {
            let error = add(written.clone()).unwrap_err();
            assert!(error.contains(told), "{written}: {error}");
        }
    }

    #[test]
    fn a_later_client_takes_back_where_failures_go() {
        let update = |unknown| {
            let patch = json!({"delivery": {"failureDestination": null}});
            decode::<CronUpdateParams>("cron.update", json!({"id": "j", "patch": patch}), unknown)
        };
        let destination = Destination { to: Some("7".into()), ..Destination::default() };
        let mut delivery =
            Delivery { failure_destination: Some(destination), ..Delivery::default() };
        delivery.patch(update(Unknown::RefuseButNewer).unwrap().patch.delivery.unwrap());
        assert_eq!(delivery, Delivery::default());
        let refused = update(Unknown::Refuse).unwrap_err().message;
        assert!(
            refused.contains("/patch/delivery/failureDestination: must be object"),
            "{refused}"
        );
    }

    #[test]
    fn a_job_needs_an_id_by_one_of_its_names() {
        let refused = |method: &str| {
            let update = decode::<CronUpdateParams>(method, json!({}), Unknown::Refuse);
            update.unwrap_err().message
        };
        assert_eq!(
            refused("cron.update"),
            "invalid cron.update params: must have required property 'id'; must have required \
             property 'patch'; must have required property 'jobId'; must match a schema in anyOf"
        );
        let run = decode::<CronRunParams>("cron.run", json!({}), Unknown::Refuse).unwrap_err();
        assert_eq!(
            run.message,
            "invalid cron.run params: must have required property 'id'; must have required property \
             'jobId'; must match a schema in anyOf"
        );
    }

    #[test]
    fn what_is_kept_reads_back_as_it_was() {
        let job = add(json!({"name": "x", "schedule": {"kind": "cron", "expr": "0 9 * * 1-5",
            "tz": "Europe/Paris", "staggerMs": 5}, "sessionTarget": "isolated",
            "payload": {"kind": "agentTurn", "message": "m", "timeoutSeconds": 1.5,
                "toolsAllow": ["read"]},
            "delivery": {"mode": "webhook", "to": "http://x/", "threadId": 7},
            "failureAlert": {"after": 2, "mode": "announce"}}))
        .unwrap();
        let round = |value: Value| value;
        assert_eq!(
            round(serde_json::to_value(&job.schedule).unwrap()),
            json!({"kind": "cron", "expr": "0 9 * * 1-5", "tz": "Europe/Paris", "staggerMs": 5})
        );
        let payload = serde_json::to_value(&job.payload).unwrap();
        assert_eq!(serde_json::from_value::<Payload>(payload).unwrap(), job.payload);
        let delivery = serde_json::to_value(&job.delivery).unwrap();
        assert_eq!(delivery, json!({"mode": "webhook", "to": "http://x/", "threadId": 7}));
        let alert = serde_json::to_value(&job.failure_alert).unwrap();
        assert_eq!(
            serde_json::from_value::<Option<FailureAlert>>(alert).unwrap(),
            job.failure_alert
        );
        let off = add(json!({"name": "x", "schedule": {"everyMs": 5}, "failureAlert": false,
            "payload": {"text": "x"}}));
        assert_eq!(off.unwrap().failure_alert, Some(FailureAlert::Off(false)));
    }
}
