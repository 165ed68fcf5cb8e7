//! Turns that call tools, chosen at random.

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::processes::TAG;

/// Ends when it is asked to.
const SOFT: &str = "echo begun; sleep 600 | cat";
/// Does not want to end, and leaves a grandchild with a session of its own that
/// does not want to either.
const STUBBORN: &str = "trap '' TERM; \
    (setsid sh -c 'trap \"\" TERM; echo up; sleep 600; sleep 600' &); sleep 600; sleep 600";
/// Lines of a file that is written and edited.
const LINES: usize = 400;

/// What becomes of a turn that nobody disturbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// It ends.
    Ends,
    /// It ends, and a command of it goes on.
    LeavesOne,
    /// It waits until somebody decides.
    Asks,
    /// It goes on and on.
    Stays,
}

/// A message and what it leads to.
pub struct Turn {
    pub text: String,
    pub course: Course,
}

impl Turn {
    /// The next one, for a run of this name.
    pub fn choose(run: &str, dice: &mut Dice) -> Self {
        let quick = format!("echo {run}; sleep 0.{:02}; echo over", dice.up_to(40));
        let stubborn = if dice.up_to(3) == 0 { STUBBORN } else { SOFT };
        let exec = |args: Value| ("exec", tag(args, run));
        let plain = |command: &str| exec(json!({"command": command}));
        let (course, options, calls) = match dice.up_to(9) {
            0 => (Course::Ends, "", vec![plain(&quick), plain(&quick)]),
            1 => (Course::Stays, "", vec![plain(stubborn)]),
            2 => (Course::Stays, "", vec![exec(json!({"command": stubborn, "pty": true}))]),
            3 => (
                Course::LeavesOne,
                "",
                vec![
                    exec(json!({"command": stubborn, "background": true})),
                    ("process", json!({"action": "list"})),
                ],
            ),
            4 => (
                Course::LeavesOne,
                "",
                vec![exec(json!({"command": SOFT, "pty": true, "yieldMs": 10 + dice.up_to(100)}))],
            ),
            5 => (Course::Asks, "", vec![exec(json!({"command": quick, "ask": "always"}))]),
            6 => {
                let both = vec![
                    plain(&quick),
                    ("read", json!({"path": "AGENTS.md"})),
                    plain(stubborn),
                    exec(json!({"command": SOFT, "pty": true})),
                ];
                (Course::Stays, "parallel=1", both)
            }
            7 => (Course::Ends, "parallel=1", [plain(&quick), plain(&quick)].into()),
            _ => (Course::Ends, "", edits(run)),
        };
        let calls: String = calls
            .iter()
            .enumerate()
            .map(|(at, (name, args))| {
                let number = if at == 0 { String::new() } else { (at + 1).to_string() };
                format!(" name{number}={name} args{number}={args}")
            })
            .collect();
        let said = format!("pre=\"{run} looks.\" then=\"{run} done.\" delay=8");
        let text = format!("{run} @mock tool {options}{calls} {said}");
        Self { text, course }
    }
}

/// A file is written, changed and changed again.
fn edits(run: &str) -> Vec<(&'static str, Value)> {
    let path = format!("{run}.txt");
    let edit = |from: &str, to: &str| {
        ("edit", json!({"path": path, "edits": [{"oldText": from, "newText": to}]}))
    };
    vec![
        ("write", json!({"path": path, "content": text("one")})),
        edit("one\n", "two\n"),
        edit("two\n", "three\n"),
    ]
}

fn text(first: &str) -> String {
    format!("{first}\n{}", "a line\n".repeat(LINES))
}

/// Whether a file is as one of the edits has left it, and not between two.
pub fn is_whole(content: &str) -> bool {
    ["one", "two", "three"].iter().any(|first| text(first) == content)
}

fn tag(mut args: Value, run: &str) -> Value {
    args["env"] = json!({TAG: run});
    args
}
