//! Markdown, as models write it, in the few marks that the Bot API knows.
//!
//! Promises: what is no mark is text, whatever it looks like; marks are closed
//! in the order they were opened. Source: core.telegram.org/bots/api, HTML style.

use std::borrow::Cow;
use std::collections::HashSet;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

use crate::support::sort;

/// How many definitions of one link may be in a text. One with more is sent as it is
/// written: each of them is another look at all of it.
const SAME_LINKS_MAX: usize = 16;

/// The text in HTML style.
pub fn html(markdown: &str) -> String {
    let mut writer = Writer::default();
    if let Some(text) = with_definitions(markdown) {
        for event in parser(&text) {
            writer.take(event);
        }
    }
    if writer.out.trim().is_empty() {
        writer.out.clear();
        writer.text(markdown);
    }
    writer.out.trim().to_owned()
}

fn parser(markdown: &str) -> Parser<'_> {
    Parser::new_ext(markdown, Options::ENABLE_STRIKETHROUGH)
}

/// The text with what defines a link (`[1]: https://…`) and is used by none as words, which
/// the parser would leave out. `None` when one link has too many definitions.
fn with_definitions(markdown: &str) -> Option<Cow<'_, str>> {
    if !markdown.contains("]:") {
        return Some(Cow::Borrowed(markdown));
    }
    let mut text = Cow::Borrowed(markdown);
    for _ in 0..=SAME_LINKS_MAX {
        let marks = marks(&text);
        if marks.is_empty() {
            return Some(text);
        }
        for (place, mark) in marks.into_iter().rev() {
            text.to_mut().insert(place, mark);
        }
    }
    None
}

/// What makes words of the definitions that no link leads by, of the first of each name, and
/// where it belongs, in order.
fn marks(markdown: &str) -> Vec<(usize, char)> {
    let mut parsed = parser(markdown);
    let used: Vec<_> = parsed.by_ref().filter_map(|event| definition_of(&event)).collect();
    let defined = parsed.reference_definitions();
    let used: HashSet<usize> =
        used.iter().filter_map(|name| Some(defined.get(name)?.span.start)).collect();
    let mut places: Vec<_> = defined.iter().map(|(_, link)| link.span.clone()).collect();
    sort::by_key(&mut places, |place| place.start);
    let (mut marks, mut words_end) = (Vec::new(), None);
    for place in places {
        if !used.contains(&place.start) {
            marks.push((place.start, '\\'));
            words_end = Some(place.end);
            continue;
        }
        // Right behind words nothing is defined: an empty line has to come between.
        let between = words_end.take().and_then(|end| markdown.get(end..place.start));
        if between.is_some_and(|it| it.chars().all(|c| c.is_whitespace() || c == '>')) {
            marks.push((place.start, '\n'));
        }
    }
    marks
}

/// The name of the definition that a link leads by, if it is written as one.
fn definition_of(event: &Event<'_>) -> Option<String> {
    let Event::Start(
        Tag::Link { link_type, dest_url, id, .. } | Tag::Image { link_type, dest_url, id, .. },
    ) = event
    else {
        return None;
    };
    let is_defined =
        matches!(link_type, LinkType::Reference | LinkType::Collapsed | LinkType::Shortcut);
    (is_defined && leads(dest_url)).then(|| id.to_string())
}

/// Whether an address is one that people can follow.
fn leads(address: &str) -> bool {
    address.starts_with("http://") || address.starts_with("https://")
}

/// Whether it stands in a line, and begins none.
fn is_inline(event: &Event<'_>) -> bool {
    matches!(
        event,
        Event::Text(_)
            | Event::Code(_)
            | Event::InlineHtml(_)
            | Event::Start(
                Tag::Emphasis
                    | Tag::Strong
                    | Tag::Strikethrough
                    | Tag::Link { .. }
                    | Tag::Image { .. }
            )
    )
}

#[derive(Default)]
struct Writer {
    out: String,
    /// For each open list, the number of its next item, if it counts.
    lists: Vec<Option<u64>>,
    /// Where the words of the last item begin.
    item: usize,
    /// Whether a block of an item has just ended.
    is_after_block: bool,
    /// For each open link, whether it was written.
    links: Vec<bool>,
}

