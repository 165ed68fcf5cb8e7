//! Whether anything happens, so that who looks now and then may sleep.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Set while somebody sleeps until something happens.
static SLEEPS: AtomicBool = AtomicBool::new(false);
static BELL: Notify = Notify::const_new();

/// Something has happened, and was counted. While nobody sleeps this is one load.
pub fn stir() {
    if SLEEPS.load(Ordering::Relaxed) && SLEEPS.swap(false, Ordering::AcqRel) {
        BELL.notify_one();
    }
}

/// Waits until something happens, unless it `has` happened since the caller
/// looked. Made for one caller at a time.
pub async fn until_something(has: impl FnOnce() -> bool) {
    SLEEPS.store(true, Ordering::SeqCst);
    // What was counted before the flag could be seen is noticed here.
    if has() {
        SLEEPS.store(false, Ordering::SeqCst);
        return;
    }
    BELL.notified().await;
}
