//! That failures of the Control UI are seen, whichever way they show.

use serde_json::json;

use super::Place;

#[tokio::test]
async fn refused_requests_shown_errors_and_missing_files_are_seen() {
    let place = Place::new().await;
    let seen = place.look("failures", json!({})).await;
    let text = "invalid sessions.resolve params: at /key: must be string";
    seen.check_refused(&[("sessions.resolve", text)]);
    assert_eq!(seen.refused.len(), 1);
    assert!(seen.complaints[0].contains(text), "{:?}", seen.complaints);
    assert_eq!(seen.errors, ["a script complains", "Error: a script fails"]);
    assert_eq!(seen.http, ["404 /missing.png"]);
    let checks: [fn(&super::Seen); 2] = [super::Seen::check, |seen| seen.check_refused(&[])];
    for check in checks {
        let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&seen)));
        assert!(verdict.is_err(), "{seen:?}");
    }
}
