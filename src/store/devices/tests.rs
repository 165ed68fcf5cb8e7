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

#[test]
fn a_setup_code_is_good_once_and_not_for_ever() {
    let c = database();
    let code = |hash: &str, expires_at_ms| SetupCode {
        hash: hash.into(),
        grant: "{}".into(),
        issued_by: "x".into(),
        expires_at_ms,
    };
    assert!(sql::add_code(&c, &code("a", 10), 0).unwrap());
    assert_eq!(sql::take_code(&c, "a", 10).unwrap(), None, "too late");
    assert_eq!(sql::code(&c, "a", 9).unwrap(), Some(code("a", 10)));
    assert_eq!(sql::take_code(&c, "a", 9).unwrap(), Some(code("a", 10)));
    assert_eq!(sql::take_code(&c, "a", 9).unwrap(), None, "used");
    for number in 0..MAX_SETUP_CODES {
        assert!(sql::add_code(&c, &code(&number.to_string(), 20), 0).unwrap());
    }
    assert!(!sql::add_code(&c, &code("more", 20), 0).unwrap());
    assert!(sql::add_code(&c, &code("more", 30), 20).unwrap(), "the others are over");
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
