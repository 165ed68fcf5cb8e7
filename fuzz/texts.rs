//! Targets for texts of strangers and of models: streams, pages, addresses, patches,
//! Markdown, heads of skills, templates, headers of proxies.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use clawgate::agent::skills::Head;
use clawgate::agent::tools::patch::{self, FileChange, Line};
use clawgate::agent::web::{ExtractMode, Extractor, Place, Policy};
use clawgate::auth::{Peer, bucket};
use clawgate::channels::{Measure, chunks, telegram_html};
use clawgate::config::ProxySettings;
use clawgate::config::channels::ChunkMode;
use clawgate::config::hooks::{Field, Source, Template, value_at};
use clawgate::providers::sse::{Framing, SseError, SseEvent, SseParser};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::harness::Outcome;

fn feed<'a>(
    framing: Framing,
    limit: usize,
    chunks: impl Iterator<Item = &'a [u8]>,
) -> (Vec<SseEvent>, Option<SseError>) {
    let mut parser = SseParser::new(framing, limit);
    let mut events = Vec::new();
    for chunk in chunks {
        parser.feed(chunk);
    }
    parser.finish();
    loop {
        match parser.next_event() {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, None),
            Err(error) => return (events, Some(error)),
        }
    }
}

/// However the bytes of a stream are cut, its events are the same. The first byte says
/// which kind of stream, which limit, and how it is cut.
pub fn stream(data: &[u8]) -> Outcome {
    let Some((first, bytes)) = data.split_first() else { return String::new() };
    let framing = if first & 1 == 0 { Framing::Events } else { Framing::Lines };
    let limit = if first & 2 == 0 { 1 << 20 } else { 64 };
    let whole = feed(framing, limit, std::iter::once(bytes));
    let size = 2 + usize::from(first >> 2);
    assert_eq!(feed(framing, limit, bytes.chunks(1)), whole, "byte by byte");
    assert_eq!(feed(framing, limit, bytes.chunks(size)), whole, "{size} bytes at a time");
    assert!(whole.0.iter().all(|event| event.event.len() + event.data.len() <= limit));
    format!("{framing:?} {} {:?}", whole.0.len().min(5), whole.1)
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_current_thread().enable_all().build().unwrap())
}

/// A page becomes a text that is the same each time and not much longer. The first byte
/// says which text.
pub fn page(data: &[u8]) -> Outcome {
    let Some((first, html)) = data.split_first() else { return String::new() };
    let html = String::from_utf8_lossy(html).into_owned();
    let mode = || if first & 1 == 0 { ExtractMode::Markdown } else { ExtractMode::Text };
    let read = || {
        let extractor = Extractor::default();
        let url = "https://example.org/a/page".to_owned();
        let read = extractor.extract(html.clone(), url, mode(), first & 2 == 0);
        runtime().block_on(read).map_err(|error| error.to_string())
    };
    let one = read();
    assert_eq!(one, read(), "the same page twice");
    match one {
        Ok(read) => {
            let most = 40 * html.len() + 1024;
            assert!(read.text.len() <= most, "{} bytes of {}", read.text.len(), html.len());
            let words = read.text.split_whitespace().count().min(9);
            format!("{} {words} {} {}", read.by, read.title.is_some(), read.is_cut)
        }
        Err(error) => error,
    }
}

/// Whether an address is one that strangers have, by other words than the gateway's.
fn is_far(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_far_v4(v4),
        IpAddr::V6(v6) => {
            let [a, b, c, .., g, h] = v6.segments();
            // Addresses with one of version 4 inside: NAT64, 6to4, compatible ones.
            let inner = Ipv4Addr::from((u32::from(g) << 16) | u32::from(h));
            let of_6to4 = Ipv4Addr::from((u32::from(b) << 16) | u32::from(c));
            let holds = |prefix: &str, inner: Ipv4Addr| {
                let prefix: Ipv6Addr = prefix.parse().unwrap();
                v6.segments()[..6] == prefix.segments()[..6] && !is_far_v4(inner)
            };
            !(v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || a & 0xfe00 == 0xfc00
                || a & 0xffc0 == 0xfe80
                || a & 0xffc0 == 0xfec0
                || holds("64:ff9b::", inner)
                || holds("::", inner)
                || (a == 0x2002 && !is_far_v4(of_6to4)))
        }
    }
}

