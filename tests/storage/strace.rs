//! `strace`, which writes down the system calls of a gateway, or has some of them
//! fail.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::Gateway;

/// All calls that change a file or a name, and those that tell somebody something.
const CHANGES: &str = "open,openat,lseek,write,writev,pwrite64,sendto,sendmsg,fsync,fdatasync,\
    rename,renameat,renameat2,unlink,unlinkat,rmdir,link,linkat,mkdir,mkdirat,ftruncate,\
    copy_file_range,?creat,?truncate,?pwritev,?pwritev2,?sendfile,?fallocate,?symlink,?symlinkat";

/// Longer than any string of a call.
const STRINGS: &str = "16777216";

/// Why nothing can be tested here, if so.
pub fn unusable() -> Option<String> {
    let tried = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    let why = match tried {
        Ok(output) if output.status.success() => return None,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    Some(format!("storage that fails: strace does not run: {why}; install strace"))
}

/// A program that becomes the gateway, below `strace` when it is told to.
pub struct Launcher {
    folder: TempDir,
}

impl Launcher {
    /// Its gateways are left alone.
    pub fn new() -> Self {
        let launcher = Self { folder: TempDir::with_prefix("clawgate-test-").unwrap() };
        let text = "#!/bin/sh\n\
            echo $$ > \"$0.process\"\n\
            if [ -f \"$0.args\" ]; then exec strace -D -f --seccomp-bpf $(cat \"$0.args\") -- \"$@\"; fi\n\
            exec \"$@\"\n";
        fs::write(launcher.program(), text).unwrap();
        fs::set_permissions(launcher.program(), fs::Permissions::from_mode(0o700)).unwrap();
        launcher
    }

    pub fn program(&self) -> PathBuf {
        self.folder.path().join("launch")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// What `strace` has written of the gateway that has ended; nothing if it has not
    /// seen its end yet.
    pub fn ended_log(&self, process: u32) -> Option<String> {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let is_end = |line: &str| {
            let (thread, said) = line.split_once(' ').unwrap_or_default();
            thread == process.to_string() && said.trim_start().starts_with("+++ ")
        };
        log.lines().any(is_end).then_some(log)
    }

    /// From now on gateways are recorded.
    pub fn record(&self) {
        self.launch_with(&format!("-y -xx -s {STRINGS} -e trace={CHANGES}"));
    }

    /// From now on gateways begin with this fault.
    pub fn fail(&self, fault: &Fault) {
        self.launch_with(&fault.args().join(" "));
    }

    /// The last gateway.
    pub fn process(&self) -> u32 {
        let number = fs::read_to_string(self.folder.path().join("launch.process")).unwrap();
        number.trim().parse().unwrap()
    }

    /// From now on gateways are left alone.
    pub fn leave_alone(&self) {
        let _ = fs::remove_file(self.folder.path().join("launch.args"));
    }

    fn launch_with(&self, args: &str) {
        let args = format!("-o {} {args}", self.log().display());
        let _ = fs::remove_file(self.log());
        fs::write(self.folder.path().join("launch.args"), args).unwrap();
    }
}

/// Calls that fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which calls, as `strace` names them.
    pub calls: &'static str,
    /// What they fail with.
    pub error: &'static str,
    /// Which of each thread, as `strace` counts them: `3`, or `3+` for all from
    /// there on.
    pub when: String,
    /// Only those that are about these files; about any where there are none.
    pub files: Vec<PathBuf>,
}

impl Fault {
    fn args(&self) -> Vec<String> {
        let Self { calls, error, when, files } = self;
        let mut args = vec!["-e".to_owned(), format!("trace={calls}")];
        args.extend(["-e".to_owned(), format!("inject={calls}:error={error}:when={when}")]);
        args.extend(files.iter().flat_map(|file| ["-P".to_owned(), file.display().to_string()]));
        args
    }
}

/// A fault that a running gateway has until this is dropped.
pub struct Injection {
    tracer: Child,
    reader: Option<JoinHandle<()>>,
    folder: TempDir,
}

impl Injection {
    /// Begins; what `strace` says when it may not.
    pub fn into(process: u32, fault: &Fault) -> Result<Self, String> {
        Self::with(process, &fault.args())
    }

    /// Begins with what these arguments of `strace` say.
    pub fn with(process: u32, args: &[String]) -> Result<Self, String> {
        let folder = TempDir::with_prefix("clawgate-test-").unwrap();
        let mut command = Command::new("strace");
        command.args(["-f", "-p", &process.to_string(), "-o"]).arg(folder.path().join("log"));
        let tracer = command.args(args).stderr(Stdio::piped()).spawn();
        let mut tracer = tracer.map_err(|error| format!("strace: {error}"))?;
        let mut said = String::new();
        let mut lines = BufReader::new(tracer.stderr.take().unwrap());
        // It says so once it is in.
        while !said.contains(" attached") {
            if lines.read_line(&mut said).unwrap() == 0 {
                tracer.wait().unwrap();
                return Err(said);
            }
        }
        // It must not wait for somebody who reads what it says of further threads.
        let reader = thread::spawn(move || lines.lines().map_while(Result::ok).for_each(drop));
        Ok(Self { tracer, reader: Some(reader), folder })
    }

    /// Ends it; whether the fault has come.
    pub fn end(mut self) -> bool {
        self.stop();
        let log = fs::read_to_string(self.folder.path().join("log"));
        log.unwrap_or_default().contains("(INJECTED)")
    }

    /// Kills the gateway while calls of it are held, and waits for its end, which nobody
    /// would hear of before `strace` has ended: that waits for the call to be over.
    pub fn kill(mut self, gateway: &mut Gateway) {
        gateway.signal(Signal::KILL);
        let _ = self.tracer.kill();
        let _ = self.tracer.wait();
        let _ = self.reader.take().map(JoinHandle::join);
        gateway.kill9();
    }

    /// It lets go of the gateway before it ends.
    fn stop(&mut self) {
        let Some(reader) = self.reader.take() else { return };
        let tracer = i32::try_from(self.tracer.id()).ok().and_then(Pid::from_raw);
        let _ = kill_process(tracer.unwrap(), Signal::INT);
        let _ = self.tracer.wait();
        let _ = reader.join();
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        self.stop();
    }
}
