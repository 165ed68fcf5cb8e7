//! What the rows promise.

use rusqlite::Connection;

use super::super::migrations::database;
use super::*;

fn pending(request_id: &str, ts: u64) -> PendingDevice {
    PendingDevice {
        request_id: request_id.into(),
        facts: DeviceFacts { role: "operator".into(), ..DeviceFacts::default() },
        silent: false,
        is_repair: false,
        ts,
    }
}

fn paired() -> PairedDevice {
    let token = DeviceToken {
        hash: "h".into(),
        salt: Some("s".into()),
        scopes: vec!["operator.read".into()],
        created_at_ms: 1,
        rotated_at_ms: None,
        revoked_at_ms: Some(3),
        last_used_at_ms: None,
    };
    PairedDevice {
        facts: DeviceFacts { platform: Some("linux".into()), ..DeviceFacts::default() },
        tokens: [("operator".to_owned(), token)].into(),
        created_at_ms: 1,
        approved_at_ms: 2,
    }
}

fn ask(c: &Connection, id: &str, since: u64, request: PendingDevice) -> bool {
    sql::edit(c, id.into(), since, Box::new(move |row| row.pending = Some(request))).unwrap()
}

#[test]
fn a_device_comes_back_as_it_was_and_is_forgotten_with_the_last_that_is_known() {
    let c = database();
    assert!(sql::edit(&c, "d".into(), 0, Box::new(|row| row.paired = Some(paired()))).unwrap());
    assert!(ask(&c, "d", 0, pending("r", 5)));
    let expected =
        DeviceRow { device_id: "d".into(), paired: Some(paired()), pending: Some(pending("r", 5)) };
    assert_eq!(sql::by_request(&c, "r", 5).unwrap(), Some(expected.clone()));
    assert_eq!(sql::all(&c, 0).unwrap(), [expected]);
    let clear = |row: &mut DeviceRow| (row.paired, row.pending) = (None, None);
    assert!(sql::edit(&c, "d".into(), 0, Box::new(clear)).unwrap());
    assert_eq!(sql::by_id(&c, "d", 0).unwrap(), None);
}

#[test]
fn a_request_goes_away_with_its_time_and_makes_room() {
    let c = database();
    for number in 0..MAX_PENDING {
        assert!(ask(&c, &format!("d{number}"), 0, pending(&format!("r{number}"), 5)));
    }
    assert!(!ask(&c, "more", 5, pending("more", 9)), "there is no room");
    assert!(ask(&c, "d0", 5, pending("again", 9)), "who waits may ask anew");
    assert_eq!(sql::by_request(&c, "r1", 6).unwrap(), None);
    assert!(ask(&c, "more", 6, pending("more", 9)), "the others are too old");
    assert_eq!(sql::all(&c, 6).unwrap().len(), 2);
}

fn code(hash: &str, expires_at_ms: u64) -> SetupCode {
    SetupCode {
        hash: hash.into(),
        grant: "{}".into(),
        issued_by: "x".into(),
        expires_at_ms,
        taken_by: None,
    }
}

#[test]
fn a_setup_code_is_changed_together_with_its_device_and_is_not_good_for_ever() {
    let c = database();
    let uses = |id: &str, now_ms, note: &'static str| {
        let change = move |row: &mut DeviceRow, code: &SetupCode| {
            row.paired = Some(paired());
            code.taken_by.is_none().then(|| note.to_owned())
        };
        assert!(sql::use_code(&c, ("a", now_ms), (id.into(), 0), Box::new(change)).unwrap());
        sql::by_id(&c, id, 0).unwrap().is_some()
    };
    assert!(sql::add_code(&c, &code("a", 10), 0).unwrap());
    assert!(!uses("late", 10, "late"));
    assert_eq!(sql::code(&c, "a", 9).unwrap(), Some(code("a", 10)));
    assert!(uses("d", 9, "d"));
    assert!(uses("e", 9, "e"));
    let taken = Some(SetupCode { taken_by: Some("d".into()), ..code("a", 10) });
    assert_eq!(sql::code(&c, "a", 9).unwrap(), taken, "it was seen by the second");
    for number in 0..MAX_SETUP_CODES {
        assert!(sql::add_code(&c, &code(&number.to_string(), 20), 0).unwrap());
    }
    assert!(!sql::add_code(&c, &code("more", 20), 0).unwrap());
    assert!(sql::add_code(&c, &code("more", 30), 20).unwrap(), "the others are over");
}

#[test]
fn codes_that_were_used_are_cleared_as_well_and_not_counted() {
    let c = database();
    for hash in ["a", "b"] {
        assert!(sql::add_code(&c, &code(hash, 10), 0).unwrap());
    }
    let take = |_: &mut DeviceRow, _: &SetupCode| Some("x".to_owned());
    assert!(sql::use_code(&c, ("a", 1), ("d".into(), 0), Box::new(take)).unwrap());
    assert_eq!(sql::clear_codes(&c, 1).unwrap(), 1);
    assert_eq!(sql::code(&c, "a", 1).unwrap(), None);
}

#[test]
fn a_device_that_is_removed_is_no_node_any_more() {
    let c = database();
    let nodes = || {
        let count = |table: &str| format!("SELECT COUNT(*) FROM {table} WHERE node_id = 'd'");
        ["nodes", "node_pairs", "node_work"]
            .map(|table| c.query_row(&count(table), [], |row| row.get::<_, i64>(0)).unwrap())
    };
    c.execute_batch(
        "INSERT INTO nodes (node_id) VALUES ('d');
         INSERT INTO node_pairs (node_id, facts, token_hash, created_at, approved_at)
         VALUES ('d', '{}', 'h', 1, 1);
         INSERT INTO node_work (node_id, id, kind, body, created_at)
         VALUES ('d', 'w', 'work', '{}', 1);",
    )
    .unwrap();
    assert!(sql::edit(&c, "d".into(), 0, Box::new(|row| row.paired = Some(paired()))).unwrap());
    assert_eq!(nodes(), [1, 1, 1]);
    assert!(sql::edit(&c, "d".into(), 0, Box::new(|row| row.paired = None)).unwrap());
    assert_eq!(nodes(), [0, 0, 0]);
}

#[test]
fn devices_of_another_program_come_once_and_change_nothing() {
    let c = database();
    let row = |id: &str| DeviceRow { device_id: id.into(), paired: Some(paired()), pending: None };
    let mine = PairedDevice { created_at_ms: 77, ..paired() };
    let mine_too = mine.clone();
    sql::edit(&c, "a".into(), 0, Box::new(move |row| row.paired = Some(mine_too))).unwrap();
    assert_eq!(sql::import(&c, &[row("a"), row("b")], Some("m")).unwrap(), 1);
    assert_eq!(sql::by_id(&c, "a", 0).unwrap().unwrap().paired, Some(mine));
    assert!(sql::is_marked(&c, "m").unwrap());
    sql::edit(&c, "b".into(), 0, Box::new(|row| row.paired = None)).unwrap();
    assert_eq!(sql::import(&c, &[row("b")], Some("m")).unwrap(), 0, "who was removed stays away");
}
