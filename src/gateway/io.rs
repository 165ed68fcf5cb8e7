//! Below the WebSocket: count and bound what is read.
//!
//! The WebSocket library fixes its limits at the upgrade, but before `connect`
//! a client may send far less than after it. So the bound is enforced here, on
//! the bytes, and lifted when the client has proved itself.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::meter::{Meter, Phase};
use super::preauth::PreauthPermit;
use super::transport::Transport;

/// A connection has this long for the head of its next request, TLS included: from
/// its beginning, or from when the last answer was written.
const REQUEST_LIMIT: Duration = Duration::from_secs(15);
/// A client has this long to read some of an answer that waits to be written.
const STALL_LIMIT: Duration = Duration::from_secs(30);
/// How long a client may go on sending a body that is not wanted before it reads
/// the refusal. Many send all of it first, and a connection that is closed with
/// bytes unread is reset, which takes the answer away (RFC 9112, §9.6).
pub const LINGER_LIMIT: Duration = Duration::from_secs(3);

/// A connection with a [`Meter`], which is above TLS: it sees what the WebSocket does.
pub struct MeteredStream {
    inner: Transport,
    meter: Arc<Meter>,
    permit: Arc<PreauthPermit>,
    /// For the next request; none for a WebSocket.
    deadline: Option<Pin<Box<Sleep>>>,
    /// How many requests had been answered when it was set.
    answers: u32,
    /// For the next byte of an answer that cannot be written now.
    stall: Option<Pin<Box<Sleep>>>,
    /// For the rest of a body that is not wanted, when all has been written.
    linger: Option<Pin<Box<Sleep>>>,
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.meter.phase() {
            Phase::Request(left) => {
                self.meter.watch(cx.waker());
                if self.poll_deadline(cx).is_ready() {
                    return Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()));
                }
                let polled = self.poll_limited(cx, buf, left);
                if polled.is_pending() { self.or_cut(polled) } else { polled }
            }
            Phase::Answering(left) => {
                self.meter.watch(cx.waker());
                let polled = match left {
                    Some(left) => self.poll_limited(cx, buf, left),
                    None => Pin::new(&mut self.inner).poll_read(cx, buf),
                };
                if polled.is_pending() { self.or_turned(cx, polled) } else { polled }
            }
            Phase::Closing(0) => self.poll_discard(cx),
            Phase::Limited(left) => {
                self.deadline = None;
                self.meter.watch(cx.waker());
                let polled = self.poll_limited(cx, buf, left);
                if polled.is_pending() { self.or_cut(polled) } else { polled }
            }
            Phase::Closing(left) => self.poll_limited(cx, buf, left),
            Phase::Cut => Poll::Ready(Err(std::io::ErrorKind::ConnectionAborted.into())),
            Phase::Open => {
                self.deadline = None;
                Pin::new(&mut self.inner).poll_read(cx, buf)
            }
        }
    }
}

impl MeteredStream {
    /// A connection that was accepted, with its place among those who wait.
    pub fn new(inner: Transport, meter: Arc<Meter>, permit: PreauthPermit) -> Self {
        Self {
            inner,
            meter,
            permit: Arc::new(permit),
            deadline: Some(Box::pin(tokio::time::sleep(REQUEST_LIMIT))),
            answers: 0,
            stall: None,
            linger: None,
        }
    }

    /// What a request's handler learns of it.
    pub fn wire(&self, remote: SocketAddr) -> Wire {
        Wire { remote, meter: Arc::clone(&self.meter), permit: Arc::clone(&self.permit) }
    }

    /// Switches what the client may send.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Its place among those who wait to log in.
    pub fn permit(&self) -> &PreauthPermit {
        &self.permit
    }

