use super::super::tail::{Tail, tail};
use super::*;

fn place(dir: &Path, max_bytes: u64) -> LogPlace {
    LogPlace { file: Some(dir.join("gateway.log")), dir: dir.to_owned(), max_bytes }
}

fn line(number: usize) -> String {
    format!("{{\"1\":\"line {number}\"}}\n")
}

fn numbers(tail: &Tail) -> Vec<usize> {
    let number = |line: &String| line.split("line ").nth(1)?.split('"').next()?.parse().ok();
    tail.lines.iter().filter_map(number).collect()
}

#[test]
fn who_follows_by_cursor_gets_each_line_once_over_rotation_and_restart() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path(), 4000);
    let mut writer = Writer::new(place.clone());
    let (mut cursor, mut seen, mut written) = (0, Vec::new(), 0);
    for round in 0..60 {
        for _ in 0..=(round % 7) {
            writer.write(&line(written), 1000).unwrap();
            written += 1;
        }
        if round % 11 == 0 {
            writer = Writer::new(place.clone());
        }
        if round % 3 == 0 {
            let found = tail(&place, Some(cursor), 5, 300, 1000).unwrap();
            assert!(!found.reset && !found.truncated, "{found:?}");
            seen.extend(numbers(&found));
            cursor = found.cursor;
        }
    }
    loop {
        let found = tail(&place, Some(cursor), 5, 300, 1000).unwrap();
        if found.cursor == cursor {
            assert_eq!(found.cursor, found.size);
            break;
        }
        seen.extend(numbers(&found));
        cursor = found.cursor;
    }
    assert_eq!(seen, (0..written).collect::<Vec<_>>());
    assert!(std::fs::read_dir(dir.path()).unwrap().count() > 1, "it was not rotated");
}

#[test]
fn two_threads_that_write_and_follow_agree() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path(), 3000);
    let total = 120;
    let writing = place.clone();
    let thread = std::thread::spawn(move || {
        let mut writer = Writer::new(writing);
        for number in 0..total {
            writer.write(&line(number), 1000).unwrap();
        }
    });
    let (mut cursor, mut seen) = (0, Vec::new());
    while seen.len() < total {
        let found = tail(&place, Some(cursor), 1000, 100_000, 1000).unwrap();
        assert!(!found.reset, "after {seen:?}");
        seen.extend(numbers(&found));
        cursor = found.cursor;
    }
    thread.join().unwrap();
    assert_eq!(seen, (0..total).collect::<Vec<_>>());
}

#[test]
fn the_last_lines_come_without_a_cursor_and_what_is_cut_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path(), 100_000);
    let empty = tail(&place, None, 10, 1000, 1000).unwrap();
    assert_eq!((empty.cursor, empty.size, empty.lines.len()), (0, 0, 0));
    let mut writer = Writer::new(place.clone());
    for number in 0..10 {
        writer.write(&line(number), 1000).unwrap();
    }
    let all = tail(&place, None, 3, 100_000, 1000).unwrap();
    assert_eq!((numbers(&all), all.truncated, all.reset), (vec![7, 8, 9], false, false));
    assert_eq!(all.cursor, all.size);
    let size = line(9).len() as u64;
    let cut = tail(&place, None, 100, 2 * size + 3, 1000).unwrap();
    assert_eq!((numbers(&cut), cut.truncated), (vec![8, 9], true));
    let none = tail(&place, None, 100, size - 1, 1000).unwrap();
    assert_eq!((none.lines.len(), none.truncated, none.cursor), (0, true, all.size));
    let gone = tail(&place, Some(1_000_000), 2, 100_000, 1000).unwrap();
    assert_eq!((numbers(&gone), gone.reset), (vec![8, 9], true));
}

#[test]
fn a_line_that_is_being_written_waits_and_a_torn_one_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path(), 100_000);
    let path = place.current(1000);
    std::fs::write(&path, line(0) + "{\"1\":\"line 1").unwrap();
    let found = tail(&place, None, 10, 1000, 1000).unwrap();
    assert_eq!((numbers(&found), found.cursor), (vec![0], line(0).len() as u64));
    let mut writer = Writer::new(place.clone());
    writer.write(&line(2), 1000).unwrap();
    let rest = tail(&place, Some(found.cursor), 10, 1000, 1000).unwrap();
    assert_eq!(rest.lines.len(), 2, "{rest:?}");
    assert!(rest.lines[1].contains("line 2"));
}

