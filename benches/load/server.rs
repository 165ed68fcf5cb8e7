//! A server's process, seen from outside.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use super::client::Link;
use super::stats::float;

/// A server that takes longer does not start, or does not end. The original needs 30 s
/// for a start on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_micros(200);
/// Whoever waits for long looks less often: a hundredth of the time says enough.
const LOOKS: u32 = 100;
/// What a server says that listens and is not ready: to come again.
const NOT_READY: &str = "UNAVAILABLE";
/// `USER_HZ`: what times in `/proc` are counted in, on every Linux.
const TICKS_PER_SECOND: u32 = 100;

/// A running server. Dropping it kills it.
pub struct Server {
    child: Child,
    address: SocketAddr,
    /// From the start of the process to its first hello-ok.
    pub first_hello: Duration,
}

/// A port nobody listens on at this moment.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// How long to wait for the next look.
fn pause(began: Instant) -> Duration {
    POLL.max(began.elapsed() / LOOKS)
}

async fn hello(stream: TcpStream, address: SocketAddr) -> anyhow::Result<()> {
    stream.set_nonblocking(true)?;
    let stream = tokio::net::TcpStream::from_std(stream)?;
    Link::upgrade(stream, address).await?.connect().await
}

impl Server {
    /// Starts a process that will listen on `port`, and waits for its hello.
    pub async fn start(mut command: Command, port: u16) -> anyhow::Result<Self> {
        let began = Instant::now();
        let child = command.spawn().context("the server does not start")?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut server = Self { child, address, first_hello: Duration::ZERO };
        loop {
            let stream = server.accepted(began)?;
            match hello(stream, address).await {
                Ok(()) => break,
                Err(error) if !error.to_string().contains(NOT_READY) => return Err(error),
                Err(error) if began.elapsed() > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(pause(began)).await,
            }
        }
        server.first_hello = began.elapsed();
        Ok(server)
    }

    /// Tries until the server listens. Blocks its thread, since nothing else
    /// goes on and a timer is too coarse.
    fn accepted(&mut self, began: Instant) -> anyhow::Result<TcpStream> {
        loop {
            match TcpStream::connect(self.address) {
                Ok(stream) => return Ok(stream),
                Err(error) if began.elapsed() > PATIENCE => return Err(error.into()),
                Err(_) => {}
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}");
            }
            thread::sleep(pause(began));
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resident memory in KiB.
    pub fn memory(&self) -> anyhow::Result<f64> {
        self.status("VmRSS:")
    }

    /// The part of it in KiB that is the process's own: no pages of files, which the
    /// kernel takes back when it needs them.
    pub fn own_memory(&self) -> anyhow::Result<f64> {
        self.status("RssAnon:")
    }

    /// The most resident memory it ever had, in KiB.
    pub fn peak_memory(&self) -> anyhow::Result<f64> {
        self.status("VmHWM:")
    }

    /// How many descriptors are open.
    pub fn open_files(&self) -> anyhow::Result<f64> {
        Ok(float(fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count()))
    }

    fn status(&self, name: &str) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        let number = value.and_then(|value| value.split_whitespace().next());
        Ok(number.with_context(|| format!("no {name} in /proc"))?.parse()?)
    }

    /// CPU time so far, of all threads, in user and kernel.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name, in parentheses, may hold spaces; utime is the 12th after it.
        let fields = stat.rsplit_once(')').context("no name in /proc")?.1;
        let ticks: u32 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<u32>().unwrap_or_default())
            .sum();
        Ok(Duration::from_secs(1) * ticks / TICKS_PER_SECOND)
    }

    /// CPU time since it was `before`.
    pub fn cpu_since(&self, before: Duration) -> anyhow::Result<Duration> {
        Ok(self.cpu()?.saturating_sub(before))
    }

    /// How many of its connections have a peer that does not take what was written.
    pub fn stalled_peers(&self) -> anyhow::Result<usize> {
        let port = format!(":{:04X}", self.address.port());
        let table = fs::read_to_string("/proc/net/tcp")?;
        let is_stalled = |line: &&str| {
            let mut fields = line.split_whitespace().skip(1);
            let is_ours = fields.next().is_some_and(|local| local.ends_with(&port));
            let queues = fields.nth(2).and_then(|queues| queues.split_once(':'));
            is_ours && queues.is_some_and(|(unsent, _)| unsent.bytes().any(|digit| digit != b'0'))
        };
        Ok(table.lines().skip(1).filter(is_stalled).count())
    }

    /// Sends SIGTERM and waits; answers how long it took.
    pub fn terminate(mut self) -> anyhow::Result<Duration> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let began = Instant::now();
        kill_process(pid.context("no such process")?, Signal::TERM)?;
        while self.child.try_wait()?.is_none() {
            ensure!(began.elapsed() < PATIENCE, "the server does not end");
            thread::sleep(POLL);
        }
        Ok(began.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only when it has ended already, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
