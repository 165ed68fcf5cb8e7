//! A check of one value.
//!
//! Owns: how far it goes, what of it can be told, and rules that are made of schemas.

use std::collections::HashMap;
use std::mem::discriminant;

use serde_json::{Map, Value};

use crate::providers::schema::target;

use super::pattern::{self, Pattern};
use super::place::Place;
use super::{Complaint, rules, shown};

/// Most complaints that are told: what is wrong with a long list is wrong with all of it.
pub(super) const MOST: usize = 32;
/// Most steps of a check. A schema that is tried takes one, and so do names, values and bytes
/// that are looked at for it; a large value of a large schema takes some thousands.
pub(super) const MAX_STEPS: usize = 50_000;
/// Most schemas that are tried inside of each other; a value is nested less than that. They
/// take a megabyte of stack where nothing is optimised.
const MAX_DEPTH: usize = 192;
/// Most bytes of a text that are looked at in one step.
const STEP: usize = 64;
/// Most patterns that are read, and what one costs.
const MAX_PATTERNS: usize = 64;
const PATTERN: usize = 100;

/// What is wrong with a value, and how many steps it took to tell.
pub(super) fn complaints(schema: &Value, value: &Value) -> (Vec<Complaint>, usize) {
    let mut check = Check {
        root: schema,
        complaints: Vec::new(),
        is_unsure: false,
        steps: 0,
        depth: 0,
        patterns: HashMap::new(),
    };
    check.value(schema, value, &Place::Root);
    (check.complaints, check.steps)
}

/// How a value stands to a schema that need not hold.
pub(super) enum Branch {
    Fits,
    Fails(Vec<Complaint>),
    /// A part of the schema was passed over, and the rest of it holds.
    Unsure,
}

pub(super) struct Check<'a> {
    root: &'a Value,
    complaints: Vec<Complaint>,
    /// Whether something was passed over.
    is_unsure: bool,
    steps: usize,
    depth: usize,
    /// `None` for what cannot be one here.
    patterns: HashMap<&'a str, Option<Pattern>>,
}

impl<'a> Check<'a> {
    /// Adds what is wrong with a value.
    pub(super) fn value(&mut self, schema: &'a Value, value: &Value, at: &Place<'_>) {
        if !self.pay(1) {
            return;
        }
        let rules = match schema {
            Value::Bool(false) => return self.complain(at, || "schema is false".into()),
            Value::Object(rules) => rules,
            _ => return,
        };
        if self.depth >= MAX_DEPTH {
            self.is_unsure = true;
            return;
        }
        self.depth += 1;
        if let Some(Value::String(reference)) = rules.get("$ref") {
            let is_paid = self.pay_for(reference);
            match target(self.root, reference).filter(|_| is_paid) {
                Some(schema) => self.value(schema, value, at),
                None => self.is_unsure = true,
            }
        }
        let strange = ["$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"];
        self.is_unsure |= strange.iter().any(|name| rules.contains_key(*name))
            || (value.is_string() && rules.contains_key("format"));
        rules::of_any(self, rules, value, at);
        match value {
            Value::Object(members) => rules::of_object(self, rules, (value, members), at),
            Value::Array(items) => rules::of_list(self, rules, items, at),
            Value::String(text) => rules::of_text(self, rules, text, at),
            Value::Number(number) => rules::of_number(self, rules, number, at),
            Value::Null | Value::Bool(_) => {}
        }
        self.combined(rules, value, at);
        self.depth -= 1;
    }

    /// Rules of other schemas that hold for the same value.
    fn combined(&mut self, rules: &'a Map<String, Value>, value: &Value, at: &Place<'_>) {
        let list = |name: &str| rules.get(name).and_then(Value::as_array);
        for schema in list("allOf").into_iter().flatten() {
            self.value(schema, value, at);
        }
        if let Some(schemas) = list("anyOf") {
            let (fits, unsure, wrong) = self.branches(schemas, value, at);
            if fits + unsure == 0 {
                self.none_of(wrong, at, "must match a schema in anyOf");
            }
        }
        if let Some(schemas) = list("oneOf") {
            let (fits, unsure, wrong) = self.branches(schemas, value, at);
            let text = "must match exactly one schema in oneOf";
            match (fits, unsure) {
                (0, 0) => self.none_of(wrong, at, text),
                (2.., _) => self.complain(at, || text.into()),
                _ => {}
            }
        }
        if let Some(schema) = rules.get("not")
            && let Branch::Fits = self.branch(schema, value, at)
        {
            self.complain(at, || "must not be valid".into());
        }
        if let Some(schema) = rules.get("if") {
            let name = match self.branch(schema, value, at) {
                Branch::Fits => "then",
                Branch::Fails(_) => "else",
                Branch::Unsure => return,
            };
            let Some(schema) = rules.get(name) else { return };
            let before = self.complaints.len();
            self.value(schema, value, at);
            if self.complaints.len() > before {
                self.complain(at, || format!("must match \"{name}\" schema"));
            }
        }
    }

