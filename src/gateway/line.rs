//! The connection under a WebSocket.
//!
//! Owns: the connection to its end, and frames that wait to be written past the WebSocket
//! library. Promises: they go in the order in which they were put, before what the library
//! has not begun to write, and never into the middle of what it has. Must not: know what a
//! frame says.

use std::future::poll_fn;
use std::io::{self, Cursor, ErrorKind, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use bytes::buf::Chain;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::io::MeteredStream;

/// A connection that became a WebSocket.
pub struct Line {
    stream: MeteredStream,
    /// They are written before anything that the library writes after they were put here.
    frames: Chain<Cursor<Vec<u8>>, Cursor<Vec<u8>>>,
    /// Whether the library has written a part of something.
    is_midway: bool,
}

impl Line {
    /// Nothing waits.
    pub fn new(stream: MeteredStream) -> Self {
        Self { stream, frames: frames(Vec::new(), String::new()), is_midway: false }
    }

    /// What is under it.
    pub const fn stream(&self) -> &MeteredStream {
        &self.stream
    }

    /// The same, as the library wants it: what would have to be waited for is an error
    /// ([`ErrorKind::WouldBlock`]), and the task is woken when it is worth another try.
    pub const fn during<'a, 'b>(&'a mut self, task: &'a mut Context<'b>) -> Now<'a, 'b> {
        Now { line: self, task }
    }

    /// Whether something is on its way already that frames must not come into: then it
    /// has to be flushed before they are put here.
    pub fn is_busy(&self) -> bool {
        self.is_midway || self.frames.has_remaining()
    }

    /// Puts frames here, in two parts; the next flush sends them, before what the library
    /// holds.
    pub fn put(&mut self, first: Vec<u8>, second: String) {
        self.frames = frames(first, second);
    }

    /// Puts frames here that go before whatever the library holds, unless a part of
    /// something has gone already.
    pub fn put_before(&mut self, last: Vec<u8>) {
        if !self.is_busy() {
            self.put(last, String::new());
        }
    }

    /// Ends it, behind what waits, and throws away what still comes until the peer ends it
    /// as well: ended with something unread it would be reset.
    ///
    /// # Errors
    /// When it breaks.
    pub async fn linger(&mut self) -> io::Result<()> {
        poll_fn(|task| self.poll_shutdown(task)).await?;
        tokio::io::copy(&mut self.stream, &mut tokio::io::sink()).await.map(drop)
    }

    fn poll_shutdown(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_frames(task))?;
        Pin::new(&mut self.stream).poll_shutdown(task)
    }

    fn poll_frames(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.frames.has_remaining() {
            return Poll::Ready(Ok(()));
        }
        while self.frames.has_remaining() {
            let stream = Pin::new(&mut self.stream);
            let written = ready!(stream.poll_write(task, self.frames.chunk()))?;
            if written == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            self.frames.advance(written);
        }
        // What they were in is free for others.
        self.put(Vec::new(), String::new());
        Poll::Ready(Ok(()))
    }

    /// Sends what waits.
    pub fn poll_flush(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_frames(task))?;
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_write(&mut self, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_frames(task))?;
        let written = ready!(Pin::new(&mut self.stream).poll_write(task, bytes))?;
        self.is_midway = written < bytes.len();
        Poll::Ready(Ok(written))
    }
}

fn frames(first: Vec<u8>, second: String) -> Chain<Cursor<Vec<u8>>, Cursor<Vec<u8>>> {
    Buf::chain(Cursor::new(first), Cursor::new(second.into_bytes()))
}

/// A [`Line`] while a task is polled.
pub struct Now<'a, 'b> {
    line: &'a mut Line,
    task: &'a mut Context<'b>,
}

impl Read for Now<'_, '_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let mut space = ReadBuf::new(space);
        now(Pin::new(&mut self.line.stream).poll_read(self.task, &mut space))?;
        Ok(space.filled().len())
    }
}

impl Write for Now<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        now(self.line.poll_write(self.task, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        now(self.line.poll_flush(self.task))
    }
}

fn now<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(done) => done,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::gateway::io::tests::pair;

    /// More than a connection takes at once.
    const LARGE: usize = 8 * 1024 * 1024;

    #[tokio::test]
    async fn frames_go_before_what_is_written_after_they_were_put_and_wait_for_what_is_midway() {
        let (mut client, stream, _) = pair().await;
        let mut line = Line::new(stream);
        let write = |line: &mut Line, bytes: &'static [u8], task: &mut Context<'_>| {
            line.poll_write(task, bytes).map_ok(|written| assert_eq!(written, bytes.len()))
        };
        let (first, body) = (vec![b'a'; LARGE], "b".repeat(LARGE));
        let work = async {
            assert!(!line.is_busy());
            let mut written = 0;
            while written < LARGE {
                let rest = &first[written..];
                written += poll_fn(|task| line.poll_write(task, rest)).await.unwrap();
                // Then a good-bye does not come into the middle of it.
                assert_eq!(line.is_busy(), written < LARGE);
                line.put_before(if written < LARGE { "lost" } else { "kept" }.into());
            }
            poll_fn(|task| line.poll_flush(task)).await.unwrap();
            line.put(b"head".to_vec(), body.clone());
            poll_fn(|task| write(&mut line, b"last", task)).await.unwrap();
            assert!(!line.is_busy());
            poll_fn(|task| line.poll_shutdown(task)).await.unwrap();
        };
        let mut came = Vec::new();
        let ((), read) = tokio::join!(work, client.read_to_end(&mut came));
        read.unwrap();
        assert!(came == [&first[..], b"kepthead", body.as_bytes(), b"last"].concat());
    }

    #[tokio::test]
    async fn what_would_have_to_be_waited_for_is_an_error() {
        let (mut client, stream, _) = pair().await;
        let mut line = Line::new(stream);
        let mut space = [0; 8];
        let mut read = |line: &mut Line, task: &mut Context<'_>| line.during(task).read(&mut space);
        let now = poll_fn(|task| Poll::Ready(read(&mut line, task))).await;
        assert_eq!(now.unwrap_err().kind(), ErrorKind::WouldBlock);
        client.write_all(b"here").await.unwrap();
        let later = poll_fn(|task| match read(&mut line, task) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
            done => Poll::Ready(done),
        });
        assert_eq!(later.await.unwrap(), 4);
        let large = vec![0; LARGE];
        let write = |line: &mut Line, task: &mut Context<'_>| line.during(task).write(&large);
        let full = loop {
            match poll_fn(|task| Poll::Ready(write(&mut line, task))).await {
                Ok(written) => assert!(written > 0),
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        assert!(line.is_busy(), "some of it has gone");
    }
}
