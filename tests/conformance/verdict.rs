//! One trace beside what came: a list of checks, each passed or not.

use serde_json::Value;

use super::call::{Answer, Call};
use super::compare::{Comparer, Finding, Kind};
use super::differences::allowing;
use super::pairing::{Label, Runs, pairs, run_of, said, told_run};
use super::replay::{ConnLog, Outcome};
use super::setup::is_not_sent;
use super::stream::Side;
use super::trace::{Trace, What};

/// One thing that was compared.
#[derive(Debug)]
pub struct Check {
    pub findings: Vec<Finding>,
}

/// What a trace's replay came to.
#[derive(Debug)]
pub struct Verdict {
    pub trace: String,
    pub checks: usize,
    pub passed: usize,
    /// What is neither as recorded nor allowed.
    pub findings: Vec<Finding>,
    /// Entries of the list of differences that were needed.
    pub used: Vec<usize>,
}

impl Verdict {
    pub fn of(trace: &Trace, outcome: &Outcome) -> Self {
        let checks = checks(trace, outcome);
        let mut verdict = Self {
            trace: trace.name.clone(),
            checks: checks.len(),
            passed: 0,
            findings: Vec::new(),
            used: Vec::new(),
        };
        for check in checks {
            let mut left = Vec::new();
            for finding in check.findings {
                match allowing(&trace.name, &finding) {
                    Some(entry) => verdict.used.push(entry),
                    None => left.push(finding),
                }
            }
            verdict.passed += usize::from(left.is_empty());
            verdict.findings.extend(left);
        }
        verdict
    }

    /// A trace that could not be replayed at all.
    pub fn failed(trace: &str, text: String) -> Self {
        let finding = Finding {
            place: "gateway".to_owned(),
            path: String::new(),
            kind: Kind::MissingFrame,
            text,
        };
        Self {
            trace: trace.to_owned(),
            checks: 1,
            passed: 0,
            findings: vec![finding],
            used: Vec::new(),
        }
    }

    pub fn passes(&self) -> bool {
        self.checks > 0 && self.findings.is_empty()
    }
}

/// Every check of the trace.
pub fn checks(trace: &Trace, outcome: &Outcome) -> Vec<Check> {
    let mut checks: Vec<Check> =
        outcome.findings.iter().map(|finding| Check { findings: vec![finding.clone()] }).collect();
    let empty = ConnLog::default();
    for conn in trace.connections() {
        if trace.lines.iter().any(|line| line.conn == conn && line.is_socket()) {
            let log = outcome.conns.get(&conn).unwrap_or(&empty);
            checks.extend(Connection { trace, outcome, conn: &conn, log }.checks());
        }
    }
    for line in &trace.lines {
        if let What::Http(call) = &line.what {
            checks.push(call_check(call, outcome.answers.get(&line.number), outcome));
        }
    }
    checks
}

/// A request of HTTP and what came of it.
fn call_check(call: &Call, answer: Option<&Answer>, outcome: &Outcome) -> Check {
    let place = call.place();
    let unanswered = Answer::Withheld("it was not sent".to_owned());
    let (recorded, text) = match (&call.answer, answer.unwrap_or(&unanswered)) {
        (Answer::Given(recorded), Answer::Given(actual)) => {
            let comparer = Comparer::new(&place, &outcome.learned, &outcome.places);
            let mut findings = comparer.frame(recorded, actual);
            if recorded["status"] != actual["status"] {
                findings.retain(|finding| is_of_any_answer(&finding.path));
                let status = findings.iter_mut().filter(|finding| finding.path == "/status");
                status.for_each(|finding| finding.text = format!("{}: {actual}", finding.text));
            }
            return Check { findings };
        }
        (Answer::Withheld(_), Answer::Withheld(_)) => return Check { findings: Vec::new() },
        (Answer::Given(recorded), Answer::Withheld(how)) => {
            (recorded["status"].to_string(), how.clone())
        }
        (Answer::Withheld(how), Answer::Given(actual)) => (how.clone(), actual.to_string()),
    };
    let text = format!("recorded {recorded}, got {text}");
    Check { findings: vec![Finding { place, path: String::new(), kind: Kind::Close, text }] }
}

/// What an answer with another status is compared by; the rest of it is another.
fn is_of_any_answer(path: &str) -> bool {
    let headers = ["x-content-type-options", "referrer-policy", "permissions-policy"];
    path == "/status" || headers.iter().any(|name| path.strip_prefix("/headers/") == Some(*name))
}

/// One connection of a trace, as recorded and as it was now.
struct Connection<'a> {
    trace: &'a Trace,
    outcome: &'a Outcome,
    conn: &'a str,
    log: &'a ConnLog,
}

