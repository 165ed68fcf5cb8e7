//! Where a page of sessions ended: `<milliseconds>_<id>`.

use crate::store::OverviewPlace;

/// The place as clients send it back.
pub(super) fn written(place: &OverviewPlace) -> String {
    format!("{}_{}", place.user_at, place.session_id)
}

/// What a client sent; `None` when it is no place.
pub(super) fn read(text: &str) -> Option<OverviewPlace> {
    let (time, id) = text.split_once('_')?;
    let is_number = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
    let user_at = time.parse().ok().filter(|_| is_number)?;
    (!id.is_empty()).then(|| OverviewPlace { user_at, session_id: id.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is_one() {
        let place = OverviewPlace { user_at: 17, session_id: "a_b".into() };
        assert_eq!(written(&place), "17_a_b");
        assert_eq!(read("17_a_b"), Some(place));
        for none in ["", "17", "17_", "_a", "+17_a", "1e3_a", "99999999999999999999_a"] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