    /// How many of them fit, how many may, and what is wrong with the rest.
    fn branches(
        &mut self,
        schemas: &'a [Value],
        value: &Value,
        at: &Place<'_>,
    ) -> (usize, usize, Vec<Complaint>) {
        let (mut fits, mut unsure, mut wrong) = (0, 0, Vec::new());
        for schema in schemas {
            if self.is_spent() {
                unsure += 1;
                break;
            }
            match self.branch(schema, value, at) {
                Branch::Fits => fits += 1,
                Branch::Unsure => unsure += 1,
                Branch::Fails(complaints) => wrong.extend(complaints),
            }
            wrong.truncate(MOST);
        }
        (fits, unsure, wrong)
    }

    fn none_of(&mut self, wrong: Vec<Complaint>, at: &Place<'_>, text: &str) {
        for complaint in wrong {
            self.add(complaint);
        }
        self.complain(at, || text.into());
    }

    /// How a value stands to a schema, of which nothing is said.
    pub(super) fn branch(&mut self, schema: &'a Value, value: &Value, at: &Place<'_>) -> Branch {
        let outer = std::mem::take(&mut self.complaints);
        let was_unsure = std::mem::take(&mut self.is_unsure);
        self.value(schema, value, at);
        let complaints = std::mem::replace(&mut self.complaints, outer);
        let is_unsure = std::mem::replace(&mut self.is_unsure, was_unsure) || self.is_spent();
        if !complaints.is_empty() {
            return Branch::Fails(complaints);
        }
        if !is_unsure {
            return Branch::Fits;
        }
        self.is_unsure = true;
        Branch::Unsure
    }

    /// Whether a text has a pattern; `None` where that cannot be told.
    pub(super) fn has_pattern(&mut self, pattern: &'a str, text: &str) -> Option<bool> {
        let has = self.try_pattern(pattern, text);
        self.is_unsure |= has.is_none();
        has
    }

    fn try_pattern(&mut self, pattern: &'a str, text: &str) -> Option<bool> {
        if pattern.len() > pattern::MAX_LENGTH || text.len() > pattern::MAX_TEXT {
            return None;
        }
        if !self.patterns.contains_key(pattern) {
            if self.patterns.len() == MAX_PATTERNS || !self.pay(PATTERN) {
                return None;
            }
            self.patterns.insert(pattern, Pattern::read(pattern));
        }
        let cost = self.patterns.get(pattern)?.as_ref()?.cost(text);
        let is_paid = self.pay(cost);
        let read = self.patterns.get(pattern)?.as_ref().filter(|_| is_paid)?;
        Some(read.is_in(text))
    }

    /// Whether two values are the same: numbers by what they are, members in any order. `None`
    /// where that would take too long.
    pub(super) fn is_same(&mut self, one: &Value, other: &Value) -> Option<bool> {
        if discriminant(one) != discriminant(other) {
            return self.pay(1).then_some(false);
        }
        if let Value::String(text) = one {
            return self.pay_for(text).then(|| one == other);
        }
        let (one, other) = (self.canonical(one)?, self.canonical(other)?);
        Some(one == other)
    }

    /// A text that is the same for what is the same.
    pub(super) fn canonical(&mut self, value: &Value) -> Option<String> {
        let most = MAX_STEPS.saturating_sub(self.steps).saturating_mul(STEP);
        let mut text = String::new();
        rules::write_canonical(value, &mut text, most);
        self.pay_for(&text).then_some(text)
    }

    /// Takes steps; whether there were some left.
    pub(super) fn pay(&mut self, steps: usize) -> bool {
        if !self.is_spent() {
            self.steps = self.steps.saturating_add(steps);
        }
        self.is_unsure |= self.is_spent();
        !self.is_spent()
    }

    /// Whether there are none left: nothing that follows can be told.
    pub(super) fn is_spent(&self) -> bool {
        self.steps > MAX_STEPS
    }

    /// Takes those of a text that is read.
    pub(super) fn pay_for(&mut self, text: &str) -> bool {
        self.pay(1 + text.len() / STEP)
    }

    /// Says that something is wrong here.
    pub(super) fn complain(&mut self, at: &Place<'_>, text: impl FnOnce() -> String) {
        if self.complaints.len() < MOST {
            self.add(Complaint { path: shown(at), text: text() });
        }
    }

    fn add(&mut self, complaint: Complaint) {
        if self.complaints.len() < MOST && !self.complaints.contains(&complaint) {
            self.complaints.push(complaint);
        }
    }
}
