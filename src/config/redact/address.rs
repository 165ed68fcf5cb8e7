//! Addresses and arguments that hold a secret among other things.

use super::{REDACTED, is_secret, is_variable};

/// Names of parameters that are secrets in an address, though not elsewhere.
const PARAMETERS: [&str; 5] = ["key", "sig", "signature", "auth", "code"];

/// Keys are longer than most words.
const KEY_LENGTH: usize = 16;

/// `--api-key=secret`, and `--url=` with an address that has a secret, without the secret;
/// `None` when it is no such argument.
pub fn argument(text: &str) -> Option<String> {
    let (name, value) = flag(text)?;
    if value.is_empty() {
        return None;
    }
    let hidden = if is_secret(name) { REDACTED.to_owned() } else { shown(value)? };
    Some(format!("--{name}={hidden}"))
}

/// The secret of `--api-key=secret`; a variable in its place is none.
pub fn secret_of_argument(text: &str) -> Option<&str> {
    let (name, value) = flag(text)?;
    (is_secret(name) && is_own(value)).then_some(value)
}

/// What is secret in a text that is shown otherwise: in an address, also as the value of an
/// argument.
pub fn secrets_of_address(text: &str) -> Vec<&str> {
    let address = flag(text).map_or(text, |(_, value)| value);
    shown(address).map(|_| parts(address).secrets).unwrap_or_default()
}

/// An item of a list of arguments without its secret: `NAME=secret`, as variables
/// are written, and `Name: secret`, as headers are, also as the value of a flag;
/// `None` when it is no such item.
pub fn item(text: &str) -> Option<String> {
    let (name, told) = named(text)?;
    let hidden = if is_secret(name) { REDACTED.to_owned() } else { shown(told)? };
    Some(format!("{}{hidden}", text.strip_suffix(told)?))
}

/// What such an item has to hide: its value.
pub fn secret_of_item(text: &str) -> Option<&str> {
    let (name, told) = named(text)?;
    (is_secret(name) || shown(told).is_some()).then_some(told)
}

/// `--name=value`, taken apart.
fn flag(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("--")?.split_once('=')
}

/// The name of such an item and what is said by it.
fn named(text: &str) -> Option<(&str, &str)> {
    let value = flag(text).map_or(text, |(_, value)| value);
    let end = value.find([':', '='])?;
    let (name, _) = value.split_at(end);
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if !name.chars().all(is_part) {
        return None;
    }
    let told = value.get(end + 1..)?.trim_start();
    let bare = told.strip_prefix("Bearer ").unwrap_or(told);
    (!bare.is_empty() && !is_variable(bare)).then_some((name, told))
}

/// Parts of an address that may be secrets, for those who have seen them alone.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The password, or the token in its place, and each parameter that is called a secret.
    pub secrets: Vec<&'a str>,
    /// What is long enough to be a key in the path and in other parameters. It may be any
    /// word.
    pub long: Vec<&'a str>,
}

/// Takes an address apart; what is none has no parts.
pub fn parts(text: &str) -> Parts<'_> {
    let Some((scheme, rest)) = text.split_once("://") else { return Parts::default() };
    let (place, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let user = place.rsplit_once('@').map_or("", |(user, _)| user);
    let (path, query) = tail.split_at(tail.find(['?', '#']).unwrap_or(tail.len()));
    let (mut secrets, mut long) = (Vec::new(), Vec::new());
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    secrets.push(password);
    // In the web a token stands where the name does; elsewhere many are called "postgres".
    let is_web = ["http", "https", "ws", "wss"].iter().any(|web| scheme.ends_with(web));
    if is_key_long(name) || (is_web && password.is_empty()) {
        secrets.push(name);
    }
    long.extend(path.split(['/', '&', '=']));
    for parameter in query.trim_start_matches('?').split(['#', '&']) {
        match parameter.split_once('=') {
            Some((name, value)) if is_secret_parameter(name) => secrets.push(value),
            _ => long.extend(parameter.split(['/', '?', '='])),
        }
    }
    secrets.retain(|part| is_own(part));
    long.retain(|part| is_key_long(part));
    Parts { secrets, long }
}

/// Whether a secret is written here, and not the name of its variable.
fn is_own(value: &str) -> bool {
    !value.is_empty() && !is_variable(value)
}

/// Whether this may be a key; the name of a variable is none.
fn is_key_long(part: &str) -> bool {
    part.len() >= KEY_LENGTH && !is_variable(part)
}

/// Whether a parameter of an address is called a secret.
fn is_secret_parameter(name: &str) -> bool {
    is_secret(name) || PARAMETERS.contains(&name.to_lowercase().as_str())
}

