//! Where it ran.

use std::fs;
use std::io::Write as _;
use std::process::Command;

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::time::Instant;

use super::stats::{float, micros};

/// Thousands of connections need as many files, here and in the servers,
/// which inherit the limit.
pub fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        eprintln!("the limit of open files stays as it is: {error}");
    }
}

/// Cores, processor, kernel, compiler.
pub fn describe() -> anyhow::Result<String> {
    let cores = std::thread::available_parallelism()?;
    let processor = first_line_after("/proc/cpuinfo", "model name");
    let memory = first_line_after("/proc/meminfo", "MemTotal");
    let kernel = fs::read_to_string("/proc/sys/kernel/ostype")?.trim().to_owned()
        + " "
        + fs::read_to_string("/proc/sys/kernel/osrelease")?.trim();
    let compiler = Command::new("rustc").arg("--version").output();
    let compiler = compiler.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    Ok(format!(
        "{cores} cores ({processor}), memory {memory}, {kernel}, {}",
        compiler.unwrap_or_else(|_| "unknown compiler".into()),
    ))
}

fn first_line_after(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or_else(|| "unknown".into(), |line| line.trim_start_matches([':', ' ', '\t']).into())
}

/// What durable appends cost at least, one by one, in microseconds.
pub fn sync_time() -> anyhow::Result<f64> {
    const TIMES: usize = 100;
    let mut file = tempfile::tempfile()?;
    let began = Instant::now();
    for _ in 0..TIMES {
        file.write_all(&[b'x'; 300])?;
        file.sync_data()?;
    }
    Ok(micros(began.elapsed()) / float(TIMES))
}
