//! A pseudo-terminal between a command and the gateway.
//!
//! Owns: our end of it, and the threads that carry data. Promises: what the
//! command writes goes out as if it wrote to a pipe; a command that does not
//! read holds up nobody. Must not: change what is carried.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Size of the terminal, as in the original.
const SIZE: Winsize = Winsize { ws_row: 30, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
/// Inputs that wait for a command to read them. It does not read at all when
/// there are more, and the rest is dropped, as a terminal does.
const MAX_WAITING: usize = 16;
/// Bytes carried at a time.
const PIECE: usize = 16 * 1024;

/// Our end of a terminal.
pub struct Terminal {
    end: File,
    /// What the command opens.
    pub path: PathBuf,
}

impl Terminal {
    /// A new one.
    pub fn open() -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let end = openpt(flags)?;
        grantpt(&end)?;
        unlockpt(&end)?;
        tcsetwinsize(&end, SIZE)?;
        let path = ptsname(&end, Vec::new())?.into_bytes();
        let path = std::ffi::OsString::from_vec(path).into();
        Ok(Self { end: File::from(end), path })
    }

    /// Carries what the command writes to `output`, until nobody has the
    /// terminal open any more, which is when the thread ends, and what is sent here
    /// to the command.
    pub fn carry(self, output: OwnedFd) -> io::Result<(SyncSender<Vec<u8>>, JoinHandle<()>)> {
        let (mut from, mut to, mut output) = (self.end.try_clone()?, self.end, File::from(output));
        let carrier = thread::Builder::new().spawn(move || {
            let mut piece = vec![0; PIECE];
            // A terminal that is closed is an error to read.
            while let Ok(length @ 1..) = from.read(&mut piece) {
                let Some(bytes) = piece.get(..length) else { return };
                if output.write_all(bytes).is_err() {
                    return;
                }
            }
        })?;
        let (sender, inputs) = sync_channel::<Vec<u8>>(MAX_WAITING);
        thread::Builder::new().spawn(move || {
            for input in inputs {
                if to.write_all(&input).is_err() {
                    return;
                }
            }
        })?;
        Ok((sender, carrier))
    }
}
