//! Methods, and what calling one needs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{self, CatchUnwind, Either};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::auth::Principal;
use crate::protocol::decode::{self, Params};
use crate::protocol::{ErrorShape, Role, Scope};
use crate::support::BoxFuture;
use crate::telemetry::metrics::{Counter, Histogram, NUMBERS, stir};
use crate::telemetry::traces::{self, Kind, Span};

use super::answer::{Answer, Answers};
use super::budget::WriteBudget;
use super::context::{Caller, Ctx, Services};

/// What a handler answers.
pub type Reply<T> = Result<T, ErrorShape>;

type Answering = BoxFuture<'static, Reply<Answer>>;

type Handler = Box<dyn Fn(Ctx, Option<Box<RawValue>>) -> Reply<Answering> + Send + Sync>;

/// Gives what is kept to answer those with who ask without params to somebody who answers
/// with it. Answers whether it was there and he did.
pub type Kept = fn(&Services, &mut dyn FnMut(&str) -> bool) -> bool;

/// What calling a method needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: any connected client.
    Open,
    /// An operator with this scope.
    Operator(Scope),
    /// A node.
    Node,
}

/// One line of the table.
#[derive(Clone, Copy)]
pub struct Method {
    name: &'static str,
    need: Need,
    is_limited: bool,
    waits: bool,
    kept: Option<Kept>,
}

impl Method {
    /// Asked for without params it is answered with what is kept, where that is there.
    #[must_use]
    pub const fn kept(self, kept: Kept) -> Self {
        Self { kept: Some(kept), ..self }
    }

    /// It changes the gateway itself, so a caller may not call it often.
    #[must_use]
    pub const fn limited(self) -> Self {
        Self { is_limited: true, ..self }
    }

    /// It is answered once somebody else has done something: a person, a model, a
    /// node, another program. How long that takes says nothing of the gateway.
    #[must_use]
    pub const fn waits(self) -> Self {
        Self { waits: true, ..self }
    }
}

const fn method(name: &'static str, need: Need) -> Method {
    Method { name, need, is_limited: false, waits: false, kept: None }
}

/// A method for every connected client.
pub const fn open(name: &'static str) -> Method {
    method(name, Need::Open)
}

/// A method that needs `operator.read`.
pub const fn read(name: &'static str) -> Method {
    method(name, Need::Operator(Scope::Read))
}

/// A method that needs `operator.write`.
pub const fn write(name: &'static str) -> Method {
    method(name, Need::Operator(Scope::Write))
}

/// A method that needs `operator.admin`.
pub const fn admin(name: &'static str) -> Method {
    method(name, Need::Operator(Scope::Admin))
}

/// A method that needs `operator.approvals`.
pub const fn approvals(name: &'static str) -> Method {
    method(name, Need::Operator(Scope::Approvals))
}

/// A method that needs `operator.pairing`.
pub const fn pairing(name: &'static str) -> Method {
    method(name, Need::Operator(Scope::Pairing))
}

/// A method for nodes.
pub const fn node(name: &'static str) -> Method {
    method(name, Need::Node)
}

/// How long the answers of a method took; made with the first one, since most
/// methods are never called.
type Timing = OnceLock<Box<Told>>;

/// What is known of the answers of a method.
#[derive(Default)]
struct Told {
    took: Histogram,
    failed: Counter,
}

struct Entry {
    name: &'static str,
    need: Need,
    is_limited: bool,
    waits: bool,
    kept: Option<Kept>,
    timing: Arc<Timing>,
    denied: Counter,
    handler: Handler,
}

/// How long a method took.
pub struct Timed<'a> {
    /// Its name.
    pub method: &'static str,
    /// Whether it waits for others.
    pub waits: bool,
    /// From its request to the end of its handler.
    pub took: &'a Histogram,
    /// How many of its answers were errors.
    pub failed: u64,
}

/// A request that may not be made.
#[derive(Debug, PartialEq)]
pub struct Denial {
    /// What to answer.
    pub error: ErrorShape,
    /// Whether the caller's role is wrong; who goes on trying is closed.
    pub wrong_role: bool,
}