    /// Ready when the next request has not come in time.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let answers = self.meter.answers();
        if self.answers != answers {
            self.answers = answers;
            self.put_off();
        }
        self.deadline.as_mut().map_or(Poll::Pending, |deadline| deadline.as_mut().poll(cx))
    }

    /// Time for the next request counts from now.
    fn put_off(&mut self) {
        if let Some(deadline) = &mut self.deadline {
            deadline.as_mut().reset(Instant::now() + REQUEST_LIMIT);
        }
    }

    /// Whether what is written by HTTP goes on; a WebSocket has a queue of its own
    /// that is cut.
    fn or_stalled<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<std::io::Result<T>>,
    ) -> Poll<std::io::Result<T>> {
        let phase = self.meter.phase();
        if phase == Phase::Cut {
            return Poll::Ready(Err(std::io::ErrorKind::ConnectionAborted.into()));
        }
        let is_http = matches!(phase, Phase::Request(_) | Phase::Answering(_));
        if !is_http || polled.is_ready() {
            self.stall = None;
            // The end of an answer may still be on its way when its body is over. Before
            // the first one there is nothing to be written.
            if matches!(phase, Phase::Request(_)) && self.meter.answers() > 0 {
                self.put_off();
            }
            return polled;
        }
        let stall = self.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL_LIMIT)));
        ready!(stall.as_mut().poll(cx));
        Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()))
    }

    fn poll_limited(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        left: usize,
    ) -> Poll<std::io::Result<()>> {
        if left == 0 {
            let error = std::io::Error::other("too much before connect");
            return Poll::Ready(Err(error));
        }
        let mut space = [0_u8; 4 * 1024];
        let room = left.min(buf.remaining()).min(space.len());
        let mut part = ReadBuf::new(space.get_mut(..room).unwrap_or_default());
        let polled = Pin::new(&mut self.inner).poll_read(cx, &mut part);
        buf.put_slice(part.filled());
        self.meter.spend(part.filled().len());
        polled
    }

    /// A cut that came while the waker was being noted would be missed.
    fn or_cut(&self, polled: Poll<std::io::Result<()>>) -> Poll<std::io::Result<()>> {
        if self.meter.phase() == Phase::Cut {
            return Poll::Ready(Err(std::io::ErrorKind::ConnectionAborted.into()));
        }
        polled
    }

    /// The same, and the turn to waiting for the next request as well.
    fn or_turned(
        &self,
        cx: &Context<'_>,
        polled: Poll<std::io::Result<()>>,
    ) -> Poll<std::io::Result<()>> {
        if matches!(self.meter.phase(), Phase::Request(_)) {
            cx.waker().wake_by_ref();
        }
        self.or_cut(polled)
    }

    /// Throws the rest of a body away until the client ends, or its time is over.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.meter.watch(cx.waker());
        let limit = self.linger.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER_LIMIT)));
        if limit.as_mut().poll(cx).is_ready() || self.meter.is_cut() {
            return Poll::Ready(Ok(()));
        }
        // A connection that is broken is at its end, too.
        self.poll_discard(cx).map(|_| Ok(()))
    }

    /// Throws away what a refused client still sends, so that it sees the close
    /// frame instead of a reset. Whoever closes bounds the time that this takes.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let mut space = [0_u8; 16 * 1024];
        loop {
            let mut rubbish = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut rubbish))?;
            if rubbish.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.or_stalled(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.or_stalled(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        if polled.is_ready() {
            return polled;
        }
        // TLS has taken what nobody reads.
        self.meter.watch(cx.waker());
        self.or_cut(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
        }
        if self.meter.leaves_rest() { self.poll_linger(cx) } else { Poll::Ready(Ok(())) }
    }
}

/// What a request's handler learns of its connection.
#[derive(Clone)]
pub struct Wire {
    /// The other end.
    pub remote: SocketAddr,
    /// Switches what it may send.
    pub meter: Arc<Meter>,
    /// Its place among those who wait to log in.
    pub permit: Arc<PreauthPermit>,
}

impl Wire {
    /// A request has proved who sent it: its body has the bounds of its route, and
    /// the connection waits for no login.
    pub fn trust(&self) {
        self.meter.trusted();
        self.permit.leave();
    }

