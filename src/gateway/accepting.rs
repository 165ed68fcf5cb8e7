//! A socket that takes connections, and how it is.
//!
//! Owns: how long to wait when the system gives none, and what is said of it.
//! Promises: one record when it begins and one when it is over, however long it
//! lasts; it costs next to nothing meanwhile; that it is over is found out although
//! nobody connects. Must not: give up.

use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::support::trouble;

/// How long to wait when the process is out of file descriptors, or nearly.
const PAUSE: Duration = Duration::from_millis(200);

/// How a listening socket is.
#[derive(Debug)]
pub struct Accepting {
    /// The part of the gateway that it is.
    part: &'static str,
    is_failing: bool,
}

impl Accepting {
    /// A socket of this part that works.
    pub const fn new(part: &'static str) -> Self {
        Self { part, is_failing: false }
    }

    /// The next connection that `accept` gives.
    pub async fn next<T, F>(&mut self, mut accept: impl FnMut() -> F) -> T
    where
        F: Future<Output = io::Result<T>>,
    {
        loop {
            let mut accepted = pin!(accept());
            let accepted = match futures_util::poll!(&mut accepted) {
                Poll::Ready(accepted) => accepted,
                // Without descriptors it would have failed, though nobody waits.
                Poll::Pending => {
                    self.is_well();
                    accepted.await
                }
            };
            match accepted {
                // Where there was trouble, others may still wait, and this was the last place:
                // it is over once nobody waits.
                Ok(socket) => return socket,
                Err(error) if is_of_the_peer(&error) => {
                    tracing::debug!(part = self.part, %error, "gone before it was accepted");
                }
                Err(error) => {
                    self.is_stuck(&error);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn is_well(&mut self) {
        if std::mem::take(&mut self.is_failing) {
            trouble::tell(self.part, None);
            tracing::info!(part = self.part, "takes connections again");
        }
    }

    fn is_stuck(&mut self, error: &io::Error) {
        if !self.is_failing {
            self.is_failing = true;
            trouble::tell(self.part, Some(format!("takes no connections: {error}")));
            tracing::warn!(part = self.part, %error, "takes no connections; trying on");
        }
    }
}

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::ConnectionAborted | Kind::ConnectionReset | Kind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the table has for this part.
    fn is_told(part: &str) -> bool {
        trouble::of(part).is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_while_there_are_no_descriptors_and_finds_out_by_itself_that_there_are() {
        let mut accepting = Accepting::new("test of descriptors");
        let began = tokio::time::Instant::now();
        let mut failures = 0;
        let waiting = accepting.next(|| {
            failures += 1;
            let fails = failures < 50;
            assert_eq!(is_told("test of descriptors"), failures > 1);
            async move {
                if fails {
                    Err(io::Error::from_raw_os_error(24))
                } else {
                    std::future::pending().await
                }
            }
        });
        let waited = tokio::time::timeout(Duration::from_mins(1), waiting).await;
        let waited: Result<(), _> = waited;
        assert!(waited.is_err(), "nobody connects");
        assert_eq!(failures, 50);
        assert!(!is_told("test of descriptors"));
        assert_eq!(began.elapsed(), Duration::from_mins(1));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_gone_already_holds_nobody_up() {
        let mut accepting = Accepting::new("test of peers");
        let mut tries = 0;
        let next = accepting.next(|| {
            tries += 1;
            let comes = tries == 3;
            async move { if comes { Ok(7) } else { Err(io::ErrorKind::ConnectionAborted.into()) } }
        });
        assert_eq!(tokio::time::timeout(Duration::from_millis(1), next).await, Ok(7));
        assert!(!is_told("test of peers"));
    }
}
