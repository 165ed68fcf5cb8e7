//! What a connection runs over: TCP, or TLS on it.
//!
//! A TLS handshake takes place in the first read, so it is part of whatever
//! bounds that read, and no other connection waits for it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::Accept;
use tokio_rustls::server::TlsStream;

/// One end of a connection.
pub enum Transport {
    /// As it is.
    Plain(TcpStream),
    /// Encrypted. Boxed, so that plain ones do not have its size.
    Tls(Box<Encrypted>),
}

/// TLS, from its handshake on.
pub enum Encrypted {
    /// The handshake is under way.
    Greeting(Accept<TcpStream>),
    /// It is done.
    Open(TlsStream<TcpStream>),
    /// It has failed.
    Failed,
}

impl Encrypted {
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&mut TlsStream<TcpStream>>> {
        if let Self::Greeting(accept) = self {
            match ready!(Pin::new(accept).poll(cx)) {
                Ok(stream) => *self = Self::Open(stream),
                Err(error) => {
                    tracing::debug!(%error, "TLS handshake failed");
                    *self = Self::Failed;
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(match self {
            Self::Open(stream) => Ok(stream),
            Self::Greeting(_) | Self::Failed => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Self::Tls(tls) => Pin::new(ready!(tls.poll_open(cx))?).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Self::Tls(tls) => Pin::new(ready!(tls.poll_open(cx))?).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, bufs),
            Self::Tls(tls) => Pin::new(ready!(tls.poll_open(cx))?).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(tcp) => tcp.is_write_vectored(),
            Self::Tls(tls) => {
                matches!(&**tls, Encrypted::Open(stream) if stream.is_write_vectored())
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => match &mut **tls {
                Encrypted::Open(stream) => Pin::new(stream).poll_flush(cx),
                // Nothing was written. The end of a handshake that never comes would be
                // waited for before the connection is closed.
                Encrypted::Greeting(_) | Encrypted::Failed => Poll::Ready(Ok(())),
            },
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => match &mut **tls {
                Encrypted::Open(stream) => Pin::new(stream).poll_shutdown(cx),
                // Nothing was said that would have to be ended.
                Encrypted::Greeting(_) | Encrypted::Failed => Poll::Ready(Ok(())),
            },
        }
    }
}
