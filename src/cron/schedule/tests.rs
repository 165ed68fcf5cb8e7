//! Tests of schedules: the instants of a year's edges, in many zones.

use proptest::prelude::*;

use super::*;

fn at(text: &str) -> u64 {
    parse_at(text).unwrap()
}

fn calendar(expr: &str, tz: &str) -> Timing {
    let schedule = Schedule::Cron { expr: expr.into(), tz: Some(tz.into()), stagger_ms: None };
    Timing::of(&schedule, "job").unwrap()
}

/// Zone, time of the day, first day, and three instants (UTC) in a row. A gap is
/// a time that a clock skips, a fold one that it shows twice.
const GOLDEN: &str = "
    Europe/Paris        02:30 2026-03-28 2026-03-28T01:30Z 2026-03-29T01:00Z 2026-03-30T00:30Z gap
    Europe/Paris        02:30 2026-10-24 2026-10-24T00:30Z 2026-10-25T00:30Z 2026-10-26T01:30Z fold
    Europe/London       01:30 2026-03-28 2026-03-28T01:30Z 2026-03-29T01:00Z 2026-03-30T00:30Z gap
    Europe/London       01:30 2026-10-24 2026-10-24T00:30Z 2026-10-25T00:30Z 2026-10-26T01:30Z fold
    Europe/Oslo         02:30 2026-03-28 2026-03-28T01:30Z 2026-03-29T01:00Z 2026-03-30T00:30Z gap
    Europe/Oslo         02:30 2026-10-24 2026-10-24T00:30Z 2026-10-25T00:30Z 2026-10-26T01:30Z fold
    America/New_York    02:30 2026-03-07 2026-03-07T07:30Z 2026-03-08T07:00Z 2026-03-09T06:30Z gap
    America/New_York    02:30 2026-10-31 2026-10-31T06:30Z 2026-11-01T07:30Z 2026-11-02T07:30Z
    America/New_York    01:30 2026-03-07 2026-03-07T06:30Z 2026-03-08T06:30Z 2026-03-09T05:30Z
    America/New_York    01:30 2026-10-31 2026-10-31T05:30Z 2026-11-01T05:30Z 2026-11-02T06:30Z fold
    America/Los_Angeles 02:15 2026-03-07 2026-03-07T10:15Z 2026-03-08T10:00Z 2026-03-09T09:15Z gap
    America/Los_Angeles 02:15 2026-10-31 2026-10-31T09:15Z 2026-11-01T10:15Z 2026-11-02T10:15Z
    America/St_Johns    02:30 2026-03-07 2026-03-07T06:00Z 2026-03-08T05:30Z 2026-03-09T05:00Z gap
    America/St_Johns    02:30 2026-10-31 2026-10-31T05:00Z 2026-11-01T06:00Z 2026-11-02T06:00Z
    America/Santiago    00:30 2026-04-04 2026-04-04T03:30Z 2026-04-05T04:30Z 2026-04-06T04:30Z
    America/Santiago    00:30 2026-09-05 2026-09-05T04:30Z 2026-09-06T04:00Z 2026-09-07T03:30Z gap
    Australia/Sydney    02:30 2026-04-04 2026-04-03T15:30Z 2026-04-04T15:30Z 2026-04-05T16:30Z fold
    Australia/Sydney    02:30 2026-10-03 2026-10-02T16:30Z 2026-10-03T16:00Z 2026-10-04T15:30Z gap
    Australia/Lord_Howe 01:45 2026-04-04 2026-04-03T14:45Z 2026-04-04T14:45Z 2026-04-05T15:15Z fold
    Australia/Lord_Howe 01:45 2026-10-03 2026-10-02T15:15Z 2026-10-03T15:15Z 2026-10-04T14:45Z
    Australia/Lord_Howe 02:15 2026-04-04 2026-04-03T15:15Z 2026-04-04T15:45Z 2026-04-05T15:45Z
    Australia/Lord_Howe 02:15 2026-10-03 2026-10-02T15:45Z 2026-10-03T15:30Z 2026-10-04T15:15Z gap
    Pacific/Auckland    02:30 2026-04-04 2026-04-03T13:30Z 2026-04-04T13:30Z 2026-04-05T14:30Z fold
    Pacific/Auckland    02:30 2026-09-26 2026-09-25T14:30Z 2026-09-26T14:00Z 2026-09-27T13:30Z gap
    Pacific/Chatham     03:00 2026-04-04 2026-04-03T13:15Z 2026-04-04T13:15Z 2026-04-05T14:15Z fold
    Pacific/Chatham     03:00 2026-09-26 2026-09-25T14:15Z 2026-09-26T14:00Z 2026-09-27T13:15Z gap
    Asia/Kolkata        02:30 2026-03-28 2026-03-27T21:00Z 2026-03-28T21:00Z 2026-03-29T21:00Z
    Asia/Kolkata        02:30 2026-10-24 2026-10-23T21:00Z 2026-10-24T21:00Z 2026-10-25T21:00Z
    Asia/Tehran         00:00 2026-03-21 2026-03-20T20:30Z 2026-03-21T20:30Z 2026-03-22T20:30Z
    Asia/Tehran         00:00 2026-09-21 2026-09-20T20:30Z 2026-09-21T20:30Z 2026-09-22T20:30Z
    Africa/Casablanca   02:30 2026-02-14 2026-02-14T01:30Z 2026-02-15T01:30Z 2026-02-16T02:30Z fold
    Africa/Casablanca   02:30 2026-03-21 2026-03-21T02:30Z 2026-03-22T02:00Z 2026-03-23T01:30Z gap
    UTC                 02:30 2026-03-28 2026-03-28T02:30Z 2026-03-29T02:30Z 2026-03-30T02:30Z
    UTC                 02:30 2026-10-24 2026-10-24T02:30Z 2026-10-25T02:30Z 2026-10-26T02:30Z
