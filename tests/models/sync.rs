//! What stands in the place of `support::sync`: the scheduler is asked who goes on
//! before each of these.

use std::sync::PoisonError;

pub use shuttle::sync::MutexGuard;
pub use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::futures::Notified;

/// As in `parking_lot`: a panic spoils nothing.
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As in `parking_lot`: a panic spoils nothing.
#[derive(Debug, Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bell of tokio itself, whose every use is one step.
#[derive(Debug, Default)]
pub struct Notify {
    bell: tokio::sync::Notify,
    step: AtomicBool,
}

impl Notify {
    fn step(&self) {
        self.step.load(Ordering::SeqCst);
    }

    pub fn notify_one(&self) {
        self.step();
        self.bell.notify_one();
    }

    pub fn notify_waiters(&self) {
        self.step();
        self.bell.notify_waiters();
    }

    pub fn notified(&self) -> Notified<'_> {
        self.step();
        self.bell.notified()
    }
}
