//! Replays traces against the real binary, several at a time.

use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::corpus::Corpus;
use super::replay::{Target, replay};
use super::setup;
use super::text::Places;
use super::trace::Trace;
use super::verdict::Verdict;
use crate::support::control_ui::write_control_ui;
use crate::support::{Gateway, GatewayOptions, MockProvider};

/// They wait far more than they compute; more gateways than this for each core disturb each
/// other, and the other tests that run beside them …
const PER_CORE: usize = 3;
/// … within these.
const AT_ONCE: RangeInclusive<usize> = 3..=8;
/// How much longer than its recording a trace may take …
const MARGIN: Duration = Duration::from_secs(45);
/// … and how long at all.
const LONGEST: Duration = Duration::from_secs(90);
/// The same of those that are not known to pass: each frame that they wait for in vain costs
/// patience.
const MARGIN_IN_VAIN: Duration = Duration::from_secs(120);
const LONGEST_IN_VAIN: Duration = Duration::from_secs(180);

/// One verdict per name, in their order. Whether each is known to pass comes with it.
pub async fn run_all(corpus: &Corpus, names: &[(String, bool)]) -> Vec<Verdict> {
    let traces = names.iter().map(|(name, passes)| (corpus.load(name), *passes));
    let mut traces: Vec<_> = traces.enumerate().collect();
    // The longest come first, so that none of them is waited for alone in the end.
    traces.sort_by_key(|(_, (trace, _))| Reverse(trace.duration_ms()));
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let at_once = (PER_CORE * cores).clamp(*AT_ONCE.start(), *AT_ONCE.end());
    let slots = Arc::new(Semaphore::new(at_once));
    let mut tasks = JoinSet::new();
    for (index, (trace, passes)) in traces {
        let slot = Arc::clone(&slots).acquire_owned().await.unwrap();
        tasks.spawn(async move {
            let verdict = run(&trace, passes).await;
            drop(slot);
            (index, verdict)
        });
    }
    let mut verdicts = tasks.join_all().await;
    verdicts.sort_by_key(|(index, _)| *index);
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

/// Replays one trace against a gateway of its own.
async fn run(trace: &Trace, passes: bool) -> Verdict {
    let provider = MockProvider::start().await;
    for (_, message) in setup::STOPPED_FIRST.iter().filter(|(name, _)| *name == trace.name) {
        provider.hold(message);
    }
    let mut options = GatewayOptions::with_config(setup::config(&trace.name, provider.address()));
    options.env = setup::environment(&trace.name);
    let gateway = match Gateway::try_start(options).await {
        Ok(gateway) => gateway,
        Err(error) => return Verdict::failed(&trace.name, error),
    };
    if setup::has_notes(&trace.name) {
        let (name, text) = setup::NOTES;
        if let Err(error) = std::fs::write(gateway.workspace().join(name), text) {
            return Verdict::failed(&trace.name, error.to_string());
        }
    }
    if setup::has_control_ui(&trace.name) {
        write_control_ui(&gateway.state_dir().join("control-ui"));
    }
    let outcome = replay(trace, &target(trace, passes, &gateway)).await;
    Verdict::of(trace, &outcome)
}

fn target(trace: &Trace, passes: bool, gateway: &Gateway) -> Target {
    let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
    let recorded = Duration::from_millis(trace.duration_ms());
    Target {
        address: gateway.address(),
        places: Places {
            state_dir: text(gateway.state_dir()),
            home: text(gateway.home()),
            workspace: text(gateway.workspace()),
            root: text(gateway.root().to_owned()),
        },
        new_devices: true,
        limit: if passes {
            (recorded + MARGIN).min(LONGEST)
        } else {
            (recorded + MARGIN_IN_VAIN).min(LONGEST_IN_VAIN)
        },
    }
}
