//! Stands between a client and the echo: what was said again as text for want of
//! binary messages becomes one. Everything else is passed on as it comes, the way to
//! the gateway byte by byte.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use super::client::head;
use super::echo;
use super::frame::{TEXT, from_server};

const READ_AT_ONCE: usize = 64 * 1024;

/// Listens for clients of the gateway at `address`, as long as the process lasts.
pub fn before(address: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let own = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(gateway) = TcpStream::connect(address) else { return };
            for tcp in [&client, &gateway] {
                tcp.set_nodelay(true).unwrap();
            }
            let (from, to) = (client.try_clone().unwrap(), gateway.try_clone().unwrap());
            thread::spawn(move || pass(from, to, Upgrade::Over));
            thread::spawn(move || pass(gateway, client, Upgrade::Awaited));
        }
    });
    own
}

/// Whether what comes is looked at.
enum Upgrade {
    /// Not before the head of the answer is over.
    Awaited,
    /// Frames of the gateway.
    Done,
    /// Not at all.
    Over,
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut upgrade: Upgrade) {
    let mut bytes = Vec::new();
    let mut space = vec![0; READ_AT_ONCE];
    // Whoever breaks off ends both ways.
    while let Ok(read @ 1..) = from.read(&mut space) {
        bytes.extend(&space[..read]);
        let ready = match upgrade {
            Upgrade::Over => std::mem::take(&mut bytes),
            Upgrade::Done => translated(&mut bytes),
            Upgrade::Awaited => {
                let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
                    continue;
                };
                upgrade = Upgrade::Done;
                let mut ready: Vec<u8> = bytes.drain(..end + 4).collect();
                ready.extend(translated(&mut bytes));
                ready
            }
        };
        if to.write_all(&ready).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Takes the frames that have come whole.
fn translated(bytes: &mut Vec<u8>) -> Vec<u8> {
    let (mut ready, mut at) = (Vec::new(), 0);
    while let Some(head) = head(&bytes[at..])
        && let Some(payload) = bytes.get(at + head.start..at + head.end)
    {
        match echo::binary_of(payload).filter(|_| head.kind == TEXT) {
            Some(binary) => ready.extend(from_server(&binary)),
            None => ready.extend(&bytes[at..at + head.end]),
        }
        at += head.end;
    }
    bytes.drain(..at);
    ready
}
