use super::*;
use crate::providers::testing::model;
use crate::providers::{ErrorStyle, ProviderErrorKind as Kind, text_for_people};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

fn status(status: u16, message: &str) -> ProviderError {
    let body = crate::support::json!({"error": {"message": message}}).to_string();
    ProviderError::from_status(ErrorStyle::OpenAi, status, &body)
}

fn named(id: &str) -> ModelInfo {
    ModelInfo { id: id.into(), ..model("openai-completions") }
}

fn cooldowns() -> Cooldowns {
    Cooldowns::new(CooldownConfig::default())
}

/// A call fails at once.
fn failed(all: &Cooldowns, id: &str, model: &ModelInfo, error: &ProviderError, now_ms: u64) {
    all.failed(id, model, error, now_ms, now_ms);
}

#[test]
fn rests_grow_with_each_failure_and_end_with_success() {
    let (all, model) = (cooldowns(), named("m"));
    let mut now = 1000;
    for minutes in [1, 5, 25, 60, 60] {
        failed(&all, "p", &model, &status(429, "slow down"), now);
        let rest = all.rest("p", &model, now).unwrap();
        assert_eq!(rest.until_ms - now, minutes * MINUTE);
        assert_eq!(all.rest("p", &model, rest.until_ms), None);
        now = rest.until_ms;
    }
    all.succeeded("p", &model, now);
    failed(&all, "p", &model, &status(429, "slow down"), now);
    assert_eq!(all.rest("p", &model, now).unwrap().until_ms - now, MINUTE);
}

#[test]
fn calls_that_fail_together_are_one_failure() {
    let (all, model, error) = (cooldowns(), named("m"), status(500, "x"));
    for ended in [2000, 2100, 2 * MINUTE] {
        all.failed("p", &model, &error, 1000, ended);
        assert_eq!(all.rest("p", &model, 2000).unwrap().until_ms, 2000 + MINUTE);
    }
    // Nobody else could be asked.
    failed(&all, "p", &model, &error, 3000);
    assert_eq!(all.rest("p", &model, 2000).unwrap().until_ms, 2000 + MINUTE);
    let asked = ProviderError { retry_after: Some(Duration::from_mins(2)), ..error.clone() };
    failed(&all, "p", &model, &asked, 4000);
    assert_eq!(all.rest("p", &model, 2000).unwrap().until_ms, 4000 + 2 * MINUTE);
    let now = 4000 + 2 * MINUTE;
    failed(&all, "p", &model, &error, now);
    assert_eq!(all.rest("p", &model, now).unwrap().until_ms, now + 5 * MINUTE);
}

#[test]
fn a_model_that_a_key_may_not_use_leaves_the_others_alone() {
    let may_not = [
        "Project `p` does not have access to model `one`",
        "Your API key does not have permission to use the specified resource.",
    ];
    for message in may_not {
        let (all, one, other) = (cooldowns(), named("one"), named("other"));
        failed(&all, "p", &one, &status(403, message), 0);
        assert_eq!(all.rest("p", &one, 1).unwrap().reason, FailureReason::Auth);
        assert_eq!(all.rest("p", &other, 1), None, "{message}");
    }
    let bad = [
        "Your API key was reported as leaked. Please use another API key.",
        "Method doesn't allow unregistered callers. Please use API Key to call this API.",
        "This account has been disabled",
    ];
    for message in bad {
        let (all, one, other) = (cooldowns(), named("one"), named("other"));
        failed(&all, "p", &one, &status(403, message), 0);
        assert!(all.rest("p", &other, 1).is_some(), "{message}");
    }
}

#[test]
fn a_day_without_failure_is_a_new_beginning() {
    let (all, model) = (cooldowns(), named("m"));
    failed(&all, "p", &model, &status(500, "x"), 0);
    failed(&all, "p", &model, &status(500, "x"), 25 * HOUR);
    assert_eq!(all.rest("p", &model, 25 * HOUR).unwrap().until_ms, 25 * HOUR + MINUTE);
}

#[test]
fn a_rate_limit_concerns_one_model_and_a_refused_key_all() {
    let (all, one, other) = (cooldowns(), named("one"), named("other"));
    failed(&all, "p", &one, &status(429, "slow down"), 0);
    assert!(all.rest("p", &one, 1).is_some());
    assert_eq!(all.rest("p", &other, 1), None);
    failed(&all, "p", &one, &status(401, "bad key"), 0);
    assert_eq!(all.rest("p", &other, 1).unwrap().reason, FailureReason::Auth);
    assert_eq!(all.rest("q", &other, 1), None);
}

