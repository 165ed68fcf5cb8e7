//! The task that looks after one command.
//!
//! Owns: the keeper of the command, its reports, its output, its time. Promises:
//! the command is told of as ended once it is, though something it started may
//! live on; after an order to end everything is dead soon. Must not: decide
//! what the output is good for.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::launcher;
use super::output::MAX_KEPT;
use super::overflow::Overflow;
use super::plan::Report;
use super::process::{Cause, Ending, Process};
use super::text::Decoder;
use crate::support::Clock;

/// Bytes read at a time: as much as a pipe holds.
const PIECE: usize = 64 * 1024;
/// How long the last words of a command, or of what it left behind, may take when
/// something else still holds the output.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// The keeper needs a second to be polite. When everything still lives after
/// this, the keeper is not what it should be.
const KEEPER_LIMIT: Duration = Duration::from_millis(1700);
/// What a program that asks for the cursor is told: top left.
const CURSOR: &[u8] = b"\x1b[1;1R";

/// What the task needs beside the command itself.
pub(super) struct Supervisor {
    pub process: Arc<Process>,
    pub keeper: Child,
    pub output: Receiver,
    pub inputs: mpsc::Receiver<Vec<u8>>,
    pub time_limit: Option<Duration>,
    pub overflow_dir: PathBuf,
    pub clock: Arc<dyn Clock>,
}

/// What is known while it runs.
struct Course {
    reports: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
    decoder: Decoder,
    overflow: Option<Overflow>,
    /// Why it was told to end.
    ordered: Option<Cause>,
    /// How the command itself has ended.
    ended: Option<(Option<i32>, Option<i32>)>,
    failed: Option<String>,
    has_output: bool,
    has_keeper: bool,
    is_settled: bool,
    /// When what the command itself has said is taken for complete.
    last_words: Option<Instant>,
    /// When the keeper should have done what it was ordered to.
    last_resort: Option<Instant>,
    /// How often that time has come.
    resorts: u8,
    deadline: Option<Instant>,
}

impl Course {
    /// At the beginning.
    fn new(socket: UnixStream, time_limit: Option<Duration>) -> Self {
        let (reports, orders) = socket.into_split();
        Self {
            reports: BufReader::new(reports).lines(),
            orders,
            decoder: Decoder::default(),
            overflow: None,
            ordered: None,
            ended: None,
            failed: None,
            has_output: true,
            has_keeper: true,
            is_settled: false,
            last_words: None,
            last_resort: None,
            resorts: 0,
            deadline: time_limit.map(|limit| Instant::now() + limit),
        }
    }
}

impl Supervisor {
    /// Looks after the command until nothing of it is left.
    pub async fn run(mut self, socket: UnixStream) {
        let mut course = Course::new(socket, self.time_limit);
        let mut piece = vec![0; PIECE];
        while course.has_keeper || !course.is_settled {
            self.step(&mut course, &mut piece).await;
            let is_over = course.ended.is_some() || course.failed.is_some() || !course.has_keeper;
            let is_late = course.last_words.is_some_and(|at| Instant::now() >= at);
            // A keeper goes as soon as nothing of the command is left.
            let is_complete = !course.has_output && !course.has_keeper;
            if !course.is_settled && is_over && (is_complete || is_late) {
                self.take_waiting(&mut course, &mut piece).await;
                self.settle(&mut course);
            }
        }
        self.drain(&mut course, &mut piece).await;
        // The keeper is about to be gone; nothing of the command is left.
        let _ = self.keeper.wait().await;
        self.process.change(|state| {
            state.is_gone = true;
            state.leaves_behind = false;
        });
    }

    async fn step(&mut self, course: &mut Course, piece: &mut [u8]) {
        let at = |time: Option<Instant>| async move {
            match time {
                Some(time) => sleep_until(time).await,
                None => std::future::pending().await,
            }
        };
        let (is_ordered, is_settled) = (course.ordered.is_some(), course.is_settled);
        tokio::select! {
            read = self.output.read(piece), if course.has_output => {
                let bytes = read.ok().and_then(|length| piece.get(..length)).unwrap_or_default();
                course.has_output = !bytes.is_empty();
                self.take_in(course, bytes).await;
            }
            report = course.reports.next_line(), if course.has_keeper => {
                let line = report.ok().flatten();
                self.note(course, line.as_deref());
            }
            Some(bytes) = self.inputs.recv() => self.input(course, &bytes).await,
            () = self.process.end.cancelled(), if !is_ordered => {
                self.order(course, Cause::Killed).await;
            }
            () = at(course.deadline), if !is_ordered && !is_settled => {
                self.order(course, Cause::Timeout).await;
            }
            () = at(course.last_resort) => self.resort(course),
            () = at(course.last_words), if !is_settled => {}
        }
    }