fn is_far_v4(v4: Ipv4Addr) -> bool {
    let [a, b, ..] = v4.octets();
    !(v4.is_loopback()
        || v4.is_private()
        || v4.is_link_local()
        || v4.is_broadcast()
        || v4.is_documentation()
        || v4.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (18..20).contains(&b)))
}

/// No spelling of an address leads to this machine or its network.
pub fn address(data: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(data);
    let policy = Policy::default();
    let (url, place) = match policy.parse(&text) {
        Ok(found) => found,
        Err(error) => return error.to_string().split('(').next().unwrap_or_default().to_owned(),
    };
    assert!(["http", "https"].contains(&url.scheme()));
    assert!(url.username().is_empty() && url.password().is_none());
    match &place {
        Place::Address(address) => assert!(is_far(*address), "{text:?} leads to {address}"),
        Place::Name(name) => {
            let bare = name.trim_matches(['[', ']', '.']);
            assert!(bare.parse::<IpAddr>().is_err(), "{text:?} is an address: {name}");
            let is_inside = name == "localhost" || name.ends_with(".localhost");
            assert!(!is_inside && !name.ends_with('.'), "{name}");
        }
        Place::AllowedName(name) => panic!("nothing is allowed by name, but {name}"),
    }
    // What is asked for is what was judged.
    let again = policy.parse(url.as_str()).unwrap();
    assert_eq!((again.0.as_str(), again.1), (url.as_str(), place.clone()));
    match place {
        Place::Address(address) => format!("address {}", address.is_ipv6()),
        _ => format!("name {}", url.port().is_some()),
    }
}

/// A text and a patch, with a zero byte between them. What a patch adds and takes away is
/// what the text has more and less.
pub fn change(data: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(data);
    let (original, patch) = text.split_once('\0').unwrap_or(("", &text));
    let changes = match patch::parse(patch) {
        Ok(changes) => changes,
        Err(error) => return error,
    };
    assert!(!changes.is_empty());
    let mut words = Vec::new();
    for change in &changes {
        let FileChange::Update { path, chunks, .. } = change else { continue };
        let changed = match patch::apply(original, chunks, path) {
            Ok(changed) => changed,
            Err(_) => {
                words.push("not found");
                continue;
            }
        };
        let lines = || chunks.iter().flat_map(|chunk| &chunk.lines);
        let added = lines().filter(|line| matches!(line, Line::Add(_))).count();
        let removed = lines().filter(|line| matches!(line, Line::Remove(_))).count();
        let (before, after) = (original.split('\n').count(), changed.split('\n').count());
        // The last line of a text may lack its end before, and have it after.
        assert!((after + removed).abs_diff(before + added) <= 1, "{original:?} -> {changed:?}");
        if added + removed == 0 {
            assert_eq!(changed.trim_end(), original.trim_end(), "nothing was to change");
        }
        words.push(if added > 0 { "more" } else { "less" });
    }
    format!("{} {words:?}", changes.len().min(4))
}

/// Characters that are not space.
fn ink(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_whitespace()).collect()
}

/// Marks are closed in the order in which they were opened.
fn assert_nests(html: &str) {
    const MARKS: [&str; 9] = ["b", "i", "u", "s", "a", "code", "pre", "blockquote", "tg-spoiler"];
    let mut open = Vec::new();
    for piece in html.split('<').skip(1) {
        let (mark, _) = piece.split_once('>').unwrap_or_else(|| panic!("a bare < in {html:?}"));
        let name = mark.trim_start_matches('/').split(' ').next().unwrap_or_default();
        assert!(MARKS.contains(&name), "<{mark}> in {html:?}");
        if mark.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{html:?}");
        } else {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} stay open in {html:?}");
}

