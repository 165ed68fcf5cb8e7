use rusqlite::Connection;

use super::outbox::{add, counts, doubt, next, of_delivery, settle, waiting};
use super::*;
use crate::store::migrations::database;
use crate::support::json;

fn to(target: &str) -> OutboxAddress {
    OutboxAddress {
        channel: "webhook".into(),
        account: "default".into(),
        target: target.into(),
        thread: String::new(),
    }
}

fn part(delivery: &str, part: u32) -> NewPart {
    NewPart { delivery: delivery.into(), address: to("7"), part, body: "{}".into() }
}

fn settled(state: OutboxState, due_at: u64) -> OutboxSettled {
    OutboxSettled { state, message_id: Some("m".into()), error: None, due_at }
}

fn taken(database: &Connection, now: u64) -> Option<OutboxPart> {
    match next(database, &to("7"), now).unwrap() {
        OutboxNext::Send(part) => Some(*part),
        _ => None,
    }
}

#[test]
fn a_part_is_there_once_and_parts_go_in_order() {
    let database = database();
    let ids = add(&database, &[part("r", 0), part("r", 1)], 5).unwrap();
    assert_eq!(add(&database, &[part("r", 0), part("r", 1)], 6).unwrap(), ids);
    let first = taken(&database, 7).unwrap();
    assert_eq!((first.id, first.part, first.attempts), (ids[0], 0, 1));
    // Nobody overtakes the one that is being sent.
    assert_eq!(next(&database, &to("7"), 7).unwrap(), OutboxNext::Nothing);
    settle(&database, ids[0], &settled(OutboxState::Waiting, 50), 8).unwrap();
    assert_eq!(next(&database, &to("7"), 9).unwrap(), OutboxNext::Wait(50));
    assert_eq!(taken(&database, 50).unwrap().attempts, 2);
    settle(&database, ids[0], &settled(OutboxState::Sent, 0), 51).unwrap();
    assert_eq!(taken(&database, 52).unwrap().part, 1);
    settle(&database, ids[1], &settled(OutboxState::Failed, 0), 53).unwrap();
    assert_eq!(next(&database, &to("7"), 54).unwrap(), OutboxNext::Nothing);
    let states: Vec<_> =
        of_delivery(&database, "r").unwrap().iter().map(|part| part.state).collect();
    assert_eq!(states, [OutboxState::Sent, OutboxState::Failed]);
    let counted = counts(&database, "webhook", "default").unwrap();
    assert_eq!(counted, OutboxCounts { waiting: 0, uncertain: 0, failed: 1 });
}

#[test]
fn what_was_being_sent_at_a_crash_is_uncertain_and_not_sent_again() {
    let database = database();
    add(&database, &[part("r", 0), part("r", 1)], 5).unwrap();
    taken(&database, 6).unwrap();
    assert_eq!(doubt(&database, 7).unwrap(), 1);
    assert_eq!(waiting(&database).unwrap(), [to("7")]);
    assert_eq!(taken(&database, 8).unwrap().part, 1);
    let first = &of_delivery(&database, "r").unwrap()[0];
    assert_eq!(first.state, OutboxState::Uncertain);
}

#[test]
fn an_edit_that_a_crash_cut_off_is_made_again_and_no_text_passes_for_one() {
    for (body, is_again) in [
        (json!({"text": "x", "edits": "5"}), true),
        (json!({"text": "\"edits\":\"5\""}), false),
        (json!({"text": "edits"}), false),
    ] {
        let database = database();
        add(&database, &[NewPart { body: body.to_string(), ..part("r", 0) }], 5).unwrap();
        assert!(!taken(&database, 6).unwrap().was_cut_off());
        assert_eq!(doubt(&database, 7).unwrap(), usize::from(!is_again), "{body}");
        let again = taken(&database, 8);
        let was_cut_off = again.as_ref().map(OutboxPart::was_cut_off);
        assert_eq!(was_cut_off, is_again.then_some(true), "{body}");
        let Some(again) = again else { continue };
        // The service wants it later; that says nothing of the first try.
        let later = OutboxSettled {
            state: OutboxState::Waiting,
            message_id: None,
            error: Some("busy".into()),
            due_at: 9,
        };
        settle(&database, again.id, &later, 8).unwrap();
        assert!(taken(&database, 9).unwrap().was_cut_off());
        settle(&database, again.id, &OutboxSettled { state: OutboxState::Failed, ..later }, 9)
            .unwrap();
        let error = of_delivery(&database, "r").unwrap().remove(0).error;
        assert_eq!(error.as_deref(), Some("busy"));
    }
}