    /// Takes what is in the pipe already: who was busy when the time of the last words was
    /// over has not heard them yet.
    async fn take_waiting(&self, course: &mut Course, piece: &mut [u8]) {
        if !course.has_output {
            return;
        }
        let read = self.output.try_read(piece);
        let bytes = read.ok().and_then(|length| piece.get(..length)).unwrap_or_default();
        // That there will be nothing more is seen by who reads next.
        if !bytes.is_empty() {
            self.take_in(course, bytes).await;
        }
    }

    /// Takes what was said before the keeper went: that is in the pipe already. Something
    /// that got away from a killed keeper may still hold it.
    async fn drain(&mut self, course: &mut Course, piece: &mut [u8]) {
        let limit = Instant::now() + LAST_WORDS;
        while course.has_output
            && let Ok(read) = timeout_at(limit, self.output.read(piece)).await
        {
            let bytes = read.ok().and_then(|length| piece.get(..length)).unwrap_or_default();
            course.has_output = !bytes.is_empty() && Instant::now() < limit;
            self.take_in(course, bytes).await;
        }
    }

    /// Notes what the keeper says, or that it is gone.
    fn note(&self, course: &mut Course, line: Option<&str>) {
        match line.map(serde_json::from_str) {
            Some(Ok(Report::Started(pid))) => self.process.change(|state| state.pid = Some(pid)),
            Some(Ok(Report::Failed(error))) => course.failed = Some(error),
            Some(Ok(Report::Ended { code, signal })) => course.ended = Some((code, signal)),
            Some(Err(error)) => tracing::warn!(%error, "report of a keeper not understood"),
            None => {
                course.has_keeper = false;
                if course.ended.is_none() {
                    self.give_up();
                }
            }
        }
        let is_over = course.ended.is_some() || !course.has_keeper;
        if is_over && course.last_words.is_none() {
            course.last_words = Some(Instant::now() + LAST_WORDS);
        }
    }

    /// Keeps what the command says.
    async fn take_in(&self, course: &mut Course, bytes: &[u8]) {
        let text =
            if bytes.is_empty() { course.decoder.finish() } else { course.decoder.push(bytes) };
        for _ in 0..std::mem::take(&mut course.decoder.cursor_questions) {
            self.input(course, CURSOR).await;
        }
        if text.is_empty() {
            return;
        }
        self.spill(course, &text).await;
        let now = self.clock.now_ms();
        self.process.change(|state| {
            state.output.push(&text);
            state.last_output_at = now;
        });
    }

    /// Writes everything to a file once memory does not hold it.
    async fn spill(&self, course: &mut Course, text: &str) {
        let process = &self.process;
        if course.overflow.is_none() {
            let before = process.look(|state| {
                let is_first = state.output.total() <= MAX_KEPT;
                let is_needed = is_first && state.output.total() + text.len() > MAX_KEPT;
                is_needed.then(|| state.output.text().to_owned())
            });
            let Some(before) = before else { return };
            let (dir, now) = (self.overflow_dir.clone(), self.clock.now_ms());
            let name = format!("{now}-{}.log", process.id);
            let made = async {
                let mut overflow = Overflow::create(dir, name, now).await?;
                overflow.push(&before).await?;
                Ok::<_, std::io::Error>(overflow)
            };
            match made.await {
                Ok(overflow) => {
                    let path = overflow.path().to_owned();
                    process.change(|state| state.full_output = Some(path));
                    course.overflow = Some(overflow);
                }
                Err(error) => tracing::warn!(command = %process.id, %error, "output not kept"),
            }
        }
        let Some(overflow) = &mut course.overflow else { return };
        if let Err(error) = overflow.push(text).await {
            tracing::warn!(command = %process.id, %error, "rest of the output not kept");
            course.overflow = None;
            // Nobody is told any more that all of it is there.
            process.change(|state| state.full_output = None);
        }
    }

    /// The command is over.
    fn settle(&self, course: &mut Course) {
        course.is_settled = true;
        let (code, signal) = course.ended.unwrap_or_default();
        let cause = match (course.failed.take(), course.ordered.take()) {
            (Some(error), _) => Cause::Failed(error),
            (None, Some(cause)) => {
                course.ordered = Some(cause.clone());
                cause
            }
            (None, None) if course.ended.is_none() => Cause::Lost,
            (None, None) => Cause::Exit,
        };
        let leaves_behind = course.has_keeper && cause == Cause::Exit;
        let ending = Ending { cause, code, signal, at: self.clock.now_ms() };
        self.process.change(|state| {
            state.ending = Some(ending);
            state.leaves_behind = leaves_behind;
            // Somebody may want to end what goes on, unless he has done so.
            state.is_background |= leaves_behind && !self.process.end.is_cancelled();
        });
    }

    /// Tells the keeper to end everything.
    async fn order(&self, course: &mut Course, cause: Cause) {
        course.ordered = Some(cause);
        course.last_resort = Some(Instant::now() + KEEPER_LIMIT);
        self.wake_keeper();
        // When the keeper is gone, its reports end.
        let _ = timeout(KEEPER_LIMIT, course.orders.write_all(&[launcher::END])).await;
    }

