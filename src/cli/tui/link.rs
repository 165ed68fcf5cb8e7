//! The connection, and its renewal.
//!
//! Owns: the client, the requests that wait for answers, the pauses between tries. Promises:
//! every request is answered, told to be lost, or asked anew on the next connection; a gap in
//! the numbers of events is told. Must not: know what requests mean.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::state::{Ask, Event};
use crate::cli::CliError;
use crate::cli::client::{Client, ClientError, Incoming, RequestId, Target};
use crate::support::blocking;

/// Pause before the first new try; a gateway that restarts is back within a second.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Pauses do not get longer than this.
const LAST_PAUSE: Duration = Duration::from_secs(10);
/// What waits to be taken by the screen.
const QUEUE: usize = 1024;
/// Requests that wait to be sent.
const REQUESTS: usize = 256;

/// What the screen wants of the connection.
#[derive(Debug)]
pub enum Wish {
    /// Ask this.
    Request(Ask, &'static str, Value),
    /// Try to connect now.
    Now,
}

/// Finds the gateway: it may be elsewhere after a restart.
pub type Find = Arc<dyn Fn() -> Result<Target, CliError> + Send + Sync>;

/// The screen's end of it.
pub struct Link {
    /// What happens.
    pub events: mpsc::Receiver<Event>,
    /// What is to be done.
    pub wishes: mpsc::Sender<Wish>,
}

/// The connection's end of it.
pub struct Keeper {
    find: Find,
    limit: Duration,
    events: mpsc::Sender<Event>,
    wishes: mpsc::Receiver<Wish>,
}

/// The screen has gone.
struct Gone;

struct Pending {
    id: RequestId,
    ask: Ask,
    until: Instant,
}

/// Both ends.
pub fn link(find: Find, limit: Duration) -> (Link, Keeper) {
    let (sender, events) = mpsc::channel(QUEUE);
    let (wishes, wanted) = mpsc::channel(REQUESTS);
    (Link { events, wishes }, Keeper { find, limit, events: sender, wishes: wanted })
}

impl Keeper {
    /// Keeps the connection that there is, and makes new ones, until the screen goes.
    pub async fn keep(mut self, client: Client) {
        // The screen knows itself that it has gone.
        let _ = self.all(client).await;
    }

    async fn all(&mut self, mut client: Client) -> Result<(), Gone> {
        loop {
            self.tell(Event::Up(client.hello().clone())).await?;
            let mut pending = Vec::new();
            let error = self.serve(&mut client, &mut pending).await?;
            for Pending { ask, .. } in pending {
                self.lost(ask).await?;
            }
            client = self.renew(&error).await?;
        }
    }

    async fn tell(&self, event: Event) -> Result<(), Gone> {
        self.events.send(event).await.map_err(|_| Gone)
    }

    /// Tells that there is no answer to this, unless it is asked anew.
    async fn lost(&self, ask: Ask) -> Result<(), Gone> {
        if ask.comes_again() {
            return Ok(());
        }
        let result = Err("the connection was lost before there was an answer".to_owned());
        self.tell(Event::Answer { ask, result }).await
    }

    /// Until the connection is lost.
    async fn serve(
        &mut self,
        client: &mut Client,
        pending: &mut Vec<Pending>,
    ) -> Result<ClientError, Gone> {
        let mut last_seq = None;
        loop {
            let first = pending.iter().map(|pending| pending.until).min();
            tokio::select! {
                wish = self.wishes.recv() => match wish.ok_or(Gone)? {
                    Wish::Request(ask, method, params) => match client.start(method, params).await {
                        Ok(id) => pending.push(Pending { id, ask, until: Instant::now() + self.limit }),
                        Err(error) => {
                            self.lost(ask).await?;
                            return Ok(error);
                        }
                    },
                    Wish::Now => {}
                },
                incoming = client.next() => match incoming {
                    Ok(Incoming::Event(event)) => {
                        let is_gap = last_seq.zip(event.seq).is_some_and(|(last, seq): (u64, u64)| seq > last + 1);
                        last_seq = event.seq.or(last_seq);
                        if is_gap {
                            self.tell(Event::Gap).await?;
                        }
                        self.tell(Event::Gateway(event)).await?;
                    }
                    Ok(Incoming::Answer { id, result }) => {
                        if let Some(at) = pending.iter().position(|pending| pending.id == id) {
                            let ask = pending.remove(at).ask;
                            let result = result.map_err(|error| error.message);
                            self.tell(Event::Answer { ask, result }).await?;
                        }
                    }
                    Err(error) => return Ok(error),
                },
                () = at(first) => {
                    let now = Instant::now();
                    let late = pending.extract_if(.., |pending| pending.until <= now).collect::<Vec<_>>();
                    for Pending { ask, .. } in late {
                        // Whether it was taken, only the same message again tells.
                        if let Ask::Send(_) = ask {
                            return Ok(ClientError::Timeout { what: "chat.send".to_owned(), limit: self.limit });
                        }
                        let result = Err("the gateway does not answer".to_owned());
                        self.tell(Event::Answer { ask, result }).await?;
                    }
                }
            }
        }
    }

    /// Tries until there is a connection again.
    async fn renew(&mut self, lost: &ClientError) -> Result<Client, Gone> {
        let mut why = lost.to_string();
        let mut pause = FIRST_PAUSE;
        loop {
            let retry_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            self.tell(Event::Down { why, retry_ms }).await?;
            self.rest(pause).await?;
            pause = (pause * 2).min(LAST_PAUSE);
            match self.connect().await {
                Ok(client) => return Ok(client),
                Err(error) => why = error.to_string(),
            }
        }
    }

    async fn connect(&self) -> Result<Client, CliError> {
        let find = Arc::clone(&self.find);
        let found = blocking(move || find()).await;
        let target = found.map_err(std::io::Error::other)??;
        Ok(Client::connect(&target, self.limit).await?)
    }

    /// Waits, unless the user does not want to. Who asked meanwhile did not know yet that there
    /// is no connection.
    async fn rest(&mut self, pause: Duration) -> Result<(), Gone> {
        let pause = sleep(pause);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => return Ok(()),
                wish = self.wishes.recv() => match wish.ok_or(Gone)? {
                    Wish::Request(ask, ..) => self.lost(ask).await?,
                    Wish::Now => return Ok(()),
                },
            }
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_asked_as_the_connection_broke_is_told_to_be_lost() {
        let nowhere: Find = Arc::new(|| Err(CliError::Usage("nowhere".to_owned())));
        let (mut screen, mut keeper) = link(nowhere, Duration::from_secs(1));
        for wish in [
            Wish::Request(Ask::Abort, "chat.abort", Value::Null),
            Wish::Request(Ask::Follow, "sessions.subscribe", Value::Null),
            Wish::Now,
        ] {
            screen.wishes.send(wish).await.unwrap();
        }
        assert!(keeper.rest(Duration::from_hours(1)).await.is_ok());
        drop(keeper);
        let told = screen.events.recv().await;
        assert!(
            matches!(told, Some(Event::Answer { ask: Ask::Abort, result: Err(_) })),
            "{told:?}"
        );
        assert!(screen.events.recv().await.is_none(), "the other is asked anew");
    }
}
