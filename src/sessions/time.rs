//! Times as transcripts and some clients write them.

use jiff::Timestamp;

/// As in `2026-11-22T03:35:28.398Z`.
pub fn iso(millis: u64) -> String {
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Milliseconds since the epoch; 0 for what is no time.
pub fn millis(iso: &str) -> u64 {
    iso.parse::<Timestamp>().map_or(0, since_epoch)
}

/// Milliseconds since the epoch; 0 before it.
pub fn since_epoch(at: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_a_round_trip() {
        assert_eq!(iso(1_795_318_528_398), "2026-11-22T03:35:28.398Z");
        assert_eq!(millis("2026-11-22T03:35:28.398Z"), 1_795_318_528_398);
        assert_eq!(iso(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(millis("yesterday"), 0);
    }
}