";

/// The rows of the table.
fn golden() -> Vec<(&'static str, &'static str, &'static str, [&'static str; 3])> {
    let rows = GOLDEN.lines().filter(|line| !line.is_empty()).map(|line| {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap();
        (word(), word(), word(), [word(), word(), word()])
    });
    rows.collect()
}

#[test]
fn in_each_zone_a_skipped_time_runs_at_the_next_moment_and_a_repeated_one_once() {
    for (zone, time, day, instants) in golden() {
        let (hour, minute) = time.split_once(':').unwrap();
        let hour: u8 = hour.parse().unwrap();
        let timing = calendar(&format!("{minute} {hour} * * *"), zone);
        let local = TimeZone::get(zone).unwrap();
        let day: civil::Date = day.parse().unwrap();
        let midnight = day.at(0, 0, 0, 0).to_zoned(local).unwrap();
        let mut moment = u64::try_from(midnight.timestamp().as_millisecond()).unwrap() - 1;
        for instant in instants {
            let next = timing.next_after(moment).unwrap();
            assert_eq!(
                iso_time(next),
                iso_time(at(instant)),
                "{zone} {time} after {}",
                iso_time(moment)
            );
            moment = next;
        }
        // The other way round there are the same ones.
        for instant in instants.iter().rev() {
            let last = timing.last_until(moment).unwrap();
            assert_eq!(
                iso_time(last),
                iso_time(at(instant)),
                "{zone} {time} until {}",
                iso_time(moment)
            );
            moment = last - 1;
        }
    }
    let zones: std::collections::BTreeSet<_> = golden().iter().map(|row| row.0).collect();
    assert!(zones.len() >= 12, "{zones:?}");
}

#[test]
fn times_of_the_day_that_are_listed_are_met_as_if_each_had_a_job_of_its_own() {
    for (expr, zone, after, instants) in [
        ("0 2,14 * * *", "Europe/Paris", "2027-03-27T13:00Z", &["03-28T01:00", "03-28T12:00"][..]),
        ("30 2,14 * * *", "Europe/Paris", "2027-03-27T13:30Z", &["03-28T01:00", "03-28T12:30"]),
        ("0,30 2 * * *", "Europe/Paris", "2027-03-27T01:30Z", &["03-28T01:00", "03-29T00:00"]),
        ("0 1-3 * * *", "Europe/Paris", "2027-03-27T02:00Z", &["03-28T00:00", "03-28T01:00"]),
        ("0 2,14 * * *", "Europe/Paris", "2027-10-30T12:00Z", &["10-31T00:00", "10-31T13:00"]),
        (
            "15,45 0 2 * * *",
            "Europe/Paris",
            "2027-10-30T12:00Z",
            &["10-31T00:00:15", "10-31T00:00:45", "11-01T01:00:15"],
        ),
        (
            "0,30 2 * * *",
            "Europe/Paris",
            "2027-10-30T12:00Z",
            &["10-31T00:00", "10-31T00:30", "11-01T01:00"],
        ),
        ("0 0,12 * * *", "America/Santiago", "2027-09-04T16:00Z", &["09-05T04:00", "09-05T15:00"]),
        // An interval goes on through it, whatever the clock shows.
        (
            "0 */2 * * *",
            "Europe/Paris",
            "2027-10-30T22:00Z",
            &["10-31T00:00", "10-31T01:00", "10-31T03:00"],
        ),
    ] {
        let timing = calendar(expr, zone);
        let mut moment = at(after);
        for instant in instants {
            let next = timing.next_after(moment).unwrap();
            let wanted = iso_time(at(&format!("2027-{instant}Z")));
            assert_eq!(iso_time(next), wanted, "{expr} {zone} after {}", iso_time(moment));
            assert_eq!(timing.last_until(next), Some(next));
            assert!(timing.last_until(next - 1).unwrap() <= moment, "{expr} {wanted}");
            moment = next;
        }
    }
}

