//! What `strace` has written of the system calls of a gateway.
//!
//! Strings are read as `-xx` prints them: every byte as `\xhh`, so that no quote
//! and no bracket is part of one.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A call that has returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    args: Vec<String>,
    /// Negative when it failed.
    pub result: i64,
}

impl Call {
    fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// An argument that is a number, also that of an open file.
    pub fn number(&self, index: usize) -> Option<i64> {
        let arg = self.arg(index);
        let end = arg.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(arg.len());
        arg[..end].parse().ok()
    }

    /// Whether an argument has this flag.
    pub fn has_flag(&self, index: usize, flag: &str) -> bool {
        self.arg(index).split('|').any(|part| part == flag)
    }

    /// Where the open file in an argument was when the call began.
    pub fn place(&self, index: usize) -> Option<PathBuf> {
        let (_, rest) = self.arg(index).split_once('<')?;
        Some(path(&bytes(rest.split_once('>')?.0)))
    }

    /// An argument that is a path, relative to the folder in the one before it
    /// where there is one.
    pub fn path(&self, index: usize) -> Option<PathBuf> {
        let named = path(&self.text(index)?);
        let folder = index.checked_sub(1).and_then(|before| self.place(before));
        Some(folder.map_or(named.clone(), |folder| folder.join(named)))
    }

    /// An argument that is a string.
    pub fn text(&self, index: usize) -> Option<Vec<u8>> {
        let arg = self.arg(index).strip_prefix('"')?;
        Some(bytes(arg.split('"').next()?))
    }

    /// All strings of all arguments, as those of a vector.
    pub fn texts(&self) -> Vec<u8> {
        let quoted = |arg: &String| -> Vec<u8> {
            arg.split('"').skip(1).step_by(2).flat_map(bytes).collect()
        };
        self.args.iter().flat_map(quoted).collect()
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

fn bytes(escaped: &str) -> Vec<u8> {
    let parts = escaped.split("\\x").skip(1);
    parts.map(|hex| u8::from_str_radix(&hex[..2], 16).expect("two digits")).collect()
}

/// The calls of a log, in the order in which they returned.
pub fn read(log: &str) -> Vec<Call> {
    let mut begun: HashMap<&str, String> = HashMap::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let Some((thread, said)) = line.split_once(' ') else { continue };
        let said = said.trim_start();
        if let Some(first) = said.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, first.to_owned());
        } else if let Some(rest) = said.strip_prefix("<... ") {
            let Some((_, rest)) = rest.split_once(" resumed>") else { continue };
            let Some(first) = begun.remove(thread) else { continue };
            calls.extend(call(&format!("{first}{rest}")));
        } else {
            calls.extend(call(said));
        }
    }
    calls
}

/// Of a line such as `write(3<path>, "text", 4) = 4`.
fn call(line: &str) -> Option<Call> {
    let (name, rest) = line.split_once('(')?;
    let (args, result) = rest.rsplit_once(" = ")?;
    let args = args.trim_end().strip_suffix(')')?;
    let end = result.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(result.len());
    let result = result[..end].parse().ok()?;
    Some(Call { name: name.to_owned(), args: split(args), result })
}

/// Splits arguments at the commas that are not inside of a vector.
fn split(args: &str) -> Vec<String> {
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for letter in args.chars() {
        match letter {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        let last = parts.last_mut().expect("there is one");
        if letter != ' ' || !last.is_empty() {
            last.push(letter);
        }
    }
    parts
}

#[test]
fn lines_of_threads_that_interrupt_each_other_are_calls() {
    let log = "\
        7 openat(AT_FDCWD<\\x2f>, \"\\x61\", O_RDWR|O_CREAT, 0600) = 3<\\x2f\\x61>\n\
        7 write(3<\\x2f\\x61>, \"\\x68\\x69\", 2 <unfinished ...>\n\
        8 writev(5<\\x73>, [{iov_base=\"\\x6f\", iov_len=1}, {iov_base=\"\\x6b\", iov_len=1}], 2) = 2\n\
        7 <... write resumed>) = -1 EIO (Input/output error) (INJECTED)\n\
        8 +++ exited with 0 +++\n";
    let calls = read(log);
    let said: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.result)).collect();
    assert_eq!(said, [("openat", 3), ("writev", 2), ("write", -1)]);
    assert!(calls[0].has_flag(2, "O_CREAT") && !calls[0].has_flag(2, "O_CREA"));
    assert_eq!(calls[0].path(1), Some(PathBuf::from("/a")));
    assert_eq!(calls[1].texts(), b"ok");
    assert_eq!((calls[2].number(0), calls[2].place(0)), (Some(3), Some(PathBuf::from("/a"))));
    assert_eq!(calls[2].text(1), Some(b"hi".to_vec()));
}
