//! Starting, stopping and beginning again.
//!
//! Promises: what runs as the service is stopped by who runs services, so that it is not
//! started again at once; any other gateway gets a signal, and its end is waited for.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::holder::{Holder, is_held, told_at};
use super::place::{Installed, Place};
use super::{Done, ServiceError};
use crate::cli::client::{Client, ClientError, Target};
use crate::cli::{Screen, Surroundings};
use crate::store::instance::{Running, refusal_at};
use crate::support::json;

/// A gateway that is told to stop lets runs end for 10 s, and may be held up some seconds
/// more by channels and disks.
const STOP_LIMIT: Duration = Duration::from_secs(40);
/// Before it begins again it lets runs end for five minutes, and then stops as above.
const RESTART_LIMIT: Duration = Duration::from_mins(6);
/// One that listens again answers within this.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// What a command is about.
enum About {
    /// The service of this state directory.
    Service(Place),
    /// A gateway that somebody has started in another way.
    ByHand(Place, Holder),
    /// There is neither.
    Nothing(Place),
}

impl About {
    fn find(around: &Surroundings) -> Result<Self, ServiceError> {
        let place = Place::of(&around.env)?;
        let is_installed = matches!(place.installed()?, Installed::Yes(_));
        let Some(holder) = Holder::of(&place.paths.instance_lock()) else {
            return Ok(if is_installed { Self::Service(place) } else { Self::Nothing(place) });
        };
        if is_installed && place.manager.look().pid == Some(holder.number()) {
            return Ok(Self::Service(place));
        }
        if holder.running.is_none() {
            return Err(ServiceError::Busy(holder.number()));
        }
        Ok(Self::ByHand(place, holder))
    }
}

/// Starts the service.
pub fn start(around: &Surroundings) -> Result<Done, ServiceError> {
    match About::find(around)? {
        About::Service(place) => {
            place.manager.check()?;
            place.manager.start(&place.file)?;
            Ok(of_service("started", "Started", &place))
        }
        About::ByHand(_, holder) => Ok(of_process(
            "already-running",
            format!("A gateway runs already (pid {})\n", holder.number()),
            holder,
        )),
        About::Nothing(place) => Err(missing(&place)),
    }
}

/// Stops the service, or the gateway that runs without one.
pub async fn stop(around: &Surroundings, screen: &mut Screen) -> Result<Done, ServiceError> {
    match About::find(around)? {
        About::Service(place) => {
            place.manager.check()?;
            place.manager.stop()?;
            Ok(of_service("stopped", "Stopped", &place))
        }
        About::ByHand(place, holder) => {
            let (lock, pid) = (place.paths.instance_lock(), holder.number());
            screen.note(&format!(
                "stopping the gateway (pid {pid}); its runs may go on for 10 seconds …"
            ))?;
            holder.signal(Signal::TERM)?;
            // One that writes down who it is has said nothing for a moment.
            let is_other = || Holder::of(&lock).is_some_and(|now| now.pid != holder.pid);
            let is_gone = || !is_held(&lock) || is_other();
            if !until(STOP_LIMIT, is_gone).await {
                return Err(ServiceError::StillRuns { pid, seconds: STOP_LIMIT.as_secs() });
            }
            Ok(of_process("stopped", format!("Stopped the gateway (pid {pid})\n"), holder))
        }
        About::Nothing(place) => {
            let dir = place.paths.state_dir.display();
            Ok(Done::new("not-running", format!("No gateway runs on {dir}\n")))
        }
    }
}

/// Stops the gateway of this state directory, if one runs, so that another one can.
///
/// # Errors
/// When it cannot be stopped, or goes on.
pub async fn make_way(around: &Surroundings, screen: &mut Screen) -> Result<(), ServiceError> {
    let place = Place::of(&around.env)?;
    if Holder::of(&place.paths.instance_lock()).is_some() {
        stop(around, screen).await?;
    }
    Ok(())
}

/// Has the service, or the gateway that runs without one, begin again.
pub async fn restart(around: &Surroundings, screen: &mut Screen) -> Result<Done, ServiceError> {
    match About::find(around)? {
        About::Service(place) => {
            place.manager.check()?;
            place.manager.restart(&place.file)?;
            Ok(of_service("restarted", "Restarted", &place))
        }
        About::ByHand(place, holder) => {
            let pid = holder.number();
            screen.note(&format!(
                "the gateway (pid {pid}) begins again once nothing runs, after five minutes at most …"
            ))?;
            let running = again(&place.paths.instance_lock(), holder).await?;
            answers(&Target::own(running, &around.local)?).await?;
            let text = format!("Restarted the gateway (pid {pid})\n");
            Ok(of_process("restarted", text, holder))
        }
        About::Nothing(place) => Err(missing(&place)),
    }
}

/// Sends the signal, and waits until the gateway says anew where it listens, or why it does
/// not begin again.
async fn again(lock: &Path, holder: Holder) -> Result<Running, ServiceError> {
    let pid = holder.number();
    let before = told_at(lock);
    holder.signal(Signal::USR1)?;
    let now = || {
        let now = Holder::of(lock).filter(|now| now.pid == holder.pid);
        now.and_then(|now| now.running).filter(|_| told_at(lock) != before)
    };
    if !until(RESTART_LIMIT, || now().is_some() || !is_held(lock)).await {
        return Err(ServiceError::NotBegun { pid, seconds: RESTART_LIMIT.as_secs() });
    }
    let running = now().ok_or(ServiceError::Ended(pid))?;
    refusal_at(lock).map_or(Ok(running), |why| Err(ServiceError::GivenUp { pid, why }))
}

/// Waits until the gateway answers, be it that it lets nobody in, or by a certificate that
/// it has made just now.
async fn answers(target: &Target) -> Result<(), ServiceError> {
    match Client::renew(target, ANSWER_LIMIT).await {
        Ok(client) => client.close().await,
        Err(ClientError::Handshake(_) | ClientError::Tls { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Whether it is so before the time is over.
async fn until(limit: Duration, is_so: impl Fn() -> bool) -> bool {
    let give_up = Instant::now() + limit;
    while !is_so() {
        if Instant::now() >= give_up {
            return false;
        }
        sleep(LOOK).await;
    }
    true
}

/// Why nothing can be started.
fn missing(place: &Place) -> ServiceError {
    match place.installed() {
        Ok(Installed::Another(state_dir)) => place.another(state_dir),
        _ => ServiceError::NotInstalled,
    }
}

fn of_service(result: &'static str, done: &str, place: &Place) -> Done {
    let manager = place.manager;
    let text = format!(
        "{done} {} service: {}\n{}",
        manager.name(),
        manager.service(),
        if result == "stopped" { "" } else { "Look how it is: clawgate gateway status\n" }
    );
    let mut done = Done::new(result, text);
    let service = json!({"label": manager.name(), "name": manager.service(),
        "file": place.file.to_string_lossy()});
    done.more.insert("service".into(), service);
    done
}

fn of_process(result: &'static str, text: String, holder: Holder) -> Done {
    let mut done = Done::new(result, text);
    done.more.insert("pid".into(), json!(holder.number()));
    done
}