#[test]
fn patterns_of_the_original_are_understood() {
    let from = at("2026-11-22T12:00:00Z");
    for (expr, next) in [
        ("0 9 * * 1-5", "2026-11-23T09:00:00Z"),
        ("*/15 * * * *", "2026-11-22T12:15:00Z"),
        ("*/10 * * * * *", "2026-11-22T12:00:10Z"),
        ("30 0 9 * * *", "2026-11-23T09:00:30Z"),
        ("0 0 9 1 1 * 2030", "2030-01-01T09:00:00Z"),
        ("0 9 L * *", "2026-11-30T09:00:00Z"),
        ("0 9 15W * *", "2026-12-15T09:00:00Z"),
        ("0 9 * * MON#2", "2026-12-14T09:00:00Z"),
        ("0 9 * * FRI#L", "2026-11-27T09:00:00Z"),
        ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
        // Day of the month or of the week, as cron has always had it.
        ("0 0 13 * 5", "2026-11-27T00:00:00Z"),
        ("@daily", "2026-11-23T00:00:00Z"),
        ("0 9 * jan,jul sun", "2027-01-03T09:00:00Z"),
    ] {
        let told = calendar(expr, "UTC").next_after(from).map(iso_time);
        assert_eq!(told, Some(iso_time(at(next))), "{expr}");
    }
}

#[test]
fn what_is_wrong_is_told_in_the_words_of_the_original() {
    let refused = |schedule: Schedule| settle(schedule, "j", at("2026-11-22T03:25:56.317Z"));
    let cron = |expr: &str, tz: Option<&str>| {
        refused(Schedule::Cron { expr: expr.into(), tz: tz.map(str::to_owned), stagger_ms: None })
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        cron("* * *", None),
        "CronPattern: invalid configuration format ('* * *'), exactly five, six, or seven space \
         separated parts are required."
    );
    assert!(cron("61 * * * *", None).starts_with("CronPattern: "));
    for expr in ["*/10 * * * * +", "0 9 * * ++", "0 0 9 * * +, 2030"] {
        assert!(cron(expr, None).contains("a day of the week has to follow '+'"), "{expr}");
    }
    assert!(cron("0 9 * * *", Some("Mars/Olympus")).contains("unknown time zone \"Mars/Olympus\""));
    assert_eq!(cron("0 0 30 2 *", None), "schedule never comes due");
    let once = |at: &str| refused(Schedule::At { at: at.into() }).unwrap_err().to_string();
    assert_eq!(
        once("2020-01-01T00:00:00Z"),
        "schedule.at is in the past: 2020-01-01T00:00:00.000Z (3624685 minutes ago). Current time: \
         2026-11-22T03:25:56.317Z"
    );
    assert_eq!(
        once("2099-01-01T00:00:00Z"),
        "schedule.at is too far in the future: 2099-01-01T00:00:00.000Z (72 years ahead). Maximum \
         allowed: 10 years"
    );
    assert_eq!(once("tomorrow"), "Invalid schedule.at: expected ISO-8601 timestamp (got tomorrow)");
}

