//! HTML style, as the API reads it.

use serde_json::Value;

/// What it knows.
const TAGS: [&str; 12] =
    ["b", "strong", "i", "em", "u", "s", "a", "code", "pre", "blockquote", "tg-spoiler", "del"];

/// The text after its marks were read; they must be known, closed and in order.
pub fn parsed(params: &Value, member: &str) -> Result<String, (u64, String)> {
    let text = params[member].as_str().unwrap_or_default();
    if params["parse_mode"] != "HTML" {
        return Ok(text.to_owned());
    }
    let wrong = |why: &str| Err((400, format!("Bad Request: can't parse entities: {why}")));
    let (mut plain, mut open, mut rest) = (String::new(), Vec::new(), text);
    while let Some((before, after)) = rest.split_once('<') {
        plain.push_str(before);
        let Some((tag, behind)) = after.split_once('>') else { return wrong("unclosed start tag") };
        let name = tag.trim_start_matches('/').split(' ').next().unwrap_or_default();
        if !TAGS.contains(&name) {
            return wrong(&format!("unsupported start tag \"{name}\""));
        }
        if tag.starts_with('/') {
            if open.pop() != Some(name) {
                return wrong("unexpected end tag");
            }
        } else {
            open.push(name);
        }
        rest = behind;
    }
    plain.push_str(rest);
    if !open.is_empty() {
        return wrong("can't find end tag");
    }
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")];
    Ok(entities.iter().fold(plain, |text, (mark, sign)| text.replace(mark, sign)))
}
