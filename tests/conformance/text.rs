//! Texts that mean the same although an id, a time or a path in them differs.

/// Real values of the placeholders that the recordings put in.
#[derive(Debug, Clone, Default)]
pub struct Places {
    pub state_dir: String,
    pub home: String,
    pub workspace: String,
    pub root: String,
}

impl Places {
    /// Puts this machine's paths where the recording has placeholders.
    pub fn fill(&self, text: &str) -> String {
        text.replace("<STATE_DIR>", &self.state_dir)
            .replace("<WORKSPACE>", &self.workspace)
            .replace("<HOME>", &self.home)
            .replace("<RUN_DIR>", &self.root)
    }

    /// Puts the placeholders where a text names this machine's paths.
    fn hide(&self, text: &str) -> String {
        let pairs = [
            (&self.state_dir, "<STATE_DIR>"),
            (&self.workspace, "<WORKSPACE>"),
            (&self.home, "<HOME>"),
            (&self.root, "<RUN_DIR>"),
        ];
        pairs
            .iter()
            .filter(|(path, _)| !path.is_empty())
            .fold(text.to_owned(), |text, pair| text.replace(pair.0.as_str(), pair.1))
    }
}

/// Placeholders whose real value the tests cannot know.
const WILD: [&str; 6] = ["<HOSTNAME>", "<HOST_IP>", "<OS_RELEASE>", "<PKG>", "<TMP>", "<NODE>"];

/// Whether `actual` says what was recorded.
pub fn same(recorded: &str, actual: &str, places: &Places) -> bool {
    if recorded == actual || recorded.ends_with(", not kept>") {
        return true;
    }
    let actual = neutral(&places.hide(actual));
    if let Some((head, _)) = recorded.rsplit_once("…<clipped, ") {
        return actual.starts_with(&neutral(head));
    }
    fits(&neutral(recorded), &actual)
}

/// `recorded` with its wild placeholders standing for anything.
fn fits(recorded: &str, actual: &str) -> bool {
    let next = WILD.iter().filter_map(|name| recorded.find(name).map(|at| (at, *name))).min();
    let Some((at, name)) = next else { return recorded == actual };
    let (head, tail) = (&recorded[..at], &recorded[at + name.len()..]);
    let Some(rest) = actual.strip_prefix(head) else { return false };
    rest.char_indices()
        .map(|(index, _)| index)
        .chain([rest.len()])
        .skip(1)
        .any(|index| fits(tail, &rest[index..]))
}

/// The text with ids, times, versions, hosts and serial numbers replaced by
/// their kind.
pub fn neutral(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let boundary = !out.ends_with(|c: char| c.is_ascii_alphanumeric());
        match KINDS.iter().find_map(|(name, scan)| scan(rest, boundary).map(|n| (*name, n))) {
            Some((name, length)) => {
                out.push_str(name);
                rest = &rest[length..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// How long the match at the start of the text is; told whether a word begins.
type Scan = fn(&str, bool) -> Option<usize>;

const KINDS: [(&str, Scan); 10] = [
    ("<uuid>", |text, _| shape(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")),
    ("<time>", iso_time),
    ("id=\"<mark>\"", |text, _| shape(text, "id=\"xxxxxxxxxxxxxxxx\"")),
    ("[<when>]", |text, _| shape(text, "[Aaa 9999-99-99 99:99 UTC]")),
    ("<address>", address),
    ("<version>", version),
    ("chatcmpl-mock-<n>", |text, _| serial(text, "chatcmpl-mock-")),
    ("call_mock_<n>", |text, _| serial(text, "call_mock_").or(serial(text, "toolu_mock_"))),
    ("msg_mock_<n>", |text, _| serial(text, "msg_mock_")),
    ("<ms>", |text, boundary| digits(text).filter(|n| boundary && (12..=14).contains(n))),
];

/// Length of `pattern` when the text begins with it: `x` hex, `9` digit, `A`
/// capital, `a` small letter, all else itself.
fn shape(text: &str, pattern: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let fits = bytes.len() >= pattern.len()
        && pattern.bytes().zip(bytes).all(|(want, got)| match want {
            b'x' => got.is_ascii_hexdigit(),
            b'9' => got.is_ascii_digit(),
            b'A' => got.is_ascii_uppercase(),
            b'a' => got.is_ascii_lowercase(),
            other => other == *got,
        });
    fits.then_some(pattern.len())
}

fn iso_time(text: &str, _boundary: bool) -> Option<usize> {
    let shapes = ["9999-99-99T99:99:99.999Z", "9999-99-99T99-99-99.999Z", "9999-99-99T99:99:99Z"];
    shapes.iter().find_map(|pattern| shape(text, pattern))
}

/// `127.0.0.1:4010`, `localhost:4010`.
fn address(text: &str, _boundary: bool) -> Option<usize> {
    let host = ["127.0.0.1:", "localhost:"].iter().find(|host| text.starts_with(**host))?;
    digits(&text[host.len()..]).map(|n| host.len() + n)
}

/// Three numbers joined by dots, and not four.
fn version(text: &str, boundary: bool) -> Option<usize> {
    let mut length = 0;
    for part in 0..3 {
        if part > 0 {
            length += text[length..].strip_prefix('.').map(|_| 1)?;
        }
        length += digits(&text[length..])?;
    }
    let goes_on = text[length..].starts_with('.') && digits(&text[length + 1..]).is_some();
    // Build metadata of semantic versioning: `2026.5.7+clawgate.0.1.0`.
    if let Some(build) = text[length..].strip_prefix('+') {
        let of_build = |b: &u8| b.is_ascii_alphanumeric() || *b == b'.' || *b == b'-';
        length += 1 + build.bytes().take_while(of_build).count();
    }
    (boundary && !goes_on).then_some(length)
}

fn serial(text: &str, prefix: &str) -> Option<usize> {
    let rest = text.strip_prefix(prefix)?;
    let length = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'_').count();
    (length > 0).then_some(prefix.len() + length)
}

fn digits(text: &str) -> Option<usize> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    (length > 0).then_some(length)
}
