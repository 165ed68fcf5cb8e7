//! An error as one line.

use std::error::Error;

/// What an error says and, unless that is in it, what was at the bottom of it: many name a file
/// and leave the reason to their source.
pub fn with_cause(error: &dyn Error) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    let (text, reason) = (error.to_string(), root.to_string());
    if text.contains(&reason) { text } else { format!("{text}: {reason}") }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Failure {
        #[error("cannot open x")]
        Short(#[source] io::Error),
        #[error("cannot open x: {0}")]
        Whole(#[source] io::Error),
    }

    #[test]
    fn the_reason_is_told_once() {
        let full = || io::Error::other("the disk is full");
        let told = "cannot open x: the disk is full";
        assert_eq!(with_cause(&Failure::Short(full())), told);
        assert_eq!(with_cause(&Failure::Whole(full())), told);
        assert_eq!(with_cause(&full()), "the disk is full");
    }
}