#[test]
fn a_reply_is_put_into_the_outbox_once() {
    let database = database();
    let reply = ExpectedReply {
        run_id: "r".into(),
        scope: "chat".into(),
        session_key: "agent:main:main".into(),
        address: to("7"),
        reply_to: Some("9".into()),
        preview: None,
        created_at: 3,
    };
    assert!(replies::expect(&database, &reply).unwrap());
    assert!(!replies::expect(&database, &reply).unwrap());
    replies::set_preview(&database, "r", "44").unwrap();
    let open = replies::all(&database).unwrap();
    assert_eq!(open, [ExpectedReply { preview: Some("44".into()), ..reply }]);
    assert_eq!(replies::of_run(&database, "r").unwrap().as_ref(), open.first());
    assert_eq!(replies::of_run(&database, "s").unwrap(), None);
    assert!(replies::settle(&database, ("r", None), &[part("r", 0)], 4).unwrap());
    assert!(!replies::settle(&database, ("r", None), &[part("r", 1)], 5).unwrap());
    assert_eq!(of_delivery(&database, "r").unwrap().len(), 1);
}

#[test]
fn a_reply_of_a_later_run_of_a_key_is_settled_by_none_before_it() {
    let database = database();
    let reply = ExpectedReply {
        run_id: "r".into(),
        scope: "chat".into(),
        session_key: "agent:main:main".into(),
        address: to("7"),
        reply_to: None,
        preview: None,
        created_at: 3,
    };
    let has_run = |scope: &str, state: &str, at: i64| {
        database
            .execute(
                "INSERT OR REPLACE INTO runs (scope, key, run_id, session_key, state, created_at)
                 VALUES (?1, 'r', 'r', 'agent:main:main', ?2, ?3)",
                rusqlite::params![scope, state, at],
            )
            .unwrap();
    };
    for (scope, state, at, is_settled) in [
        ("chat", "active", 5, true),
        ("chat", "active", 6, false),
        ("chat", "done", 6, false),
        // Of one that was stopped nobody waits for an answer.
        ("chat", "aborted", 6, true),
        ("agent", "active", 6, true),
    ] {
        database.execute("DELETE FROM runs", []).unwrap();
        replies::expect(&database, &reply).unwrap();
        has_run(scope, state, at);
        let settled = replies::settle(&database, ("r", Some(5)), &[], 7).unwrap();
        assert_eq!(settled, is_settled, "{scope} {state} {at}");
    }
}

fn asks(person: &str, code: &str, at: u64) -> PairingRequest {
    PairingRequest {
        channel: "webhook".into(),
        account: "default".into(),
        person: person.into(),
        name: None,
        code: code.into(),
        created_at: at,
    }
}

#[test]
fn a_code_holds_for_an_hour_and_few_wait_at_a_time() {
    let (database, hour) = (database(), 60 * 60 * 1000);
    let claim = |person, code, at| people::claim(&database, &asks(person, code, at)).unwrap();
    assert_eq!(claim("1", "A", 0), PairingClaim::New("A".into()));
    assert_eq!(claim("1", "B", 5), PairingClaim::Known("A".into()));
    assert_eq!(claim("2", "B", 5), PairingClaim::New("B".into()));
    assert_eq!(claim("3", "C", 5), PairingClaim::New("C".into()));
    assert_eq!(claim("4", "D", 5), PairingClaim::Full);
    assert_eq!(claim("1", "E", hour + 1), PairingClaim::New("E".into()));
    let late = people::resolve(&database, ("webhook", "B"), true, hour + 6).unwrap();
    assert_eq!(late, None);
    assert_eq!(people::requests(&database, hour + 6).unwrap().len(), 1);
    assert!(people::resolve(&database, ("telegram", "E"), true, hour + 6).unwrap().is_none());
    let approved = people::resolve(&database, ("webhook", "E"), true, hour + 6).unwrap();
    assert_eq!(approved.unwrap().person, "1");
    assert!(people::is_known(&database, ("webhook", "default", "1")).unwrap());
    assert!(!people::is_known(&database, ("webhook", "other", "1")).unwrap());
    assert!(people::resolve(&database, ("webhook", "E"), true, hour + 7).unwrap().is_none());
    assert!(people::remove(&database, ("webhook", "default", "1")).unwrap());
    assert!(!people::is_known(&database, ("webhook", "default", "1")).unwrap());
}
