//! Markdown, as models write it, in the few marks that the Bot API knows.
//!
//! Promises: what is no mark is text, whatever it looks like; marks are closed
//! in the order they were opened. Source: core.telegram.org/bots/api, HTML style.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The text in HTML style.
pub fn html(markdown: &str) -> String {
    let mut writer = Writer::default();
    for event in Parser::new_ext(markdown, Options::ENABLE_STRIKETHROUGH) {
        writer.take(event);
    }
    writer.out.trim().to_owned()
}

#[derive(Default)]
struct Writer {
    out: String,
    /// For each open list, the number of its next item, if it counts.
    lists: Vec<Option<u64>>,
    /// For each open link, whether it was written.
    links: Vec<bool>,
}

impl Writer {
    fn take(&mut self, event: Event<'_>) {
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
            Tag::Paragraph if self.lists.is_empty() => self.part(),
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
                let leads = dest_url.starts_with("http://") || dest_url.starts_with("https://");
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
    }

    /// Something new begins, after an empty line.
    fn part(&mut self) {
        if self.out.is_empty() || self.out.ends_with("<blockquote>") {
            return;
        }
        let length = self.out.trim_end_matches('\n').len();
        self.out.truncate(length);
        self.out.push_str("\n\n");
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
}
