//! Speech: wake words, text to speech, talking.
//!
//! Owns: which words wake an agent and whom each of them wakes; who speaks, what
//! people have chosen, and speaking. Promises: what was acknowledged is on disk;
//! every node hears of a change, and of the state when it connects, in the order
//! of the changes. Must not: know methods.

pub mod tts;
mod wake;

use std::sync::Arc;

use tokio::sync::{Mutex, Semaphore};

use crate::support::{Clock, Live, Tasks, json};

pub use wake::{Route, RouteTarget, Routing, words};

use crate::agent::web::Tls;
use crate::bus::{Audience, Bus, Event, EventKind, Subscriber};
use crate::config::{Env, Settings};
use crate::store::{JsonFile, JsonFileError};

/// Texts that are spoken at a time: services allow few, and their sound is
/// held in memory.
const SPEAKING_MAX: usize = 4;

/// What speech works with.
pub struct VoiceParts {
    /// What the config says of it.
    pub settings: Live<Settings>,
    /// The surroundings of the process.
    pub env: Env,
    /// Where events go.
    pub bus: Bus,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Background tasks.
    pub tasks: Tasks,
}

/// Everything about speech that is kept.
pub struct Voice {
    parts: VoiceParts,
    words: JsonFile,
    routing: JsonFile,
    /// Held from reading to telling, so that the last thing told is the state.
    gate: Mutex<()>,
    speaking: Semaphore,
    tls: Tls,
}

impl Voice {
    /// Nothing is read yet.
    pub fn new(parts: VoiceParts) -> Self {
        tts::tidy(&parts);
        // Where OpenClaw keeps what people choose while it runs.
        let dir = parts.settings.now().paths.state_dir.join("settings");
        let file = |name: &str| JsonFile::new(dir.join(name));
        let (words, routing) = (file("voicewake.json"), file("voicewake-routing.json"));
        let speaking = Semaphore::new(SPEAKING_MAX);
        Self { words, routing, gate: Mutex::default(), speaking, tls: Tls::default(), parts }
    }

    /// The surroundings, with the variables of the config.
    fn env(&self) -> Env {
        self.parts.settings.now().environment(&self.parts.env)
    }

    /// The words that wake an agent; those of the original as long as nobody
    /// has chosen any.
    ///
    /// # Errors
    /// When their file cannot be read.
    pub async fn wake_words(&self) -> Result<Vec<String>, JsonFileError> {
        let kept = self.words.read(|kept| Ok(words::kept(kept))).await?;
        Ok(kept.unwrap_or_else(words::standard))
    }

    /// Keeps other words, and tells everybody. Without any the standard ones
    /// come back.
    ///
    /// # Errors
    /// When they cannot be kept, or those of before cannot be read; then nobody is told.
    pub async fn set_wake_words(&self, written: &[String]) -> Result<Vec<String>, JsonFileError> {
        let triggers = words::tidy(written);
        let kept = json!({"triggers": triggers, "updatedAtMs": self.parts.clock.now_ms()});
        let _gate = self.gate.lock().await;
        // Somebody may want to mend it.
        self.wake_words().await?;
        self.words.write(&kept).await?;
        let told = json!({"triggers": triggers});
        self.parts.bus.publish(EventKind::VoicewakeChanged, &Audience::Everyone, &told);
        Ok(triggers)
    }

    /// Whom the words wake.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn routing(&self) -> Result<Routing, JsonFileError> {
        Ok(self.routing.read(Routing::kept).await?.unwrap_or_default())
    }

    /// Keeps another routing, and tells everybody.
    ///
    /// # Errors
    /// When it cannot be kept, or that of before cannot be read; then nobody is told.
    pub async fn set_routing(&self, routing: Routing) -> Result<Routing, JsonFileError> {
        let mut routing = routing;
        routing.updated_at_ms = self.parts.clock.now_ms();
        let _gate = self.gate.lock().await;
        self.routing().await?;
        self.routing.write(&json!(routing)).await?;
        let told = json!({"config": routing});
        self.parts.bus.publish(EventKind::VoicewakeRoutingChanged, &Audience::Everyone, &told);
        Ok(routing)
    }

    /// Tells a node that has just connected how things are. It has joined the
    /// bus by then, so it misses no change.
    pub async fn greet(&self, node: &Subscriber) {
        let _gate = self.gate.lock().await;
        let (triggers, routing) = tokio::join!(self.wake_words(), self.routing());
        let triggers = triggers.map(|triggers| json!({"triggers": triggers}));
        let routing = routing.map(|routing| json!({"config": routing}));
        for (kind, state) in
            [(EventKind::VoicewakeChanged, triggers), (EventKind::VoicewakeRoutingChanged, routing)]
        {
            match state {
                Ok(state) => node.outbox.event(&Arc::new(Event::new(kind, &state))),
                Err(error) => {
                    tracing::warn!(%error, event = kind.name(), "a node was not told of wake words");
                }
            }
        }
    }
}
