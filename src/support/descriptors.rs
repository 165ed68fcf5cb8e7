//! File descriptors where the system gives few.
//!
//! Owns: how many are left to the work under way. Promises: what only waits or is merely kept
//! open (idle connections, transcripts) never has the last ones: a run that was accepted needs
//! some for its model, its programs and its files.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

/// How many are left to the work under way: enough for some runs that start programs.
const SPARE: u64 = 32;
/// Where there are few, this part of all.
const SPARE_PART: u64 = 8;
/// The part of all that one kind of things may have.
const SHARE_PART: u64 = 4;

/// Whether this one is among those that are left to the work under way. The system gives the
/// lowest number that is free, so all others were in use when it was opened.
pub fn is_spare(descriptor: &impl AsFd) -> bool {
    is_last(descriptor.as_fd().as_raw_fd(), allowed())
}

/// Refuses when none but the spare ones are free. What is open serves to find out.
///
/// # Errors
/// There is no room; or what the system says.
pub fn check_room(open: &impl AsFd) -> io::Result<()> {
    let next = fcntl_dupfd_cloexec(open, 0)?;
    if is_spare(&next) {
        return Err(io::Error::other(
            "few file descriptors are left, and the work under way needs them",
        ));
    }
    Ok(())
}

/// Whether an error says that there are none left.
pub fn is_lack(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// How many things of one kind may be open: `most`, and fewer where the system gives few.
pub fn share(most: usize) -> usize {
    share_of(allowed(), most)
}

/// How many the process may have; none says any number.
fn allowed() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

fn is_last(number: RawFd, allowed: Option<u64>) -> bool {
    let Some(allowed) = allowed else { return false };
    let free_for_all = allowed - SPARE.min(allowed / SPARE_PART);
    u64::try_from(number).is_ok_and(|number| number >= free_for_all)
}

fn share_of(allowed: Option<u64>, most: usize) -> usize {
    let share = allowed.and_then(|allowed| usize::try_from(allowed / SHARE_PART).ok());
    share.map_or(most, |share| share.clamp(1, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_spare_and_fewer_where_there_are_few() {
        for (allowed, first) in [(64, 56), (256, 224), (1024, 992), (65_536, 65_504)] {
            assert!(!is_last(first - 1, Some(allowed)) && is_last(first, Some(allowed)));
        }
        assert!(!is_last(RawFd::MAX, None) && !is_last(RawFd::MAX, Some(u64::MAX)));
    }

    #[test]
    fn one_kind_of_things_has_a_quarter_at_most() {
        for (allowed, most) in [
            (Some(64), 16),
            (Some(2), 1),
            (Some(1 << 20), 1024),
            (Some(u64::MAX), 1024),
            (None, 1024),
        ] {
            assert_eq!(share_of(allowed, 1024), most, "{allowed:?}");
        }
    }

    #[test]
    fn it_is_known_what_says_that_there_are_none() {
        for (errno, is_so) in [(Errno::MFILE, true), (Errno::NFILE, true), (Errno::ACCESS, false)] {
            assert_eq!(is_lack(&errno.into()), is_so);
        }
    }
}