impl Connection<'_> {
    fn checks(&self) -> Vec<Check> {
        let recorded: Vec<&Value> =
            self.trace.received_on(self.conn).map(|(_, frame)| frame).collect();
        let actual: Vec<&Value> =
            self.log.recorded_part().filter(|frame| !self.is_left_out_piece(frame)).collect();
        let runs = Runs::find(&recorded, &actual, &self.outcome.learned);
        let mut checks = vec![self.close_check(), self.number_check()];
        checks.extend(self.run_checks(&recorded, &actual, &runs));
        for pair in pairs(&recorded, &actual, &runs) {
            if run_of(pair.recorded.or(pair.actual).unwrap_or(&Value::Null)).is_some() {
                continue;
            }
            checks.extend(self.pair_check(&pair.label, pair.recorded, pair.actual));
        }
        checks
    }

    /// Pieces of a run's text that this recording does not have.
    fn is_left_out_piece(&self, frame: &Value) -> bool {
        run_of(frame).is_some() && self.trace.leaves_out(frame)
    }

    fn finding(&self, what: &str, path: &str, kind: Kind, text: String) -> Finding {
        Finding { place: format!("{} {what}", self.conn), path: path.to_owned(), kind, text }
    }

    /// `res <method>` or `event <name>`.
    fn what(&self, label: &Label) -> String {
        if label.name == "res" {
            format!("res {}", self.method_of(&label.detail))
        } else {
            format!("event {}", label.name)
        }
    }

    fn method_of(&self, id: &str) -> String {
        let wanted: Value = serde_json::from_str(id).unwrap_or_default();
        let sent = self.trace.lines.iter().filter(|line| line.conn == self.conn).find_map(|line| {
            if let What::Sent(frame) = &line.what
                && frame["id"] == wanted
            {
                return frame["method"].as_str().map(str::to_owned);
            }
            None
        });
        sent.unwrap_or_else(|| match id {
            "\"b1\"" | "\"big\"" => "connect".to_owned(),
            _ => "raw".to_owned(),
        })
    }

    fn pair_check(
        &self,
        label: &Label,
        recorded: Option<&Value>,
        actual: Option<&Value>,
    ) -> Option<Check> {
        let what = self.what(label);
        let path = if label.name == "res" { "" } else { label.detail.as_str() };
        let findings = match (recorded, actual) {
            (Some(recorded), Some(actual)) => {
                let place = format!("{} {what}", self.conn);
                let comparer = Comparer::new(&place, &self.outcome.learned, &self.outcome.places);
                comparer.frame(&without_seq(recorded), &without_seq(actual))
            }
            _ if label.is_periodic() => return None,
            (Some(recorded), None) if is_not_sent(&self.trace.name, recorded) => return None,
            (None, Some(frame)) if self.trace.leaves_out(frame) => return None,
            (Some(recorded), None) => {
                let run = told_run(recorded).map(|run| format!("recorded in {run}: "));
                let said = said(recorded).map(|said| format!("recorded {said}: "));
                let said = run.or(said).unwrap_or_default();
                let text = format!("{said}{what} {} did not come", label.detail);
                vec![self.finding(&what, path, Kind::MissingFrame, text)]
            }
            _ => {
                let text = format!("{what} {} is not recorded", label.detail);
                vec![self.finding(&what, path, Kind::ExtraFrame, text)]
            }
        };
        Some(Check { findings })
    }

    fn run_checks(&self, recorded: &[&Value], actual: &[&Value], runs: &Runs) -> Vec<Check> {
        let mut names: Vec<&str> = Vec::new();
        let now = actual.iter().filter_map(|f| run_of(f)).map(|run| runs.recorded_name(run));
        for run in recorded.iter().filter_map(|frame| run_of(frame)).chain(now) {
            if !names.contains(&run) {
                names.push(run);
            }
        }
        let place = format!("{} event run", self.conn);
        let side = Side {
            place: &place,
            learned: &self.outcome.learned,
            places: &self.outcome.places,
            complete: self.trace.has_all_agent_events(),
        };
        let check = |run: &str| {
            let of = |frames: &[&'_ Value], name: &dyn Fn(&str) -> bool| {
                let mine = frames.iter().filter(|frame| run_of(frame).is_some_and(name));
                mine.map(|frame| (*frame).clone()).collect::<Vec<Value>>()
            };
            let recorded = of(recorded, &|name| name == run);
            let actual = of(actual, &|name| runs.recorded_name(name) == run);
            let (recorded, actual): (Vec<_>, Vec<_>) =
                (recorded.iter().collect(), actual.iter().collect());
            Check { findings: side.run_findings(&recorded, &actual) }
        };
        names.into_iter().map(check).collect()
    }

    fn close_check(&self) -> Check {
        let recorded =
            self.trace.lines.iter().filter(|line| line.conn == self.conn).find_map(|line| {
                match &line.what {
                    What::ClosedByServer { code, reason } => Some((*code, reason.clone())),
                    _ => None,
                }
            });
        let actual = self.log.closed.as_ref().map(|closed| (closed.code, closed.reason.clone()));
        let same = match (&recorded, &actual) {
            (Some((code, reason)), Some((code_now, reason_now))) => {
                let learned = self.outcome.learned.apply_text(reason);
                code == code_now && super::text::same(&learned, reason_now, &self.outcome.places)
            }
            (None, None) => true,
            _ => false,
        };
        let text = format!("recorded close {recorded:?}, got {actual:?}");
        let finding = self.finding("close", "", Kind::Close, text);
        Check { findings: if same { Vec::new() } else { vec![finding] } }
    }

    /// Our frames are numbered from 0 without a hole, targeted ones too.
    fn number_check(&self) -> Check {
        let events = self.log.frames.iter().filter(|frame| frame["type"] == "event");
        let hole = events.enumerate().find(|(at, frame)| frame["seq"].as_u64() != Some(*at as u64));
        let findings = hole.map(|(at, frame)| {
            let text = format!("event number {at} ({}) has seq {}", frame["event"], frame["seq"]);
            self.finding("seq", "/seq", Kind::Order, text)
        });
        Check { findings: findings.into_iter().collect() }
    }
}

fn without_seq(frame: &Value) -> Value {
    let mut frame = frame.clone();
    if let Some(members) = frame.as_object_mut().filter(|members| members.contains_key("event")) {
        members.remove("seq");
    }
    frame
}
