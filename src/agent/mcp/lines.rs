//! What a program says, line by line.
//!
//! Owns: making of its output what the protocol's reader takes. Promises: a message
//! that is no UTF-8, or has half a character as an escape, loses letters, not its call; one
//! that is too long is dropped, and who waits for it is told so; the last one needs no end.
//! Must not: know what messages mean.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, BufReader, ReadBuf};

use super::connect::MAX_MESSAGE;
use crate::support::{json, whole_escapes};

/// What is kept of the beginning and of the end of a line that is too long: its id is in
/// one of them.
const EDGE: usize = 512;
/// What JSON-RPC calls an error inside of a server.
const INTERNAL_ERROR: i64 = -32603;

/// The output of a program, with each line in a form that can be read.
pub struct Lines<R> {
    /// Whose output it is.
    server: String,
    output: BufReader<R>,
    /// The line that has no end yet; its edges when it is too long.
    line: Vec<u8>,
    is_long: bool,
    /// The last line that has one, and how much of it was handed on.
    whole: Vec<u8>,
    handed: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// The output of `server`.
    pub fn new(server: &str, output: R) -> Self {
        Self {
            server: server.to_owned(),
            output: BufReader::new(output),
            line: Vec::new(),
            is_long: false,
            whole: Vec::new(),
            handed: 0,
        }
    }

    fn add(&mut self, bytes: usize) {
        self.line.extend_from_slice(self.output.buffer().get(..bytes).unwrap_or_default());
        self.is_long |= self.line.len() > MAX_MESSAGE;
        let end = self.line.len().saturating_sub(EDGE);
        if self.is_long && end > EDGE {
            self.line.drain(EDGE..end);
        }
    }

    fn finish(&mut self) {
        let text = String::from_utf8(std::mem::take(&mut self.line));
        let text =
            text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let text = if std::mem::take(&mut self.is_long) { self.instead_of(&text) } else { text };
        // The reader passes over such a line, and who waits for it would wait to the end.
        let whole = if text.contains("\\u") { whole_escapes(&text) } else { None };
        let text = whole.unwrap_or(text);
        (self.whole, self.handed) = (text.into_bytes(), 0);
    }

    /// What is handed on for a line that is too long: an error for who waits for it.
    fn instead_of(&self, edges: &str) -> String {
        let mib = MAX_MESSAGE / 1024 / 1024;
        let Some(id) = id(edges) else {
            tracing::warn!(server = self.server, "a message of more than {mib} MiB is dropped");
            return String::new();
        };
        let text = format!("The answer of {} has more than {mib} MiB.", self.server);
        let error = json!({"code": INTERNAL_ERROR, "message": text});
        json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string() + "\n"
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let rest = self.whole.get(self.handed..).unwrap_or_default();
            if !rest.is_empty() {
                let taken = rest.get(..into.remaining()).unwrap_or(rest);
                into.put_slice(taken);
                let taken = taken.len();
                self.handed += taken;
                if self.handed == self.whole.len() {
                    // A long one would stay in memory until the next one comes.
                    (self.whole, self.handed) = (Vec::new(), 0);
                }
                return Poll::Ready(Ok(()));
            }
            let there = ready!(Pin::new(&mut self.output).poll_fill_buf(cx))?;
            let end = there.iter().position(|byte| *byte == b'\n');
            let bytes = end.map_or(there.len(), |end| end + 1);
            if bytes == 0 {
                if self.line.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                // The reader takes nothing for a message that has no end.
                self.line.push(b'\n');
                self.finish();
                continue;
            }
            self.add(bytes);
            Pin::new(&mut self.output).consume(bytes);
            if end.is_some() {
                self.finish();
            }
        }
    }
}

/// The id of an answer of ours, whose edges these are: it is a number, in front of the
/// result or behind it.
fn id(edges: &str) -> Option<u64> {
    let number = |text: &str| -> Option<u64> {
        let text = text.trim_start().strip_prefix(':')?.trim_start();
        let end = text.find(|c: char| !c.is_ascii_digit())?;
        text.get(..end)?.parse().ok()
    };
    let (front, _) = edges.split_once("\"result\"")?;
    if let Some((_, after)) = front.split_once("\"id\"") {
        // With these it is a question of the server.
        let is_answer = !front.contains("\"method\"") && !front.contains("\"params\"");
        return number(after).filter(|_| is_answer);
    }
    let (_, after) = edges.rsplit_once("\"id\"")?;
    let is_own = after.matches(['{', '}', '[', ']']).eq(["}"]);
    number(after).filter(|_| is_own)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn read(output: &[u8]) -> String {
        let mut text = String::new();
        Lines::new("docs", output).read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn lines_come_as_they_are_and_what_is_no_utf_8_loses_a_letter() {
        assert_eq!(read(b"one\r\n\ntwo\n").await, "one\r\n\ntwo\n");
        assert_eq!(read(b"caf\xe9 \xc3\xa9\nrest").await, "caf\u{fffd} \u{e9}\nrest\n");
        let halves = br#"["a\ud83d", "\ud83d\ude00", "\\ud83d"]"#;
        let whole = r#"["a\ufffd", "\ud83d\ude00", "\\ud83d"]"#;
        assert_eq!(read(halves).await, whole.to_owned() + "\n");
        let long = "x".repeat(100_000) + "\n";
        assert_eq!(read(long.as_bytes()).await, long);
    }

    #[tokio::test]
    async fn nothing_is_kept_of_what_was_handed_on() {
        let line = "x".repeat(100_000) + "\n";
        let mut lines = Lines::new("docs", line.as_bytes());
        let mut handed = vec![0; line.len()];
        lines.read_exact(&mut handed).await.unwrap();
        assert_eq!(handed, line.as_bytes());
        assert_eq!((lines.line.capacity(), lines.whole.capacity()), (0, 0));
    }

    #[tokio::test]
    async fn who_waits_for_a_line_that_is_too_long_is_told_so() {
        let text = "x".repeat(MAX_MESSAGE);
        let error = "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32603,\
            \"message\":\"The answer of docs has more than 16 MiB.\"}}\n";
        for (line, told) in [
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{{\"a\":\"{text}\"}}}}\n"), error),
            (format!("{{\"result\":{{\"a\":\"{text}\"}},\"jsonrpc\":\"2.0\",\"id\": 7}}\n"), error),
            (format!("{{\"method\":\"a\",\"params\":{{\"id\":7,\"result\":\"{text}\"}}}}\n"), ""),
            (format!("{text}.\n"), ""),
        ] {
            assert_eq!(read(line.trim_end().as_bytes()).await, told);
            assert_eq!(read((line + "after\n").as_bytes()).await, format!("{told}after\n"));
        }
    }

    #[test]
    fn the_id_of_a_result_is_not_taken_for_the_one_of_its_message() {
        assert_eq!(id("{\"id\":3,\"result\":{\"id\":4}}"), Some(3));
        assert_eq!(id("{\"result\":{\"id\":4},\"id\":3,\"jsonrpc\":\"2.0\"}\n"), Some(3));
        assert_eq!(id("{\"result\":{\"id\":4}}\n"), None);
        assert_eq!(id("{\"id\":\"a\",\"result\":{}}"), None);
    }
}