    /// A request will prove by its whole body who sent it, which may have so many
    /// bytes.
    pub fn allow(&self, bytes: u64) {
        self.meter.allow(bytes);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::gateway::preauth::PreauthBudget;
    use crate::support::blocking;
    use std::cell::Cell;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    /// Both ends of a connection, and what bounds it.
    pub async fn pair() -> (TcpStream, MeteredStream, Arc<Meter>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (client, (tcp, peer)) = (client.unwrap(), server.unwrap());
        let meter = Arc::new(Meter::new());
        let permit = PreauthBudget::new(1).enter(peer.ip(), false, Arc::clone(&meter));
        let server = MeteredStream::new(Transport::Plain(tcp), Arc::clone(&meter), permit);
        (client, server, meter)
    }

    /// While it lives, time goes on where a test says so alone, and not whenever
    /// everybody waits for the kernel.
    fn still() -> std::sync::mpsc::Sender<()> {
        let (held, over) = std::sync::mpsc::channel();
        drop(blocking(move || over.recv()));
        held
    }

    async fn end(server: &mut MeteredStream) -> std::io::ErrorKind {
        let mut space = [0; 1024];
        loop {
            match server.read(&mut space).await {
                Ok(0) => return std::io::ErrorKind::UnexpectedEof,
                Ok(_) => {}
                Err(error) => return error.kind(),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_its_time_however_it_comes() {
        let (mut client, mut server, _) = pair().await;
        let began = Instant::now();
        let trickle = async {
            loop {
                client.write_all(b"x").await.unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let ended = tokio::select! {
            ended = end(&mut server) => ended,
            () = trickle => unreachable!(),
        };
        assert_eq!(ended, std::io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), REQUEST_LIMIT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_written_before_any_answer_puts_nothing_off() {
        let (_client, mut server, _) = pair().await;
        let began = Instant::now();
        let write = async {
            loop {
                server.write_all(b"x").await.unwrap();
                if let Ok(ended) = timeout(Duration::from_secs(1), end(&mut server)).await {
                    return ended;
                }
            }
        };
        let ended = timeout(REQUEST_LIMIT * 2, write).await.expect("it has its time");
        assert_eq!(ended, std::io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), REQUEST_LIMIT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn time_stands_still_while_a_request_is_answered_and_begins_anew_after_it() {
        let (_client, mut server, meter) = pair().await;
        meter.answering();
        let began = Instant::now();
        let answer = async {
            tokio::time::sleep(Duration::from_hours(1)).await;
            meter.answered();
        };
        let (ended, ()) = tokio::join!(end(&mut server), answer);
        assert_eq!(ended, std::io::ErrorKind::TimedOut);
        let expected = Duration::from_hours(1) + REQUEST_LIMIT;
        assert_eq!(began.elapsed().as_secs(), expected.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn every_request_has_a_budget_of_its_own_and_only_proof_lifts_it() {
        let (mut client, mut server, meter) = pair().await;
        let _still = still();
        let mut bytes = vec![0; 60 * 1024];
        for _ in 0..3 {
            let write = async { client.write_all(&vec![b'x'; 60 * 1024]).await.unwrap() };
            let (read, ()) = tokio::join!(server.read_exact(&mut bytes), write);
            read.unwrap();
            meter.answering();
            meter.answered();
        }
        meter.answering();
        meter.trusted();
        let mut body = vec![0; 1024 * 1024];
        let large = vec![b'x'; 1024 * 1024];
        let (read, ()) = tokio::join!(server.read_exact(&mut body), async {
            client.write_all(&large).await.unwrap();
        });
        read.unwrap();
        meter.answered();
        meter.answering();
        let (read, _) = tokio::join!(server.read_exact(&mut body), client.write_all(&large));
        assert_eq!(
            read.unwrap_err().kind(),
            std::io::ErrorKind::Other,
            "nobody has proved himself"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_his_answer_is_cut_and_who_waits_for_one_is_not() {
        let (_client, mut server, meter) = pair().await;
        meter.answering();
        tokio::time::sleep(Duration::from_hours(1)).await;
        server.write_all(b"something to say at last").await.unwrap();
        let began = Instant::now();
        let error = server.write_all(&vec![b'x'; 64 * 1024 * 1024]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        // What the kernel takes late puts it off.
        assert!(began.elapsed() >= STALL_LIMIT, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_his_answer_slowly_gets_all_of_it() {
        let (mut client, mut server, meter) = pair().await;
        meter.answering();
        let _still = still();
        let began = Instant::now();
        let answer = vec![b'x'; 32 * 1024 * 1024];
        let written = Cell::new(0);
        let write = async {
            for part in answer.chunks(64 * 1024) {
                server.write_all(part).await.unwrap();
                written.set(written.get() + part.len());
            }
        };
        let read = async {
            let mut space = vec![0; 256 * 1024];
            let mut came = 0;
            while came < answer.len() {
                tokio::time::advance(STALL_LIMIT * 9 / 10).await;
                let before = written.get();
                while written.get() == before && came < answer.len() {
                    came += client.read(&mut space).await.unwrap();
                }
            }
        };
        tokio::join!(write, read);
        assert!(began.elapsed() > STALL_LIMIT * 2, "{:?}", began.elapsed());
        assert_eq!(meter.phase(), Phase::Answering(Some(64 * 1024)));
    }
}