/// The table of methods.
#[derive(Default)]
pub struct Registry {
    entries: Vec<Entry>,
    /// The names are ours, so nobody can choose ones that collide.
    by_name: foldhash::HashMap<&'static str, usize>,
    writes: WriteBudget,
}

impl Registry {
    /// Adds a method. Of two with one name the first stays; a test makes sure
    /// that there are none.
    pub fn add<P, R, F, Fut>(&mut self, method: Method, handler: F)
    where
        P: Params + Send + 'static,
        R: Answers + 'static,
        F: Fn(Ctx, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Reply<R>> + Send + 'static,
    {
        let name = method.name;
        self.enter(
            method,
            Box::new(move |cx, raw| {
                let unknown = cx.caller.profile.unknown_params();
                let params = decode::params(name, raw.as_deref(), unknown)?;
                Ok(Box::pin(handler(cx, params).map(answered)))
            }),
        );
    }

    /// What is the same for every method, so that it is compiled once.
    fn enter(&mut self, method: Method, handler: Handler) {
        let Method { name, need, is_limited, waits, kept } = method;
        self.by_name.entry(name).or_insert(self.entries.len());
        self.entries.push(Entry {
            name,
            need,
            is_limited,
            waits,
            kept,
            timing: Arc::default(),
            denied: Counter::new(),
            handler,
        });
    }

    /// Names of the methods that `principal` may call, in table order.
    pub fn names_for(&self, principal: &Principal) -> Vec<&'static str> {
        self.entries
            .iter()
            .filter(|entry| authorize(principal, Some(entry.need), entry.name).is_ok())
            .map(|entry| entry.name)
            .collect()
    }

    /// Every method with what it needs, in table order.
    pub fn list(&self) -> impl Iterator<Item = (&'static str, Need)> {
        self.entries.iter().map(|entry| (entry.name, entry.need))
    }

    /// How long every method took that was called, in table order.
    pub fn timings(&self) -> impl Iterator<Item = Timed<'_>> {
        self.entries.iter().filter_map(|entry| {
            let told = entry.timing.get()?;
            let (took, failed) = (&told.took, told.failed.get());
            Some(Timed { method: entry.name, waits: entry.waits, took, failed })
        })
    }

    /// How often every method was denied to a caller that was, in table order.
    pub fn denials(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = self.entries.iter().map(|entry| (entry.name, entry.denied.get()));
        all.filter(|(_, denied)| *denied > 0)
    }

    /// Whether `principal` may call a method.
    ///
    /// # Errors
    /// What a call would be refused with.
    pub fn check(&self, principal: &Principal, method: &str) -> Reply<()> {
        let entry = self.entry(method);
        authorize(principal, entry.map(|entry| entry.need), method).map_err(|denial| denial.error)
    }

    /// Whether there is such a method.
    pub fn has(&self, method: &str) -> bool {
        self.by_name.contains_key(method)
    }

    /// Checks role and scope, whether the method is served while the gateway is being
    /// repaired, whether it exists, and how often the caller has changed the gateway, in
    /// this order. Params that are wrong are said by the answer.
    pub fn call(
        &self,
        cx: Ctx,
        method: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<Either<Call, Answering>, Denial> {
        let entry = self.entry(method);
        let denied = entry.map_or(&NUMBERS.unknown_methods, |entry| &entry.denied);
        let entry = self.admit(&cx.services, &cx.caller, entry, method).inspect_err(|_| {
            denied.count();
            stir();
        })?;
        let began = Instant::now();
        let answer = catch_unwind(AssertUnwindSafe(|| (entry.handler)(cx, params)))
            .unwrap_or_else(|_| Err(panicked(entry.name)))
            .unwrap_or_else(|error| Box::pin(future::ready(Err(error))));
        let answer = AssertUnwindSafe(answer).catch_unwind();
        let call = Call { answer, method: entry.name, timing: Arc::clone(&entry.timing), began };
        Ok(if traces::is_on() { Either::Right(traced(call)) } else { Either::Left(call) })
    }

    /// Has a request without params answered with what is kept: most of what a call takes
    /// is spared. `false` where there is nothing, where the caller is to be refused, and
    /// where calls are traced: then it has to be a [`call`](Self::call).
    pub fn kept(
        &self,
        services: &Services,
        caller: &Caller,
        method: &str,
        answer: &mut dyn FnMut(&str) -> bool,
    ) -> bool {
        let Some(entry) = self.entry(method) else { return false };
        let Some(kept) = entry.kept.filter(|_| !entry.is_limited && !traces::is_on()) else {
            return false;
        };
        if self.admit(services, caller, Some(entry), method).is_err() || !kept(services, answer) {
            return false;
        }
        // No clock would tell how long that took.
        entry.timing.get_or_init(Box::default).took.note(Duration::ZERO);
        stir();
        true
    }

    fn entry(&self, method: &str) -> Option<&Entry> {
        self.by_name.get(method).and_then(|index| self.entries.get(*index))
    }

    /// The method, if a caller may make this request now.
    fn admit<'a>(
        &self,
        services: &Services,
        caller: &Caller,
        entry: Option<&'a Entry>,
        method: &str,
    ) -> Result<&'a Entry, Denial> {
        authorize(&caller.principal, entry.map(|entry| entry.need), method)?;
        if let Some(repair) = services.repair.as_ref().filter(|it| !it.serves(method)) {
            return Err(Denial { error: repair.refusal(), wrong_role: false });
        }
        let Some(entry) = entry else { return Err(unknown(method)) };
        if entry.is_limited {
            let paid = self.writes.pay(&caller.payer(), entry.name);
            paid.map_err(|error| Denial { error, wrong_role: false })?;
        }
        Ok(entry)
    }
}