/// The address without password and secret parameters; `None` when there are
/// none, or it is no address.
pub fn shown(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if scheme.is_empty() || !scheme.chars().all(is_scheme) {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (place, tail) = rest.split_at(end);
    let place = without_password(place);
    let tail = without_parameters(tail);
    let shown = format!("{scheme}://{place}{tail}");
    (shown != text).then_some(shown)
}

fn without_password(place: &str) -> String {
    let Some((user, host)) = place.rsplit_once('@') else { return place.to_owned() };
    match user.split_once(':') {
        Some((name, password)) if !password.is_empty() => {
            let name = if is_key_long(name) { REDACTED } else { name };
            format!("{name}:{REDACTED}@{host}")
        }
        // A token alone stands where the name does.
        _ if !user.is_empty() => format!("{REDACTED}@{host}"),
        _ => place.to_owned(),
    }
}

fn without_parameters(tail: &str) -> String {
    let begin = tail.find(['?', '#']).unwrap_or(tail.len());
    let (path, mut rest) = tail.split_at(begin);
    let mut shown = path.to_owned();
    // Each after its mark: `?`, `#` or `&`.
    while let Some(mark) = rest.chars().next() {
        let (_, parameter) = rest.split_at(mark.len_utf8());
        let end = parameter.find(['#', '&']).unwrap_or(parameter.len());
        let (parameter, next) = parameter.split_at(end);
        shown.push(mark);
        match parameter.split_once('=') {
            Some((name, value)) if !value.is_empty() && is_secret_parameter(name) => {
                shown.push_str(name);
                shown.push('=');
                shown.push_str(REDACTED);
            }
            _ => shown.push_str(parameter),
        }
        rest = next;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_what_lets_us_in() {
        for (text, expected) in [
            ("http://me:pw@h:1/x", Some("http://me:*@h:1/x")),
            ("https://tok@h", Some("https://*@h")),
            ("https://tok:@h", Some("https://*@h")),
            ("https://0123456789abcdef:x-oauth-basic@h", Some("https://*:*@h")),
            ("https://h/x?a=1&api_key=k&key=z#f", Some("https://h/x?a=1&api_key=*&key=*#f")),
            ("wss://me:p@ss@h?token=t", Some("wss://me:*@h?token=*")),
            ("https://h/app#a&access_token=t", Some("https://h/app#a&access_token=*")),
            ("https://h/x?a=1", None),
            ("https://@h/", None),
            ("a text: with://no address", None),
            ("mail me:pw@h", None),
        ] {
            assert_eq!(shown(text), expected.map(|it| it.replace('*', REDACTED)), "{text}");
        }
    }

    #[test]
    fn parts_of_an_address_are_found_where_keys_are() {
        let address = "https://me:pw@mcp.example-of-a-host.com/s/0123456789abcdef0/mcp?k=x&key=a/b=&kind=fedcba9876543210#token=t";
        let long = vec!["0123456789abcdef0", "fedcba9876543210"];
        assert_eq!(parts(address), Parts { secrets: vec!["pw", "a/b=", "t"], long });
        for (text, secret) in [("https://tok@h", "tok"), ("https://tok:@h/", "tok")] {
            assert_eq!(parts(text), Parts { secrets: vec![secret], long: vec![] }, "{text}");
        }
        let secrets = vec!["x-oauth-basic", "0123456789abcdef"];
        let expected = Parts { secrets, long: vec![] };
        assert_eq!(parts("https://0123456789abcdef:x-oauth-basic@h"), expected);
        for text in [
            "no address",
            "https://h/mcp",
            "https://@h/?token=${A_LONG_VARIABLE}",
            "postgres://postgres@localhost/app",
        ] {
            assert_eq!(parts(text), Parts::default(), "{text}");
        }
    }

    #[test]
    fn an_item_of_arguments_is_shown_without_its_secret() {
        for (text, expected) in [
            ("Authorization: Bearer abc", "Authorization: *"),
            ("Proxy-Authorization:Basic abc", "Proxy-Authorization:*"),
            ("Cookie: a=b; c=d", "Cookie: *"),
            ("X-Api-Key: k", "X-Api-Key: *"),
            ("GITHUB_PERSONAL_ACCESS_TOKEN=ghp_1", "GITHUB_PERSONAL_ACCESS_TOKEN=*"),
            ("--env=MY_SECRET=s=t", "--env=MY_SECRET=*"),
            ("--header=Authorization: Bearer x", "--header=Authorization: *"),
            ("-eMY_TOKEN=t", "-eMY_TOKEN=*"),
            ("DATABASE_URL=postgres://me:pw@h/db", "DATABASE_URL=postgres://me:*@h/db"),
        ] {
            assert_eq!(item(text), Some(expected.replace('*', REDACTED)), "{text}");
        }
        for text in [
            "Accept: text/plain",
            "PORT=1",
            "MY_TOKEN",
            "MY_TOKEN=",
            "MY_TOKEN=${MY_TOKEN}",
            "Authorization: Bearer ${MY_TOKEN}",
            "my token: is mine",
            "telegram:123",
            "https://me:pw@h",
        ] {
            assert_eq!(item(text), None, "{text}");
            assert_eq!(secret_of_item(text), None, "{text}");
        }
        for (text, secret) in [
            ("Authorization: Bearer abc", "Bearer abc"),
            ("--env=MY_SECRET=s=t", "s=t"),
            ("DATABASE_URL=postgres://me:pw@h/db", "postgres://me:pw@h/db"),
        ] {
            assert_eq!(secret_of_item(text), Some(secret), "{text}");
        }
    }

    #[test]
    fn an_argument_is_shown_without_its_secret() {
        assert_eq!(argument("--api-key=k"), Some(format!("--api-key={REDACTED}")));
        for text in ["--port=1", "--token", "api-key=k", "--token="] {
            assert_eq!(argument(text), None, "{text}");
            assert_eq!(secret_of_argument(text), None, "{text}");
        }
        assert_eq!(secret_of_argument("--api-key=k"), Some("k"));
        assert_eq!(secret_of_argument("--api-key=${KEY}"), None);
        let address = "--database-url=postgres://me:pw@h/db";
        let shown = format!("--database-url=postgres://me:{REDACTED}@h/db");
        assert_eq!(argument(address), Some(shown));
        assert_eq!(secrets_of_address(address), ["pw"]);
        assert!(secrets_of_address("--env=B=pg://u:pw@h").is_empty(), "it is an item");
    }
}
