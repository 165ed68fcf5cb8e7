//! Paths with places for names, as `/api/claude/sessions/:id`.

use std::cmp::Ordering;

use percent_encoding::percent_decode_str;

/// What stands in a path where its pattern has a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathValues(Vec<(&'static str, String)>);

impl PathValues {
    /// The decoded segment; empty for a name that the pattern does not have.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }
}

/// The values of a path that fits; none when it does not. Each name stands for
/// one whole segment, decoded, that is neither empty nor leads up or along.
pub fn fit(pattern: &'static str, path: &str) -> Option<PathValues> {
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    let mut values = PathValues::default();
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(values),
            (Some(wanted), Some(given)) => match wanted.strip_prefix(':') {
                Some(name) => values.0.push((name, decoded(given)?)),
                None if wanted == given => {}
                None => return None,
            },
            _ => return None,
        }
    }
}

fn decoded(segment: &str) -> Option<String> {
    let text = percent_decode_str(segment).decode_utf8().ok()?;
    let is_name = !["", ".", ".."].contains(&&*text) && !text.contains('\0');
    is_name.then(|| text.into_owned())
}

/// Which of two patterns that fit the same path says more of it: a word says more
/// than a name.
pub(super) fn compare(one: &str, other: &str) -> Ordering {
    let words = |pattern: &str| {
        let words: Vec<_> = pattern.split('/').map(|it| !it.starts_with(':')).collect();
        words
    };
    words(one).cmp(&words(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERN: &str = "/api/x/:id/parts/:part";

    #[test]
    fn names_stand_for_whole_decoded_segments() {
        let values = fit(PATTERN, "/api/x/agent%3Amain/parts/a%2Fb").unwrap();
        assert_eq!((values.get("id"), values.get("part")), ("agent:main", "a/b"));
        assert_eq!(values.get("other"), "");
    }

    #[test]
    fn what_is_empty_or_leads_elsewhere_fits_nothing() {
        for path in [
            "/api/x//parts/1",
            "/api/x/1/parts/",
            "/api/x/1/parts",
            "/api/x/1/parts/2/",
            "/api/x/1/parts/2/3",
            "/api/x/%2e%2e/parts/1",
            "/api/x/../parts/1",
            "/api/x/%ff/parts/1",
            "/api/x/%00/parts/1",
            "/api/%78/1/parts/1",
            "api/x/1/parts/1",
            "",
        ] {
            assert_eq!(fit(PATTERN, path), None, "{path}");
        }
        assert!(fit("/a", "/a").is_some() && fit("/a", "/a/").is_none());
    }

    #[test]
    fn a_word_says_more_than_a_name() {
        assert_eq!(compare("/s/all", "/s/:id"), Ordering::Greater);
        assert_eq!(compare("/s/:id/x", "/s/:other/x"), Ordering::Equal);
    }
}