/// Parts of an answer for a channel: none is too long, and no word is lost. The first
/// byte says how long and how.
pub fn parts(data: &[u8]) -> Outcome {
    let Some((first, text)) = data.split_first() else { return String::new() };
    let text = String::from_utf8_lossy(text);
    let limit = 40 + usize::from(first >> 2) * 8;
    let (measure, mode) = (
        if first & 1 == 0 { Measure::Chars } else { Measure::Utf16 },
        if first & 2 == 0 { ChunkMode::Length } else { ChunkMode::Newline },
    );
    let parts = chunks(&text, limit, measure, mode);
    for part in &parts {
        let length = match measure {
            Measure::Chars => part.chars().count(),
            Measure::Utf16 => part.encode_utf16().count(),
        };
        assert!(length <= limit, "{length} of {limit}: {part:?}");
        assert!(!part.trim().is_empty());
    }
    if !text.contains("```") && !text.contains("~~~") {
        assert_eq!(ink(&parts.concat()), ink(&text), "a word is lost");
    }
    assert_nests(&telegram_html(&text));
    format!(
        "{} {measure:?} {mode:?} {}",
        parts.len().min(9),
        telegram_html(&text).matches('<').count().min(9)
    )
}

/// The head of a skill fits into a list, whatever it says.
pub fn skill(data: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(data);
    match Head::parse(&text, "folder") {
        Ok(head) => {
            assert!(!head.name.is_empty() && !head.name.contains(char::is_control));
            assert!(!head.description.contains(['\n', '\r']), "{:?}", head.description);
            assert!(head.description.chars().count() <= 1024, "{}", head.description.len());
            let needs: BTreeSet<&String> = head.requires.bins.iter().collect();
            format!("{} {} {}", needs.len().min(3), head.is_always, head.command_tool.is_some())
        }
        Err(error) => error.to_string(),
    }
}

struct Body(Value);

impl Source for Body {
    fn value(&self, field: &Field) -> Option<Value> {
        match field {
            Field::Payload(ways) => value_at(&self.0, ways).cloned(),
            _ => None,
        }
    }
}

/// A template and a body, with a zero byte between them. A text without places stays as it
/// is, and what a body says is no template.
pub fn template(data: &[u8]) -> Outcome {
    const MOST: usize = 4096;
    let text = String::from_utf8_lossy(data);
    let (written, body) = text.split_once('\0').unwrap_or((&text, "{}"));
    let template = Template::parse(written);
    let Ok(body) = serde_json::from_str(body) else { return "no JSON".to_owned() };
    let filled = template.fill(&Body(body), MOST);
    assert!(filled.as_ref().is_none_or(|filled| filled.len() <= MOST));
    if !template.has_values() {
        assert_eq!(filled.as_deref(), Some(written).filter(|it| it.len() <= MOST));
    }
    let marked = template.fill(&Body(Value::from("{{payload}}")), MOST);
    let again = marked.as_deref().map(Template::parse);
    format!("{} {} {}", template.has_values(), filled.is_some(), again.is_some())
}

/// Who an address in front of proxies belongs to: the first byte says who connects.
pub fn forwarded(data: &[u8]) -> Outcome {
    let Some((first, header)) = data.split_first() else { return String::new() };
    let header = String::from_utf8_lossy(header).into_owned();
    let remotes = ["10.0.0.1", "::ffff:10.0.0.1", "192.0.2.7", "fd00::1", "127.0.0.1"];
    let remote: IpAddr = remotes[usize::from(*first) % remotes.len()].parse().unwrap();
    let proxies = ProxySettings {
        ranges: ["10.0.0.0/8", "fd00::/8"].map(|range| range.parse().unwrap()).into(),
        ..ProxySettings::default()
    };
    let peer = Peer { forwarded_for: Some(header.clone()), ..Peer::direct(remote) };
    let client = peer.client_ip(&proxies);
    assert_eq!(client, client.to_canonical(), "one spelling for one address");
    assert_eq!(bucket(bucket(client)), bucket(client));
    let remote = remote.to_canonical();
    if client == remote {
        return format!("{first} itself");
    }
    assert!(proxies.includes(remote), "{remote} is no proxy, and named {client}");
    assert!(!proxies.includes(client), "{client} is a proxy");
    let chain = header.rsplit(',').map(|part| part.trim().parse::<IpAddr>());
    let behind = chain.take_while(|it| it.as_ref().is_ok_and(|it| it.to_canonical() != client));
    assert!(
        behind.flatten().all(|it| proxies.includes(it.to_canonical())),
        "{client} is not the last that is no proxy of {header:?}"
    );
    format!("{first} {}", client.is_ipv6())
}
