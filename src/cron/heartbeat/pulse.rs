//! The task that asks agents when it is time.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::agent::Runs;
use crate::config::HeartbeatSettings;
use crate::sessions::{AgentId, SessionKey};
use crate::support::Few;

use super::beat::{Beat, Cause};
use crate::cron::Cron;
use crate::cron::scheduler::sleep;

/// While agents have heartbeats the clock is looked at this often: a machine
/// that slept has not counted the time.
const LOOK_AGAIN: Duration = Duration::from_mins(5);

/// How often each agent is asked, and when the next time, in milliseconds.
type Next = Few<String, (u64, u64)>;

/// Whoever is asked as often as before keeps its time; the others begin anew. Nobody waits
/// longer than from now to the next time: a clock that was ahead may have been set back.
fn plan(all: &[HeartbeatSettings], next: &mut Next, now: u64) {
    let every = |agent: &str| all.iter().find(|it| it.agent_id == agent)?.every_ms;
    next.retain(|agent, (known, _)| every(agent) == Some(*known));
    for settings in all {
        if let Some(every) = settings.every_ms {
            let latest = now.saturating_add(every);
            let (_, due) = next.or_insert_with(settings.agent_id.clone(), || (every, latest));
            *due = latest.min(*due);
        }
    }
}

impl Cron {
    /// Asks agents by the clock and when somebody wakes them, for ever. With no
    /// agent to ask by the clock it only waits to be woken.
    pub async fn beat(self: Arc<Self>, runs: Arc<Runs>) {
        let mut next = Next::new();
        loop {
            let settings = self.parts.settings.now();
            plan(&settings.heartbeats, &mut next, self.now_ms());
            drop(settings);
            let wait = self.until(&next);
            let woken = self.heartbeats.woken.notified();
            tokio::select! {
                () = woken => {}
                () = sleep(wait) => {}
            }
            let settings = self.parts.settings.now();
            let all = &settings.heartbeats;
            let wanted = std::mem::take(&mut self.heartbeats.state.lock().wanted);
            for ((agent, session), is_reminder) in wanted.iter() {
                let session = session.clone();
                let cause =
                    if *is_reminder { Cause::Reminder(session) } else { Cause::Woken(session) };
                self.spawn_beat(&runs, self.heartbeat_settings(agent), cause);
            }
            let now = self.now_ms();
            for settings in all {
                let Some((_, due)) = next.get_mut(&settings.agent_id) else { continue };
                let Some(every) = settings.every_ms.filter(|_| *due <= now) else { continue };
                *due = now.saturating_add(every);
                let is_on = self.heartbeats.is_enabled() && self.is_active(settings, now);
                let place = (settings.agent_id.clone(), self.heartbeat_session(settings));
                if is_on && !wanted.contains_key(&place) {
                    self.spawn_beat(&runs, settings.clone(), Cause::Clock);
                }
            }
        }
    }

    /// The session in which an agent has its heartbeats.
    pub(super) fn heartbeat_session(&self, settings: &HeartbeatSettings) -> SessionKey {
        let (agent, keys) = (AgentId::normalize(&settings.agent_id), &self.parts.keys.now());
        match settings.session.as_deref() {
            Some(written) => SessionKey::parse_for(written, &agent, keys),
            None => SessionKey::main(&agent, keys),
        }
    }

    /// How an agent is asked, as the configuration is now.
    pub(super) fn heartbeat_settings(&self, agent: &str) -> HeartbeatSettings {
        let settings = self.parts.settings.now();
        settings_of(&settings.heartbeats, &settings.heartbeat_of_others, agent)
    }

    /// So many characters beside the word for it are no news of an agent.
    pub(in crate::cron) fn ack_max_chars(&self, agent: &AgentId) -> usize {
        self.heartbeat_settings(agent.as_str()).ack_max_chars
    }

    fn until(&self, next: &Next) -> Option<Duration> {
        let next =
            next.values().map(|(_, due)| *due).min().filter(|_| self.heartbeats.is_enabled())?;
        let wait = Duration::from_millis(next.saturating_sub(self.now_ms()));
        Some(wait.min(LOOK_AGAIN))
    }

    fn spawn_beat(self: &Arc<Self>, runs: &Arc<Runs>, settings: HeartbeatSettings, cause: Cause) {
        let beat = Beat { cron: Arc::clone(self), runs: Arc::clone(runs), settings, cause };
        runs.parts().tasks.spawn("heartbeat", Box::pin(beat.run()));
    }

    /// Whether it is one of the hours in which an agent is asked by the clock.
    pub(super) fn is_active(&self, settings: &HeartbeatSettings, now: u64) -> bool {
        let Some(hours) = &settings.active_hours else { return true };
        let zone = hours.zone.clone().unwrap_or_else(|| self.zone());
        let now = i64::try_from(now).ok().and_then(|now| Timestamp::from_millisecond(now).ok());
        let Some(now) = now.map(|now| now.to_zoned(zone)) else { return false };
        let minute = i16::from(now.hour()) * 60 + i16::from(now.minute());
        hours.holds(minute.unsigned_abs())
    }
}

/// How an agent is asked; one without heartbeats as it is said for all: what another agent
/// has, such as a chat that its answers go to, is not for this one.
fn settings_of(
    all: &[HeartbeatSettings],
    others: &HeartbeatSettings,
    agent: &str,
) -> HeartbeatSettings {
    let own = all.iter().find(|settings| settings.agent_id == agent);
    HeartbeatSettings { agent_id: agent.to_owned(), ..own.unwrap_or(others).clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_agent_says_is_not_told_where_another_one_has_it() {
        let all = [HeartbeatSettings {
            agent_id: "ops".into(),
            target: "telegram".into(),
            to: Some("-100".into()),
            ..HeartbeatSettings::usual()
        }];
        let place = |agent: &str| {
            let asked = settings_of(&all, &HeartbeatSettings::usual(), agent);
            (asked.agent_id, asked.target, asked.to)
        };
        assert_eq!(place("ops"), ("ops".into(), "telegram".into(), Some("-100".into())));
        assert_eq!(place("main"), ("main".into(), "none".into(), None));
    }

    #[test]
    fn a_clock_that_is_set_back_puts_no_heartbeat_off() {
        let usual = HeartbeatSettings { every_ms: Some(1000), ..HeartbeatSettings::usual() };
        let (all, mut next) = ([usual], Next::new());
        let due = |next: &Next| next.values().map(|(_, due)| *due).collect::<Vec<_>>();
        plan(&all, &mut next, 90_000);
        plan(&all, &mut next, 90_400);
        assert_eq!(due(&next), [91_000], "who waits keeps its time");
        plan(&all, &mut next, 5000);
        assert_eq!(due(&next), [6000]);
    }
}