impl Writer {
    fn take(&mut self, event: Event<'_>) {
        // Where nothing in a list is set apart by empty lines, its words are in no paragraph.
        if std::mem::take(&mut self.is_after_block) && is_inline(&event) {
            self.line();
        }
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            // What looks like HTML is what somebody wrote.
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(code) => {
                self.out.push_str("<code>");
                self.text(&code);
                self.out.push_str("</code>");
            }
            Event::SoftBreak | Event::HardBreak => self.out.push('\n'),
            Event::Rule => {
                self.part();
                self.out.push_str("———");
            }
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock if self.lists.is_empty() => self.part(),
            Tag::Paragraph | Tag::HtmlBlock => self.line(),
            Tag::Heading { .. } => {
                self.part();
                self.out.push_str("<b>");
            }
            Tag::BlockQuote(_) => {
                self.part();
                self.out.push_str("<blockquote>");
            }
            Tag::CodeBlock(kind) => {
                self.part();
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => info.split_whitespace().next(),
                    CodeBlockKind::Indented => None,
                };
                match language {
                    Some(name) => {
                        self.out.push_str("<pre><code class=\"language-");
                        self.text(name);
                        self.out.push_str("\">");
                    }
                    None => self.out.push_str("<pre><code>"),
                }
            }
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.part();
                }
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::Emphasis => self.out.push_str("<i>"),
            Tag::Strong => self.out.push_str("<b>"),
            Tag::Strikethrough => self.out.push_str("<s>"),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                let leads = leads(&dest_url);
                self.links.push(leads);
                if leads {
                    self.out.push_str("<a href=\"");
                    self.text(&dest_url);
                    self.out.push_str("\">");
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        let is_block = matches!(
            tag,
            TagEnd::BlockQuote(_) | TagEnd::CodeBlock | TagEnd::HtmlBlock | TagEnd::List(_)
        );
        match tag {
            TagEnd::Heading(_) | TagEnd::Strong => self.out.push_str("</b>"),
            TagEnd::BlockQuote(_) => self.out.push_str("</blockquote>"),
            TagEnd::CodeBlock => {
                let length = self.out.trim_end_matches('\n').len();
                self.out.truncate(length);
                self.out.push_str("</code></pre>");
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Emphasis => self.out.push_str("</i>"),
            TagEnd::Strikethrough => self.out.push_str("</s>"),
            TagEnd::Link | TagEnd::Image if self.links.pop() == Some(true) => {
                self.out.push_str("</a>");
            }
            _ => {}
        }
        self.is_after_block = is_block && !self.lists.is_empty();
    }

    /// Something new begins, after an empty line.
    fn part(&mut self) {
        if self.out.is_empty() || self.out.ends_with("<blockquote>") || self.begins_item() {
            return;
        }
        let length = self.out.trim_end_matches('\n').len();
        self.out.truncate(length);
        self.out.push_str("\n\n");
    }

    /// An item goes on in a line of its own.
    fn line(&mut self) {
        if self.out.ends_with("<blockquote>") || self.begins_item() {
            return;
        }
        if !self.out.ends_with('\n') {
            self.out.push('\n');
        }
        self.out.push_str(&"  ".repeat(self.lists.len()));
    }

    /// Whether an item has nothing in it yet.
    fn begins_item(&self) -> bool {
        !self.lists.is_empty() && self.out.len() == self.item
    }

    fn item(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
        let depth = self.lists.len().saturating_sub(1);
        self.out.push_str(&"  ".repeat(depth));
        match self.lists.last_mut() {
            Some(Some(number)) => {
                self.out.extend([number.to_string().as_str(), ". "]);
                *number = number.saturating_add(1);
            }
            _ => self.out.push_str("• "),
        }
        self.item = self.out.len();
    }

    fn text(&mut self, text: &str) {
        for sign in text.chars() {
            match sign {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '"' => self.out.push_str("&quot;"),
                sign => self.out.push(sign),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_those_that_the_api_knows() {
        for (markdown, expected) in [
            ("plain", "plain"),
            ("a **b** *c* ~~d~~ `e`", "a <b>b</b> <i>c</i> <s>d</s> <code>e</code>"),
            ("# Head\n\ntext", "<b>Head</b>\n\ntext"),
            ("one\ntwo\n\nthree", "one\ntwo\n\nthree"),
            (
                "```rust\nlet a = 1 < 2;\n```",
                "<pre><code class=\"language-rust\">let a = 1 &lt; 2;</code></pre>",
            ),
            ("- a\n- b\n  1. c\n\nend", "• a\n• b\n  1. c\n\nend"),
            ("[x](https://y/?a=1&b=2)", "<a href=\"https://y/?a=1&amp;b=2\">x</a>"),
            ("[x](javascript:alert)", "x"),
            ("> said\n\nme", "<blockquote>said</blockquote>\n\nme"),
            ("a <b>c & d", "a &lt;b&gt;c &amp; d"),
            ("snake_case_name 2*3*4", "snake_case_name 2<i>3</i>4"),
        ] {
            assert_eq!(html(markdown), expected, "{markdown}");
        }
    }

    #[test]
    fn what_defines_a_link_is_said_where_no_link_leads_by_it() {
        let many = "[a]: x\n\n".repeat(2 * SAME_LINKS_MAX);
        for text in [
            "[1]: https://x.test",
            "see [1]\n\n[1]: src/main.rs\n[2]: https://y.test",
            "see [docs][1]\n\n[1]: src/main.rs",
            "[a]: x\n\n[a]: y\n\n[A]: z",
            many.as_str(),
        ] {
            assert_eq!(html(text), text.trim());
        }
        for (markdown, expected) in [
            ("> [1]: https://x.test", "<blockquote>[1]: https://x.test</blockquote>"),
            ("```\n[1]: x\n```", "<pre><code>[1]: x</code></pre>"),
            ("![](data:x&y)", "![](data:x&amp;y)"),
        ] {
            assert_eq!(html(markdown), expected, "{markdown}");
        }
    }

    #[test]
    fn a_link_leads_by_its_definition() {
        for (markdown, expected) in [
            ("see [docs][1]\n\n[1]: https://x.test", "see <a href=\"https://x.test\">docs</a>"),
            ("[Docs][]\n\n[docs]: https://x.test", "<a href=\"https://x.test\">Docs</a>"),
            (
                "see [1]\n\n[1]: https://x.test\n[2]: https://y.test",
                "see <a href=\"https://x.test\">1</a>\n\n[2]: https://y.test",
            ),
            (
                "[a][1], [b][1]\n\n[2]: https://y.test\n[1]: https://x.test",
                "<a href=\"https://x.test\">a</a>, <a href=\"https://x.test\">b</a>\n\n\
                 [2]: https://y.test",
            ),
            (
                "> [2]: https://y.test\n> [1]: https://x.test\n\n[a][1]",
                "<blockquote>[2]: https://y.test</blockquote>\n\n\
                 <a href=\"https://x.test\">a</a>",
            ),
        ] {
            assert_eq!(html(markdown), expected, "{markdown}");
        }
    }

    #[test]
    fn what_stands_apart_stays_apart_in_lists_and_around_html() {
        for (markdown, expected) in [
            ("- a\n\n  b\n- c", "• a\n  b\n• c"),
            ("1. a\n   - x\n\n     y", "1. a\n  • x\n    y"),
            ("- a\n  ```\n  x\n  ```\n  **b**", "• a\n\n<pre><code>x</code></pre>\n  <b>b</b>"),
            ("- ```\n  x\n  ```", "• <pre><code>x</code></pre>"),
            (
                "one\n\n<div>\ntwo\n</div>\n\nthree",
                "one\n\n&lt;div&gt;\ntwo\n&lt;/div&gt;\n\nthree",
            ),
        ] {
            assert_eq!(html(markdown), expected, "{markdown}");
        }
    }
}