    /// Gives the keeper input for the terminal, unless it ends the command. One that
    /// does not take it can be told nothing more, and is done without.
    async fn input(&self, course: &mut Course, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).ok().filter(|_| course.ordered.is_none());
        let Some(length) = length else { return };
        let frame = [&[launcher::INPUT], length.to_be_bytes().as_slice(), bytes].concat();
        self.wake_keeper();
        // When the keeper is gone, its reports end.
        if timeout(KEEPER_LIMIT, course.orders.write_all(&frame)).await.is_err() {
            course.ordered = Some(Cause::Killed);
            course.last_resort = Some(Instant::now());
        }
    }

    /// The keeper has not done it: first the command goes, then the keeper, and
    /// what it had as a child with it.
    fn resort(&mut self, course: &mut Course) {
        course.last_resort = None;
        // Its process id is somebody else's once it has ended.
        if course.ended.is_some() || !course.has_keeper {
            return;
        }
        course.resorts += 1;
        if course.resorts > 1 {
            // It may be gone already.
            let _ = self.keeper.start_kill();
            return;
        }
        self.give_up();
        self.wake_keeper();
        course.last_resort = Some(Instant::now() + KEEPER_LIMIT);
    }

    /// A command can stop its keeper, as it belongs to the same user.
    fn wake_keeper(&self) {
        if let Some(keeper) = self.keeper.id().and_then(process_id) {
            // It may be gone already.
            let _ = kill_process(keeper, Signal::CONT);
        }
    }

    /// Kills what can be found without the keeper.
    fn give_up(&self) {
        let pid = self.process.look(|state| state.pid);
        if let Some(group) = pid.and_then(process_id) {
            // It may be gone already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn process_id(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tokio::process::Command;

    use super::*;
    use crate::sessions::SessionKey;
    use crate::support::SystemClock;

    /// A command, with whoever looks after it, the ends of its output and of its keeper.
    struct Scene {
        process: Arc<Process>,
        supervisor: Supervisor,
        ours: UnixStream,
        writer: std::io::PipeWriter,
        keeper: std::os::unix::net::UnixStream,
    }

    impl Scene {
        fn new() -> Self {
            let (reader, writer) = std::io::pipe().unwrap();
            let (ours, keeper) = std::os::unix::net::UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let key = SessionKey::from_canonical("agent:main:main");
            let process = Process::new("calm-reef".into(), "x".into(), "/".into(), key, 0, None);
            let process = Arc::new(process);
            let supervisor = Supervisor {
                process: Arc::clone(&process),
                keeper: Command::new("true").spawn().unwrap(),
                output: Receiver::from_owned_fd(reader.into()).unwrap(),
                inputs: mpsc::channel(1).1,
                time_limit: None,
                overflow_dir: PathBuf::new(),
                clock: Arc::new(SystemClock),
            };
            let ours = UnixStream::from_std(ours).unwrap();
            Self { process, supervisor, ours, writer, keeper }
        }
    }

    fn said(process: &Process) -> String {
        process.look(|state| state.output.text().to_owned())
    }

    /// Chance says which of the two is seen first: the last words, or that the keeper went.
    #[tokio::test(start_paused = true)]
    async fn what_something_left_behind_says_last_is_there_when_the_keeper_has_gone() {
        for _ in 0..100 {
            let Scene { process, supervisor, ours, mut writer, mut keeper } = Scene::new();
            let course = async {
                Report::Ended { code: Some(0), signal: None }.write(&mut keeper).unwrap();
                process.ended().await;
                assert!(process.look(|state| state.leaves_behind));
                writer.write_all(b"last words").unwrap();
                drop((writer, keeper));
            };
            tokio::join!(supervisor.run(ours), course);
            assert_eq!(said(&process), "last words");
            assert!(process.look(|state| state.is_gone));
        }
    }

    /// Chance says which of the two is seen first: the last words, or that their time is over.
    #[tokio::test(start_paused = true)]
    async fn last_words_that_are_there_when_their_time_is_over_are_part_of_the_end() {
        for _ in 0..100 {
            let Scene { process, supervisor, ours, mut writer, mut keeper } = Scene::new();
            let course = async {
                Report::Ended { code: Some(0), signal: None }.write(&mut keeper).unwrap();
                // The end is seen, while no time goes by.
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                writer.write_all(b"last words").unwrap();
                tokio::time::advance(2 * LAST_WORDS).await;
                process.ended().await;
                assert_eq!(said(&process), "last words");
                drop((writer, keeper));
            };
            tokio::join!(supervisor.run(ours), course);
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_file_that_does_not_take_all_of_the_output_is_not_said_to_have_it() {
        let Scene { process, supervisor, ours, .. } = Scene::new();
        let overflow = Some(Overflow::on_a_full_disk());
        let mut course = Course { overflow, ..Course::new(ours, None) };
        process.change(|state| state.full_output = Some("/dev/full".into()));
        supervisor.spill(&mut course, "more").await;
        assert_eq!(process.look(|state| state.full_output.clone()), None);
        assert!(course.overflow.is_none());
    }
}