#[test]
fn an_account_without_credit_rests_for_hours() {
    let (all, model) = (cooldowns(), named("m"));
    let mut now = 0;
    for hours in [5, 10, 20, 24] {
        failed(&all, "p", &model, &status(429, "You exceeded your current quota"), now);
        let rest = all.longest("p", now).unwrap();
        assert_eq!((rest.until_ms - now, rest.reason), (hours * HOUR, FailureReason::Billing));
        now = rest.until_ms;
    }
    assert_eq!(FailureReason::of(&status(402, "x")), FailureReason::Billing);
}

#[test]
fn what_one_request_did_wrong_makes_no_credential_rest() {
    let (all, model) = (cooldowns(), named("m"));
    let too_long = status(400, "maximum context length is 10 tokens");
    let refused = ProviderError::new(Kind::Refusal, "no");
    for error in [
        status(400, "orphan tool result"),
        status(422, "x"),
        status(404, "x"),
        too_long,
        refused,
        ProviderError::new(Kind::Protocol, "html"),
    ] {
        failed(&all, "p", &model, &error, 0);
        assert_eq!(all.longest("p", 1), None, "{error:?}");
    }
}

#[test]
fn the_wait_that_a_provider_asks_for_is_kept() {
    let (all, model) = (cooldowns(), named("m"));
    let mut error = status(429, "slow down");
    error.retry_after = Some(Duration::from_mins(10));
    failed(&all, "p", &model, &error, 0);
    assert_eq!(all.rest("p", &model, 1).unwrap().until_ms, 10 * MINUTE);
}

/// What Google and Groq say of a limit per minute.
fn throttled() -> [ProviderError; 2] {
    let message = "You exceeded your current quota, please check your plan and billing details. \
        * Quota exceeded for metric: generate_content_free_tier_requests, limit: 20\n\
        Please retry in 38.9s.";
    let google = crate::support::json!({
        "error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED"},
    });
    let groq = "Rate limit reached for model `m` on tokens per minute (TPM): Limit 6000, \
        Used 5000, Requested 2000. Please try again in 7.66s. Need more tokens? Upgrade to Dev \
        Tier today at https://console.groq.com/settings/billing";
    [ProviderError::from_status(ErrorStyle::Google, 429, &google.to_string()), status(429, groq)]
}

#[test]
fn a_limit_per_minute_is_not_taken_for_an_account_without_credit() {
    for error in throttled() {
        let (all, one, other) = (cooldowns(), named("one"), named("other"));
        failed(&all, "p", &one, &error, 0);
        let rest = Rest { until_ms: MINUTE, reason: FailureReason::RateLimit };
        assert_eq!(all.rest("p", &one, 1), Some(rest), "{error}");
        assert_eq!(all.rest("p", &other, 1), None, "{error}");
        assert!(error.may_pass(), "{error}");
        let told = text_for_people(&error.message, error.wire_kind());
        assert!(told.contains("rate limit reached"), "{told}");
    }
}

#[test]
fn reasons_are_told_apart() {
    let no_credit = "Your credit balance is too low to access the Anthropic API. Please go to \
        Plans & Billing to upgrade or purchase credits.";
    let refused = crate::support::json!({
        "type": "error", "error": {"type": "invalid_request_error", "message": no_credit},
    });
    let refused = ProviderError::from_status(ErrorStyle::Anthropic, 400, &refused.to_string());
    let no_quota = "You exceeded your current quota, please check your plan and billing details. \
        For more information on this error, read the docs.";
    let [google, groq] = throttled();
    for (error, reason) in [
        (google, "rate_limit"),
        (groq, "rate_limit"),
        (refused, "billing"),
        (status(429, no_quota), "billing"),
        (status(400, "orphan tool result"), "format"),
        (status(401, "x"), "auth"),
        (status(403, "x"), "auth"),
        (status(403, "Your credit balance is too low"), "billing"),
        (status(429, "x"), "rate_limit"),
        (status(529, "x"), "overloaded"),
        (status(500, "x"), "timeout"),
        (status(404, "x"), "model_not_found"),
        (status(400, "x"), "format"),
        (ProviderError::cut(), "timeout"),
        (ProviderError::no_api_key("p"), "auth"),
    ] {
        assert_eq!(FailureReason::of(&error).as_str(), reason, "{error:?}");
    }
}