#[test]
fn how_many_lines_the_disk_did_not_take_is_said_once_where_they_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    let place = place(&logs, 100_000);
    let mut writer = Writer::new(place.clone());
    // No folder can be there.
    std::fs::write(&logs, "").unwrap();
    for lines in [line(0), line(1) + &line(2)] {
        writer.write(&lines, 1000).unwrap_err();
    }
    std::fs::remove_file(&logs).unwrap();
    for number in 3..6 {
        writer.write(&line(number), 1000).unwrap();
    }
    let tail = tail(&place, None, 10, 10_000, 1000).unwrap();
    assert_eq!(numbers(&tail), [3, 4, 5]);
    let told = |line: &String| line.contains("3 lines were not logged: they could not be");
    let told: Vec<_> = tail.lines.iter().map(told).collect();
    let first = told.iter().position(|is_told| *is_told).unwrap();
    assert!(tail.lines[first + 1].contains("line 3"), "{tail:?}");
    assert_eq!(told.iter().filter(|is_told| **is_told).count(), 1, "{tail:?}");
}

#[test]
fn lines_that_were_too_many_at_once_are_told_of_also_when_the_disk_takes_none_then() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    let place = place(&logs, 100_000);
    let mut writer = Writer::new(place.clone());
    // No folder can be there.
    std::fs::write(&logs, "").unwrap();
    writer.miss(4);
    std::fs::remove_file(&logs).unwrap();
    writer.miss(3);
    writer.put(&line(0));
    writer.miss(0);
    let tail = tail(&place, None, 10, 10_000, 1000).unwrap();
    let told = tail.lines.iter().filter(|line| line.contains("were not logged"));
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 1, "{tail:?}");
    assert!(told[0].contains("7 lines were not logged: "), "{tail:?}");
    assert_eq!(numbers(&tail), [0]);
}

#[test]
fn a_file_that_somebody_removed_is_begun_anew() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path(), 100_000);
    let mut writer = Writer::new(place.clone());
    writer.write(&line(0), 1000).unwrap();
    std::fs::remove_file(place.current(1000)).unwrap();
    writer.write(&line(1), 1000).unwrap();
    assert_eq!(numbers(&tail(&place, None, 10, 10_000, 1000).unwrap()), [1]);
}

#[test]
fn a_file_that_somebody_emptied_goes_on_after_all_that_was_logged() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path(), 700);
    let mut writer = Writer::new(place.clone());
    let mut written = 0;
    while fs::read_dir(dir.path()).unwrap().count() < 3 {
        writer.write(&line(written), SystemClock.now_ms()).unwrap();
        written += 1;
    }
    let current = place.current(1000);
    let followed = tail(&place, None, 10, 10_000, 1000).unwrap();
    // As logrotate does it with copytruncate.
    fs::OpenOptions::new().write(true).truncate(true).open(&current).unwrap();
    let between = tail(&place, None, 1, 10_000, 1000).unwrap();
    assert!(between.cursor <= followed.cursor, "{between:?}");
    for number in [written, written + 1] {
        writer.write(&line(number), SystemClock.now_ms()).unwrap();
    }
    let new = [written, written + 1];
    let next = tail(&place, Some(followed.cursor), 10, 10_000, 1000).unwrap();
    assert_eq!((numbers(&next), next.reset), (new.to_vec(), false));
    assert_eq!(numbers(&tail(&place, None, 2, 10_000, 1000).unwrap()), new);
    let first = fs::read_to_string(&current).unwrap();
    assert!(first.lines().next().unwrap().contains("\"offset\""), "{first}");
}

