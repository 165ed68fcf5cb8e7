//! The page of cron jobs.

use serde_json::json;

use super::Place;
use crate::stage::{admin, call};

#[tokio::test]
async fn a_job_is_made_run_changed_switched_copied_and_removed_on_its_page() {
    let place = Place::new().await;
    let seen = place.visit("cron", json!({})).await;
    assert_eq!(seen.told["ran"], false, "a job that is off is not due");
    assert_eq!(seen.told["jobs"], json!(["Evening brief copy"]));
    let run = seen.told["run"].as_str().unwrap();
    for part in ["Morning brief", "OK", "mock-1", "mock", "tokens", "Open run chat"] {
        assert!(run.contains(part), "no {part} in {run}");
    }
    seen.check_calls(&["cron.add", "cron.run", "cron.runs", "cron.status", "cron.update"]);
    let list = call(&mut admin(&place.gateway).await, "cron.list", json!({})).await;
    let jobs = list["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 1, "{list}");
    assert_eq!(jobs[0]["name"], "Evening brief copy");
    assert_eq!(jobs[0]["enabled"], true);
    assert_eq!(jobs[0]["schedule"]["kind"], "cron");
    assert_eq!(jobs[0]["schedule"]["expr"], "0 18 * * *");
    assert_eq!(jobs[0]["payload"]["message"], "Say what is new");
    assert_eq!(jobs[0]["delivery"]["mode"], "announce");
    assert_eq!(jobs[0]["delivery"].get("accountId"), None, "an empty field says nothing");
}