#[test]
fn a_moment_is_read_with_a_zone_without_one_and_as_a_number() {
    for (text, expected) in [
        ("2026-11-22T05:27:11.925Z", "2026-11-22T05:27:11.925Z"),
        ("2026-11-22T06:27:11.925+01:00", "2026-11-22T05:27:11.925Z"),
        ("2026-11-22T05:27", "2026-11-22T05:27:00.000Z"),
        ("2026-11-22 05:27:00", "2026-11-22T05:27:00.000Z"),
        ("2026-11-22", "2026-11-22T00:00:00.000Z"),
        ("1795325231925", "2026-11-22T05:27:11.925Z"),
        ("2026-11-22T09:00[Europe/Paris]", "2026-11-22T08:00:00.000Z"),
        ("2026-07-22T09:00:00+02:00[Europe/Paris]", "2026-07-22T07:00:00.000Z"),
    ] {
        assert_eq!(iso_time(at(text)), expected, "{text}");
    }
    let unknown = ["2026-11-22T09:00[Mars/Olympus]", "2026-11-22T09:00[Europe/Paris"];
    for wrong in ["", "tomorrow", "2026-13-01", "20:15", "-5"].into_iter().chain(unknown) {
        assert_eq!(parse_at(wrong).filter(|at| *at > 0), None, "{wrong}");
    }
}

#[test]
fn jobs_at_the_full_hour_are_spread_always_alike() {
    assert_eq!(usual_stagger("0 * * * *"), Some(HOURLY_STAGGER_MS));
    assert_eq!(usual_stagger("0 0 */2 * * *"), Some(HOURLY_STAGGER_MS));
    for exact in ["0 9 * * 1-5", "5 * * * *", "*/5 * * * *"] {
        assert_eq!(usual_stagger(exact), None, "{exact}");
    }
    let spread = |id: &str| {
        let schedule = Schedule::Cron {
            expr: "0 * * * *".into(),
            tz: Some("UTC".into()),
            stagger_ms: Some(HOURLY_STAGGER_MS),
        };
        Timing::of(&schedule, id).unwrap()
    };
    let hour = at("2026-11-22T12:00:00Z");
    let (one, other) =
        (spread("one").next_after(hour).unwrap(), spread("other").next_after(hour).unwrap());
    assert_ne!(one, other);
    for instant in [one, other] {
        let after = instant - hour;
        assert!(after % 3_600_000 < HOURLY_STAGGER_MS, "{after}");
    }
    // An hour later, an hour later.
    assert_eq!(spread("one").next_after(one), Some(one + 3_600_000));
    assert_eq!(spread("one").last_until(one), Some(one));
    assert_eq!(spread("one").last_until(one + 1), Some(one));
}

proptest! {
    #[test]
    fn both_directions_give_the_same_instants(
        minute in 0..60_u8,
        hour in 0..24_u8,
        other in proptest::option::of(0..24_u8),
        zone in proptest::sample::select(golden().iter().map(|row| row.0).collect::<Vec<_>>()),
        from in 1_767_225_600_000_u64..1_798_761_600_000,
    ) {
        let hours = other.map_or_else(|| hour.to_string(), |other| format!("{hour},{other}"));
        let timing = calendar(&format!("{minute} {hours} * * *"), zone);
        let next = timing.next_after(from).unwrap();
        prop_assert!(next > from);
        prop_assert_eq!(timing.last_until(next), Some(next));
        let last = timing.last_until(next - 1).unwrap();
        prop_assert!(last <= from, "{} is between {} and {}", iso_time(last), iso_time(from), iso_time(next));
        prop_assert_eq!(timing.next_after(last), Some(next));
    }

    #[test]
    fn instants_of_the_same_distance_need_no_calendar(
        every in 1..10_000_u64, anchor in 0..100_000_u64, moment in 0..1_000_000_u64,
    ) {
        let timing = Timing::Every { every, anchor };
        let next = timing.next_after(moment).unwrap();
        prop_assert!(next > moment && (next - anchor).is_multiple_of(every));
        prop_assert_eq!(timing.last_until(next), Some(next));
        if let Some(last) = timing.last_until(moment) {
            prop_assert_eq!(timing.next_after(last), Some(next));
        }
    }
}

#[test]
fn an_instant_that_is_further_away_than_calendars_go_is_told_without_a_date() {
    let far = Schedule::At { at: u64::MAX.to_string() };
    let why = settle(far, "job", at("2026-01-01")).unwrap_err().to_string();
    assert!(
        why.starts_with("schedule.at is too far in the future: after the year 9999 ("),
        "{why}"
    );
}
