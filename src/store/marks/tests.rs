use rusqlite::Connection;

use super::*;
use crate::store::migrations::database;
use crate::store::{NewSession, SessionEntry, Teller, TranscriptFacts, notices, sessions};

fn add(connection: &Connection, name: &str, user_at: u64, messages: u64) -> String {
    let key = format!("agent:main:{name}");
    let transcript = TranscriptFacts { message_count: messages, ..TranscriptFacts::default() };
    let entry = SessionEntry {
        session_id: name.into(),
        updated_at: 5,
        last_interaction_at: Some(user_at),
        transcript,
        ..SessionEntry::default()
    };
    let new = NewSession { key: key.clone(), agent: "main".into(), entry };
    sessions::create_if_absent(connection, new).unwrap();
    key
}

fn ids(overview: &Overview) -> Vec<&str> {
    overview.rows.iter().map(|row| row.row.entry.session_id.as_str()).collect()
}

#[test]
fn pages_follow_the_last_word_of_a_person_and_a_session_that_moves_is_on_one_of_them_only() {
    let c = database();
    for (name, at) in [("a", 10), ("b", 30), ("c", 30), ("d", 20), ("e", 5)] {
        add(&c, name, at, 1);
    }
    add(&c, "empty", 40, 0);
    let query =
        OverviewQuery { limit: 2, hides_empty_but: Some(Vec::new()), ..OverviewQuery::default() };
    let first = overview::list(&c, &query).unwrap();
    assert_eq!((ids(&first), first.total), (vec!["c", "b"], 5));
    // Somebody speaks in a session that was shown, and in one that was not.
    for key in ["agent:main:b", "agent:main:e"] {
        sessions::update(&c, key, |entry| entry.last_interaction_at = Some(50)).unwrap();
    }
    let after = Some(OverviewPlace { user_at: 30, session_id: "b".into() });
    let second = overview::list(&c, &OverviewQuery { after, ..query.clone() }).unwrap();
    assert_eq!(ids(&second), ["d", "a"]);
    let spared = Some(vec!["agent:main:empty".to_owned()]);
    let all = OverviewQuery { limit: 9, hides_empty_but: spared, ..query };
    assert_eq!(ids(&overview::list(&c, &all).unwrap()), ["e", "b", "empty", "c", "d", "a"]);
}

#[test]
fn results_are_read_when_somebody_looks_and_new_again_with_the_next() {
    let c = database();
    let key = add(&c, "a", 1, 0);
    assert!(!sql::mark_read(&c, &key, 3).unwrap());
    sql::add_result(&c, &key).unwrap();
    sql::add_result(&c, &key).unwrap();
    assert!(sql::mark_read(&c, &key, 9).unwrap());
    sql::add_result(&c, &key).unwrap();
    let marks = sql::get(&c, &key).unwrap();
    assert_eq!((marks.results, marks.read, marks.seen_at), (3, 2, 9));
    let new = OverviewQuery { limit: 9, hides_empty_but: Some(vec![]), ..Default::default() };
    assert_eq!(ids(&overview::list(&c, &new).unwrap()), ["a"], "something is new in it");
}

#[test]
fn what_was_put_away_is_a_transcript_and_not_a_key() {
    let c = database();
    let key = add(&c, "a", 1, 1);
    sql::archive(&c, &key, Some("a")).unwrap();
    let of = |filter| {
        let query = OverviewQuery { filter, limit: 9, ..OverviewQuery::default() };
        overview::list(&c, &query).unwrap().rows.len()
    };
    let count =
        || (of(OverviewFilter::All), of(OverviewFilter::Active), of(OverviewFilter::Archived));
    assert_eq!(count(), (1, 0, 1));
    sessions::update(&c, &key, |entry| entry.session_id = "b".into()).unwrap();
    assert_eq!(count(), (1, 1, 0));
}

#[test]
fn a_link_ends_with_its_transcript_with_the_session_and_when_there_are_too_many() {
    let c = database();
    let key = add(&c, "a", 1, 1);
    let hash = |n: usize| format!("{n:016}{:048}", 7);
    let share = |n: usize, id: &str| SessionShare { token_hash: hash(n), session_id: id.into() };
    let has = |n: usize| shares::find(&c, &hash(n)).unwrap().is_some();
    for n in 0..=MAX_SHARES {
        shares::add(&c, &share(n, "a"), 1).unwrap();
    }
    assert!(!has(0) && has(1) && has(MAX_SHARES));
    sessions::update(&c, &key, |entry| entry.session_id = "b".into()).unwrap();
    assert!(!has(1) && !has(MAX_SHARES), "it was of the transcript before");
    shares::add(&c, &share(20, "b"), 1).unwrap();
    sessions::delete(&c, &key).unwrap();
    assert!(!has(20));
    for n in 1..3 {
        shares::add(&c, &share(n, "c"), 1).unwrap();
    }
    assert_eq!((shares::revoke_all(&c).unwrap(), has(1), has(2)), (2, false, false));
    assert_eq!(sql::get(&c, &key).unwrap(), SessionMarks::default());
}

#[test]
fn a_session_with_another_key_keeps_its_marks_notices_and_links() {
    let c = database();
    let (key, taken) = (add(&c, "a", 1, 1), add(&c, "b", 2, 1));
    sql::add_result(&c, &key).unwrap();
    sql::archive(&c, &key, Some("a")).unwrap();
    notices::add(&c, &key, "waits", Teller::Owner).unwrap();
    let share = SessionShare { token_hash: format!("{:064}", 7), session_id: "a".into() };
    shares::add(&c, &share, 1).unwrap();
    let marks = sql::get(&c, &key).unwrap();
    let entry =
        SessionEntry { label: Some("Mine".into()), ..sessions::get(&c, &key).unwrap().unwrap() };
    let to = |key: &str| NewSession { key: key.into(), agent: "main".into(), entry: entry.clone() };
    assert!(!sessions::rename(&c, &key, &to(&taken)).unwrap(), "that key is another's");
    assert!(!sessions::rename(&c, "agent:main:none", &to("agent:main:x")).unwrap());
    let new = "agent:main:work";
    assert!(sessions::rename(&c, &key, &to(new)).unwrap());
    assert_eq!(sessions::get(&c, &key).unwrap(), None);
    assert_eq!(sessions::get(&c, new).unwrap(), Some(entry));
    let found = [key.as_str(), new].map(|key| sql::get(&c, key).unwrap());
    assert_eq!(found, [SessionMarks::default(), marks]);
    let waiting: Vec<_> =
        notices::list(&c).unwrap().into_iter().map(|it| (it.session_key, it.text)).collect();
    assert_eq!(waiting, [(new.to_owned(), "waits".to_owned())]);
    assert_eq!(shares::find(&c, &share.token_hash).unwrap(), Some(share));
}

#[test]
fn a_page_reads_no_more_sessions_than_it_shows() {
    let c = database();
    let sql = "EXPLAIN QUERY PLAN SELECT key FROM sessions
               ORDER BY user_at DESC, session_id DESC LIMIT 5";
    let plan: String = c.query_row(sql, [], |row| row.get(3)).unwrap();
    assert!(plan.contains("sessions_by_user"), "{plan}");
}
