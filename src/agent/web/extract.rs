//! From a page to what is written on it.
//!
//! Owns: finding the article of a page, HTML to Markdown or text. Promises: no
//! page, however it is made, takes more than its time or brings the gateway
//! down. Must not: fetch anything.

use std::sync::Arc;
use std::time::Duration;

use dom_query::Document;
use dom_smoothie::{Config, Readability, TextMode};
use tokio::sync::Semaphore;

use crate::support::blocking;

use super::error::FetchError;

/// Elements that are read; the rest of a page is cut off. Parsing takes time
/// by the square of them in a page that is made for it; long articles have
/// half as many.
const MAX_ELEMENTS: usize = 30_000;
/// Deepest nesting. The crates go down by recursion, and a thread's stack ends
/// somewhere; browsers stop at 512, and pages have 30.
const MAX_DEPTH: usize = 256;
/// How long a page may take; most take milliseconds.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Pages at a time. One that runs into its limit holds a thread until it ends.
const AT_A_TIME: usize = 2;

/// What a page is made into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExtractMode {
    /// Markdown.
    Markdown,
    /// Text without marks.
    Text,
}

impl ExtractMode {
    /// The name that the model uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Text => "text",
        }
    }
}

/// What is written on a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// Its title, if it has one.
    pub title: Option<String>,
    /// Its text.
    pub text: String,
    /// `readability` for the article, `html` for all of the page.
    pub by: &'static str,
    /// Whether the page had more elements than are read.
    pub is_cut: bool,
}

/// Reads pages.
#[derive(Clone)]
pub struct Extractor(Arc<Semaphore>);

impl Default for Extractor {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_A_TIME)))
    }
}

impl Extractor {
    /// What is written on a page. With `article`, the article of it when there
    /// is one.
    ///
    /// # Errors
    /// When the page cannot be read within the limits.
    pub async fn extract(
        &self,
        html: String,
        url: String,
        mode: ExtractMode,
        article: bool,
    ) -> Result<Extracted, FetchError> {
        let places = Arc::clone(&self.0);
        let work = async move {
            let place = places.acquire_owned().await;
            let read = blocking(move || {
                let _place = place;
                extract(&html, &url, mode, article)
            });
            read.await.unwrap_or_else(|_| Err(unreadable("the page cannot be parsed")))
        };
        let took = tokio::time::timeout(TIME_LIMIT, work).await;
        took.unwrap_or_else(|_| Err(unreadable("the page takes too long to parse")))
    }
}

/// The same, at once and without a limit of time.
///
/// # Errors
/// When the page is nested too deep.
fn extract(
    html: &str,
    url: &str,
    mode: ExtractMode,
    article: bool,
) -> Result<Extracted, FetchError> {
    let (html, is_cut) = cut(html);
    let document = Document::from(html);
    if is_deep(&document) {
        return Err(unreadable("the page is nested too deep to be read"));
    }
    if article && let Some((title, text)) = read_article(document.clone(), url, mode) {
        return Ok(Extracted { title, text, by: "readability", is_cut });
    }
    let title = document.select("title").text().trim().to_owned();
    document.select("script, style, noscript, template, svg, iframe").remove();
    let text = match mode {
        ExtractMode::Markdown => document.md(None),
        ExtractMode::Text => document.formatted_text(),
    };
    let title = (!title.is_empty()).then_some(title);
    Ok(Extracted { title, text: text.trim().to_owned(), by: "html", is_cut })
}

fn read_article(
    document: Document,
    url: &str,
    mode: ExtractMode,
) -> Option<(Option<String>, String)> {
    let text_mode = match mode {
        ExtractMode::Markdown => TextMode::Markdown,
        ExtractMode::Text => TextMode::Formatted,
    };
    let config = Config { text_mode, ..Config::default() };
    let mut reader = Readability::with_document(document, Some(url), Some(config)).ok()?;
    let article = reader.parse().ok()?;
    let text = article.text_content.trim();
    let title = article.title.trim();
    let title = (!title.is_empty()).then(|| title.to_owned());
    (!text.is_empty()).then(|| (title, text.to_owned()))
}

/// As much of a page as is read: elements are counted by their beginnings.
fn cut(html: &str) -> (&str, bool) {
    let mut begins = html.as_bytes().windows(2).enumerate().filter_map(|(at, pair)| match pair {
        [b'<', letter] if letter.is_ascii_alphabetic() => Some(at),
        _ => None,
    });
    match begins.nth(MAX_ELEMENTS) {
        Some(at) => (html.get(..at).unwrap_or(html), true),
        None => (html, false),
    }
}

/// Walks through the whole document without recursion.
fn is_deep(document: &Document) -> bool {
    let mut node = document.root();
    let mut depth = 0_usize;
    loop {
        if let Some(child) = node.first_child() {
            depth += 1;
            if depth > MAX_DEPTH {
                return true;
            }
            node = child;
            continue;
        }
        loop {
            if depth == 0 {
                return false;
            }
            if let Some(sibling) = node.next_sibling() {
                node = sibling;
                break;
            }
            let Some(parent) = node.parent() else { return false };
            node = parent;
            depth -= 1;
        }
    }
}

fn unreadable(why: &str) -> FetchError {
    FetchError::Unreadable(format!("Web fetch extraction failed: {why}."))
}

#[cfg(test)]
mod tests;
