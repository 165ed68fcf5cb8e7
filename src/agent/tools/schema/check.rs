//! A check of one value.
//!
//! Owns: how far it goes, what of it can be told, and rules that are made of schemas.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::{Complaint, rules, target};

/// Most complaints that are told: what is wrong with a long list is wrong with all of it.
pub(super) const MOST: usize = 32;
/// Most schemas that are tried; a large value of a large schema takes some thousands.
const MAX_STEPS: usize = 50_000;
/// Most schemas that are tried inside of each other; a value is nested less than that, and
/// each takes some hundred bytes of stack.
const MAX_DEPTH: usize = 192;
/// Longest pattern, most bytes that one becomes, and longest text that is held against it:
/// that takes as long as both are large.
const MAX_PATTERN: usize = 1_024;
const MAX_PATTERN_BYTES: usize = 1 << 20;
const MAX_TEXT: usize = 16 * 1_024;

/// What is wrong with a value.
pub(super) fn complaints(schema: &Value, value: &Value) -> Vec<Complaint> {
    let mut check = Check {
        root: schema,
        complaints: Vec::new(),
        is_unsure: false,
        steps: 0,
        depth: 0,
        patterns: HashMap::new(),
    };
    check.value(schema, value, &Place::Root);
    check.complaints
}

/// A place in a value.
pub(super) enum Place<'p> {
    Root,
    Member(&'p Place<'p>, &'p str),
    Item(&'p Place<'p>, usize),
}

impl Place<'_> {
    fn path(&self) -> String {
        let (up, last) = match self {
            Self::Root => return String::new(),
            Self::Member(up, name) => (up, (*name).to_owned()),
            Self::Item(up, index) => (up, index.to_string()),
        };
        let up = up.path();
        if up.is_empty() { last } else { format!("{up}.{last}") }
    }
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
    patterns: HashMap<&'a str, Option<Regex>>,
}

impl<'a> Check<'a> {
    /// Adds what is wrong with a value.
    pub(super) fn value(&mut self, schema: &'a Value, value: &Value, at: &Place<'_>) {
        let rules = match schema {
            Value::Bool(false) => return self.complain(at, "schema is false"),
            Value::Object(rules) => rules,
            _ => return,
        };
        self.steps += 1;
        if self.steps > MAX_STEPS || self.depth >= MAX_DEPTH {
            self.is_unsure = true;
            return;
        }
        self.depth += 1;
        if let Some(Value::String(reference)) = rules.get("$ref") {
            match target(self.root, reference) {
                Some(schema) => self.value(schema, value, at),
                None => self.is_unsure = true,
            }
        }
        let strange = ["$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"];
        self.is_unsure |= strange.iter().any(|name| rules.contains_key(*name));
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
            let (fits, fails, _) = self.branches(schemas, value, at);
            if fits == 0 && fails.len() == schemas.len() {
                self.none_of(fails, at, "must match a schema in anyOf");
            }
        }
        if let Some(schemas) = list("oneOf") {
            let (fits, fails, unsure) = self.branches(schemas, value, at);
            let text = "must match exactly one schema in oneOf";
            match (fits, unsure) {
                (0, 0) => self.none_of(fails, at, text),
                (2.., _) => self.complain(at, text),
                _ => {}
            }
        }
        if let Some(schema) = rules.get("not")
            && let Branch::Fits = self.branch(schema, value, at)
        {
            self.complain(at, "must not be valid");
        }
        if let Some(schema) = rules.get("if") {
            let then = match self.branch(schema, value, at) {
                Branch::Fits => rules.get("then"),
                Branch::Fails(_) => rules.get("else"),
                Branch::Unsure => None,
            };
            if let Some(schema) = then {
                self.value(schema, value, at);
            }
        }
    }

    /// How many of them fit, what is wrong with those that do not, how many may.
    fn branches(
        &mut self,
        schemas: &'a [Value],
        value: &Value,
        at: &Place<'_>,
    ) -> (usize, Vec<Vec<Complaint>>, usize) {
        let (mut fits, mut fails, mut unsure) = (0, Vec::new(), 0);
        for schema in schemas {
            match self.branch(schema, value, at) {
                Branch::Fits => fits += 1,
                Branch::Fails(complaints) => fails.push(complaints),
                Branch::Unsure => unsure += 1,
            }
        }
        (fits, fails, unsure)
    }

    fn none_of(&mut self, fails: Vec<Vec<Complaint>>, at: &Place<'_>, text: &str) {
        for complaint in fails.into_iter().flatten() {
            self.add(complaint);
        }
        self.complain(at, text);
    }

    /// How a value stands to a schema, of which nothing is said.
    pub(super) fn branch(&mut self, schema: &'a Value, value: &Value, at: &Place<'_>) -> Branch {
        let outer = std::mem::take(&mut self.complaints);
        let was_unsure = std::mem::take(&mut self.is_unsure);
        self.value(schema, value, at);
        let complaints = std::mem::replace(&mut self.complaints, outer);
        let is_unsure = std::mem::replace(&mut self.is_unsure, was_unsure);
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
        let built = self.patterns.entry(pattern).or_insert_with(|| {
            let is_short = pattern.len() <= MAX_PATTERN;
            let built = || RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build().ok();
            is_short.then(built).flatten()
        });
        let built = built.as_ref().filter(|_| text.len() <= MAX_TEXT);
        let has = built.map(|pattern| pattern.is_match(text));
        self.is_unsure |= has.is_none();
        has
    }

    /// Takes steps for work of another kind; whether there were some left.
    pub(super) fn pay(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_add(steps);
        let is_paid = self.steps <= MAX_STEPS;
        self.is_unsure |= !is_paid;
        is_paid
    }

    /// Says that something is wrong here.
    pub(super) fn complain(&mut self, at: &Place<'_>, text: impl Into<String>) {
        self.add(Complaint { path: at.path(), text: text.into() });
    }

    fn add(&mut self, complaint: Complaint) {
        if self.complaints.len() < MOST && !self.complaints.contains(&complaint) {
            self.complaints.push(complaint);
        }
    }
}