/// The answer of a handler, once there is one.
pub struct Call {
    answer: CatchUnwind<AssertUnwindSafe<Answering>>,
    method: &'static str,
    timing: Arc<Timing>,
    began: Instant,
}

impl Future for Call {
    type Output = Reply<Answer>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Reply<Answer>> {
        let reply =
            ready!(self.answer.poll_unpin(task)).unwrap_or_else(|_| Err(panicked(self.method)));
        let told = self.timing.get_or_init(Box::default);
        told.took.note(self.began.elapsed());
        if reply.is_err() {
            told.failed.count();
        }
        stir();
        Poll::Ready(reply)
    }
}

/// What a handler gave, as JSON.
fn answered<R: Answers>(reply: Reply<R>) -> Reply<Answer> {
    let failed = |error: serde_json::Error| ErrorShape::unavailable(format!("Error: {error}"));
    reply?.into_answer().map_err(failed)
}

fn panicked(method: &'static str) -> ErrorShape {
    tracing::error!(method, "handler panicked");
    ErrorShape::unavailable(format!("Error: {method} failed inside the gateway"))
}

/// A call, as a span.
fn traced(call: Call) -> Answering {
    Box::pin(async move {
        let mut span = Span::here(call.method, Kind::Server);
        span.set("rpc.system", "openclaw");
        span.set("rpc.method", call.method);
        let reply = traces::within(span.context(), call).await;
        if let Err(error) = &reply {
            span.fail(error.code.as_str());
        }
        reply
    })
}

/// What is answered to a request for a method that there is not.
fn unknown(method: &str) -> Denial {
    let error = if method == "connect" {
        ErrorShape::invalid("connect is only valid as the first request")
    } else {
        ErrorShape::not_found(format!("unknown method: {method}"))
    };
    Denial { error, wrong_role: false }
}

/// The one place that decides whether a principal may call a method. A method
/// that does not exist needs admin, so that only admins learn that.
fn authorize(principal: &Principal, need: Option<Need>, method: &str) -> Result<(), Denial> {
    let (role, scope) = match need {
        Some(Need::Open) => return Ok(()),
        Some(Need::Operator(scope)) => (Role::Operator, Some(scope)),
        Some(Need::Node) => (Role::Node, None),
        None => (Role::Operator, Some(Scope::Admin)),
    };
    if principal.role() != role {
        tracing::debug!(method, "refused: wrong role");
        let error = ErrorShape::denied(format!("unauthorized role: {}", principal.role().as_str()));
        return Err(Denial { error, wrong_role: true });
    }
    if let Some(scope) = scope.filter(|scope| !principal.allows(*scope)) {
        return Err(Denial { error: ErrorShape::lacks(scope.as_str()), wrong_role: false });
    }
    Ok(())
}
