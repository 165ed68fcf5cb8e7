//! Texts that come from outside and go into the config and `IDENTITY.md`.

use super::error::RosterError;

/// Longer than any name; a longer line of `IDENTITY.md` is prose.
pub const LINE_MAX: usize = 200;
/// A picture may be inside of the text: as long as the ones that are read out of
/// `IDENTITY.md`.
pub const AVATAR_MAX: usize = 128 * 1024;

/// `text` in one line, without what steers a terminal; `None` when nothing is
/// left.
pub fn line(
    member: &'static str,
    text: Option<String>,
    max: usize,
) -> Result<Option<String>, RosterError> {
    let Some(text) = text else { return Ok(None) };
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().nth(max).is_some() {
        return Err(RosterError::TooLong { member, max });
    }
    Ok((!line.is_empty()).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        let read = |text: &str| line("name", Some(text.into()), LINE_MAX).unwrap();
        assert_eq!(
            read(" Ref\n- **Emoji:** x\t\u{1b}[31m ").as_deref(),
            Some("Ref - **Emoji:** x [31m")
        );
        assert_eq!(read(" \n "), None);
        assert!(line("name", Some("x".repeat(LINE_MAX + 1)), LINE_MAX).is_err());
    }
}