/// What the store would hold after these changes.
fn stored(all: &Cooldowns) -> Vec<CooldownRow> {
    let mut rows = HashMap::new();
    if !all.begins_storing() {
        return Vec::new();
    }
    while let Some(changes) = all.changes() {
        for change in changes {
            match change {
                CooldownChange::Set(row) => {
                    rows.insert((row.credential.clone(), row.model.clone()), row);
                }
                CooldownChange::Remove(credential, model) => {
                    rows.remove(&(credential, model));
                }
            }
        }
    }
    rows.into_values().collect()
}

#[test]
fn what_rests_goes_on_resting_in_another_process_and_grows_from_there() {
    let (all, model) = (cooldowns(), named("m"));
    failed(&all, "p", &model, &status(429, "slow down"), 0);
    failed(&all, "p", &model, &status(429, "slow down"), MINUTE);
    failed(&all, "q", &model, &status(401, "bad key"), MINUTE);
    let again = cooldowns();
    let now = MINUTE + 1000;
    again.recall(stored(&all), now);
    assert!(!again.begins_storing());
    assert_eq!(again.rest("p", &model, now), all.rest("p", &model, now));
    assert_eq!(again.rest("q", &named("x"), now).unwrap().reason, FailureReason::Auth);
    failed(&again, "p", &model, &status(429, "slow down"), 6 * MINUTE);
    assert_eq!(again.rest("p", &model, now).unwrap().until_ms, 31 * MINUTE);
    // Nothing is known any more of what is long over.
    let late = cooldowns();
    late.recall(stored(&again), 30 * HOUR);
    assert_eq!(late.longest("p", 0), None);
    assert!(late.begins_storing(), "it is to be removed");
}

#[test]
fn a_success_is_stored_only_when_it_ends_something() {
    let (all, model) = (cooldowns(), named("m"));
    all.succeeded("p", &model, 1);
    failed(&all, "q", &model, &status(500, "x"), 1);
    assert_eq!(stored(&all).len(), 1);
    all.succeeded("p", &model, 2);
    assert!(!all.begins_storing());
    all.succeeded("q", &model, 3);
    assert!(all.begins_storing());
    let removed = CooldownChange::Remove("q".into(), Some("m".into()));
    assert_eq!(all.changes(), Some(vec![removed]));
    // Somebody is at it, so nobody else begins.
    failed(&all, "q", &model, &status(500, "x"), 4);
    assert!(!all.begins_storing());
    assert_eq!(all.changes().unwrap().len(), 1);
    assert_eq!(all.changes(), None);
}

#[test]
fn what_could_not_be_stored_is_the_next_time_as_it_is_by_then() {
    let (all, model) = (cooldowns(), named("m"));
    for id in ["p", "q"] {
        failed(&all, id, &model, &status(500, "x"), 1);
    }
    assert!(all.begins_storing());
    let changes = all.changes().unwrap();
    all.succeeded("q", &model, 2);
    assert!(!all.begins_storing());
    all.not_stored(changes);
    let rows: Vec<_> = stored(&all).into_iter().map(|row| row.credential).collect();
    assert_eq!(rows, ["p"]);
    assert!(!all.begins_storing());
}

#[test]
fn what_another_program_noted_counts_until_a_call_goes_well() {
    let model = named("m");
    let rest = Rest { until_ms: HOUR, reason: FailureReason::Billing };
    let noted = [ProfileRest { profile: "p".into(), model: None, failures: 2, failed_at: 5, rest }];
    let all = cooldowns();
    all.take_over(&noted, 10);
    assert_eq!(all.rest("p", &model, 10), Some(rest));
    all.succeeded("p", &model, 20);
    assert_eq!(all.rest("p", &model, 20), None);
    let again = cooldowns();
    let stored_rows = stored(&all);
    again.recall(stored_rows.clone(), 30);
    again.take_over(&noted, 30);
    assert_eq!(again.rest("p", &model, 30), None, "its note is older than our success");
    let other_way_round = cooldowns();
    other_way_round.take_over(&noted, 30);
    other_way_round.recall(stored_rows, 30);
    assert_eq!(other_way_round.rest("p", &model, 30), None);
    again.take_over(&[ProfileRest { failed_at: 40, ..noted[0].clone() }], 50);
    assert_eq!(again.rest("p", &model, 50), Some(rest), "it failed there again");
}
