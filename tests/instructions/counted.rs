//! A gateway under callgrind, and what it has executed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::lines::{Line, SESSIONS};
use super::load::client::{SECRET, crowd};
use super::load::gateway::Home;
use super::load::provider::Provider;
use super::load::server::Server;
use super::load::state;
use super::order::{Names, executed};

/// Size of the transcript whose end is read.
const LONG_MIB: u32 = 1;
/// Clients of a gateway that does nothing. Where there are many, what is sorted and what is
/// kept in a tree takes ways that a few never see, and each is 64 KiB more for the first who
/// comes by it.
const IDLE_CLIENTS: usize = 200;
/// What every client is told when it has been there for a moment.
pub const HEALTH_EVENT: &[u8] = br#"{"type":"event","event":"health""#;

/// Counts.
pub struct Counter {
    program: PathBuf,
    provider: Provider,
    /// The state that every run begins with.
    origin: Home,
}

impl Counter {
    /// For this program. Its first start, which takes the sessions into the index, is
    /// not counted.
    pub async fn new(program: &Path) -> Self {
        let found = Command::new("valgrind").arg("--version").output();
        assert!(found.is_ok(), "instructions are counted by valgrind: apt-get install valgrind");
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(program);
        assert!(program.is_file(), "there is no {}: cargo build --release", program.display());
        let provider = Provider::start().await.unwrap();
        let origin = Home::new(provider.address(), None).unwrap();
        state::sessions(&origin, SESSIONS).unwrap();
        state::long_session(&origin, LONG_MIB).unwrap();
        let first = origin.start_as(origin.on_this_state(Command::new(&program))).await.unwrap();
        first.terminate().unwrap();
        Self { program, provider, origin }
    }

    /// The instructions of doing it once.
    pub async fn each(&self, line: &Line) -> u64 {
        let (few, many) = tokio::join!(self.all(line, line.few), self.all(line, line.many));
        let (few, many) = (total(&few.unwrap()), total(&many.unwrap()));
        let times = u64::try_from((line.many - line.few) * line.share).unwrap();
        many.saturating_sub(few) / times
    }

    /// The functions that a new gateway executes whose clients come and stay, with the
    /// config of the benchmarks and without any, and those of all lines.
    pub async fn names(&self, lines: &[Line]) -> (Names, Names) {
        let (mut quiet, mut busy) = (Names::new(), Names::new());
        for has_config in [true, false] {
            let home = Home::new(self.provider.address(), None).unwrap();
            if !has_config {
                fs::remove_file(home.state().join("openclaw.json")).unwrap();
            }
            let (gateway, out) = self.start(&home, "2").await.unwrap();
            let mut clients = crowd(gateway.address(), IDLE_CLIENTS).await.unwrap();
            // They are told of each other when the last of them has been there for a moment.
            for client in &mut clients {
                while !client.next().await.unwrap().starts_with(HEALTH_EVENT) {}
            }
            gateway.terminate().unwrap();
            quiet.extend(executed(&fs::read_to_string(&out).unwrap()));
        }
        for line in lines {
            busy.extend(executed(&self.all(line, line.few).await.unwrap()));
        }
        (quiet, busy)
    }

    /// What callgrind says of a whole process that does it so often.
    async fn all(&self, line: &Line, times: usize) -> anyhow::Result<String> {
        let home = Home::new(self.provider.address(), None)?;
        copy(&self.origin.state(), &home.state())?;
        // What runs beside what would be another count each time.
        let (gateway, out) = self.start(&home, "1").await?;
        (line.work)(gateway.address(), times).await.with_context(|| line.name)?;
        gateway.terminate()?;
        fs::read_to_string(&out).context("callgrind has written nothing")
    }

    /// A gateway of so many threads under callgrind, and the file that has all of it after
    /// its end.
    async fn start(&self, home: &Home, threads: &str) -> anyhow::Result<(Server, PathBuf)> {
        let out = home.state().with_file_name("callgrind.out");
        let mut command = home.on_this_state(Command::new("valgrind"));
        command
            .args(["--tool=callgrind", "--demangle=no"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(&self.program)
            .env("TOKIO_WORKER_THREADS", threads)
            // Where there is no config that has it.
            .env("OPENCLAW_GATEWAY_TOKEN", SECRET);
        Ok((home.start_as(command).await?, out))
    }
}

/// The instructions that callgrind counted.
fn total(text: &str) -> u64 {
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    total.and_then(|total| total.trim().parse().ok()).expect("no totals")
}

/// Copies what is in a folder.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