#[test]
fn who_follows_a_file_that_somebody_puts_away_is_told_of_what_is_missing_only() {
    for empties in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path(), 100_000);
        let current = place.current(1000);
        let mut writer = Writer::new(place.clone());
        // As logrotate does it with copytruncate, and without.
        let put_away = || {
            if empties {
                fs::OpenOptions::new().write(true).truncate(true).open(&current).unwrap();
            } else {
                fs::rename(&current, dir.path().join("gateway.log.1")).unwrap();
            }
        };
        let follow = |cursor| tail(&place, Some(cursor), 10, 10_000, 1000).unwrap();
        writer.write(&line(0), 1000).unwrap();
        let read = tail(&place, None, 10, 10_000, 1000).unwrap();
        put_away();
        let between = follow(read.cursor);
        assert_eq!((between.cursor, between.size), (read.cursor, read.cursor), "{between:?}");
        assert!(!between.reset && between.lines.is_empty(), "{between:?}");
        writer.write(&line(1), 1000).unwrap();
        let next = follow(between.cursor);
        assert_eq!((numbers(&next), next.reset), (vec![1], false));
        // This time something goes with the file that he has not read.
        writer.write(&line(2), 1000).unwrap();
        put_away();
        assert!(!follow(next.cursor).reset);
        writer.write(&line(3), 1000).unwrap();
        let after = follow(next.cursor);
        assert_eq!((numbers(&after), after.reset), (vec![3], true));
    }
}

#[test]
fn only_so_many_files_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path(), 700);
    let mut writer = Writer::new(place.clone());
    for number in 0..400 {
        writer.write(&line(number), SystemClock.now_ms()).unwrap();
    }
    let files = std::fs::read_dir(dir.path()).unwrap().count();
    assert!(files <= KEPT_FILES + 2, "{files}");
    let week_later = SystemClock.now_ms() + (KEPT_SECONDS as u64 + 10) * 1000;
    writer.tidy(&place.current(0), week_later);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_new_day_is_a_new_file_and_the_cursor_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let place = LogPlace { file: None, dir: dir.path().join("logs"), max_bytes: 100_000 };
    let now = SystemClock.now_ms();
    let tomorrow = now + 36 * 3_600_000;
    let mut writer = Writer::new(place.clone());
    writer.write(&line(0), now).unwrap();
    let first = tail(&place, None, 10, 10_000, now).unwrap();
    writer.write(&line(1), tomorrow).unwrap();
    let next = tail(&place, Some(first.cursor), 10, 10_000, tomorrow).unwrap();
    assert_eq!((numbers(&next), next.reset), (vec![1], false));
    assert_ne!(first.file, next.file);
    assert_eq!(numbers(&tail(&place, None, 10, 10_000, tomorrow).unwrap()), [0, 1]);
}

#[test]
fn after_a_clock_that_was_ahead_what_comes_is_the_end_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let place = LogPlace { file: None, dir: dir.path().join("logs"), max_bytes: 100_000 };
    let now = SystemClock.now_ms();
    let ahead = now + 36 * 3_600_000;
    let mut writer = Writer::new(place.clone());
    writer.write(&line(0), now).unwrap();
    writer.write(&line(1), ahead).unwrap();
    let seen = tail(&place, None, 10, 10_000, ahead).unwrap();
    writer.write(&line(2), now).unwrap();
    let next = tail(&place, Some(seen.cursor), 10, 10_000, now).unwrap();
    assert_eq!((numbers(&next), next.reset), (vec![2], false));
    Writer::new(place.clone()).write(&line(3), now).unwrap();
    assert_eq!(numbers(&tail(&place, None, 10, 10_000, now).unwrap()), [0, 1, 2, 3]);
}

#[test]
fn a_log_that_went_on_before_one_of_a_later_day_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let place = LogPlace { file: None, dir: dir.path().join("logs"), max_bytes: 100_000 };
    let now = SystemClock.now_ms();
    let mut writer = Writer::new(place.clone());
    writer.write(&line(0), now).unwrap();
    writer.write(&line(1), now + 36 * 3_600_000).unwrap();
    let longer = line(2).repeat(100);
    let mut file = fs::OpenOptions::new().append(true).open(place.current(now)).unwrap();
    file.write_all(longer.as_bytes()).unwrap();
    Writer::new(place.clone()).write(&line(3), now).unwrap();
    assert_eq!(numbers(&tail(&place, None, 1, 10_000, now).unwrap()), [3]);
}
