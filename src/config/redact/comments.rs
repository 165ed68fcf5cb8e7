//! Comments of a text, in which a secret may stand that is in use no more.

use super::{is_secret, is_variable};

/// Whether a comment of a text that the parser has accepted says what a secret is or was, such
/// as `// token: "abc"`. A value without quotes may be any word of a sentence.
pub fn tell_secrets(text: &str) -> bool {
    comments(text).any(names_secret)
}

fn comments(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (_, from) = rest.split_at_checked(rest.find(['"', '\'', '/'])?)?;
            if let Some(line) = from.strip_prefix("//") {
                let end = line.find(['\n', '\r', '\u{2028}', '\u{2029}']).unwrap_or(line.len());
                let (comment, behind) = line.split_at_checked(end)?;
                rest = behind;
                return Some(comment);
            }
            if let Some(body) = from.strip_prefix("/*") {
                let (comment, behind) = body.split_once("*/").unwrap_or((body, ""));
                rest = behind;
                return Some(comment);
            }
            rest = behind_quotes(from);
        }
    })
}

/// What comes behind the text in quotes that this begins with.
fn behind_quotes(text: &str) -> &str {
    let mut letters = text.chars();
    let quote = letters.next();
    while let Some(letter) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if Some(letter) == quote {
            break;
        }
    }
    letters.as_str()
}

fn names_secret(comment: &str) -> bool {
    comment.match_indices([':', '=']).any(|(at, _)| {
        let (before, behind) = comment.split_at_checked(at).unwrap_or_default();
        let name = before.trim_end().trim_end_matches(['"', '\'']);
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        let name = name.rsplit(|letter: char| !is_of_name(letter)).next().unwrap_or_default();
        let value = behind.trim_start_matches([':', '=']).trim_start();
        let quote = value.chars().next().filter(|letter| matches!(letter, '"' | '\''));
        let value = quote.and_then(|quote| value.split(quote).nth(1)).unwrap_or_default().trim();
        !value.is_empty() && !is_variable(value) && is_secret(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_with_a_secret_is_told_from_words_and_from_values_that_look_like_one() {
        for text in [
            "{a: 1} // token: 'abc'",
            "{a: 1, /* \"botToken\" :\n \"1:abc\", */ b: 'x'}",
            "{\n  // export OPENAI_API_KEY=\"sk-1\"\n  a: 'it\\'s // one',\n}",
            "// {auth: {mode: \"token\", password: \"p\"}}\n{}",
        ] {
            assert!(tell_secrets(text), "{text}");
        }
        for text in [
            "{a: 1} // token: the one of the proxy",
            "{a: \"// token: 'abc'\", b: '/* password: \\'x\\' */'} // plain",
            "{} // token: \"${TOKEN}\", password: '', maxTokens: 'many'",
            "{} // https://h/x: 'y'",
            "",
        ] {
            assert!(!tell_secrets(text), "{text}");
        }
    }
}
