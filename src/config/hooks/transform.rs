//! What becomes of a request to a mapped hook before it is taken up, said by
//! rules instead of a program.

use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Number, Value};

use super::mapping::{Fields, WrittenFields};
use super::template::{Field, Source, shown};
use crate::config::ConfigError;
use crate::config::schema::Node;

/// Most rules of one transform: each is looked at for each request.
const RULES_MAX: usize = 64;
/// Bound of a compiled pattern, in bytes: each stays in memory.
const PATTERN_SIZE: usize = 256 * 1024;

/// Rules for requests to a mapped hook.
#[derive(Debug, Clone, Default)]
pub struct Transform {
    /// What stands for values that a request does not have, under their names.
    pub defaults: Vec<(Field, Value)>,
    /// All hold, or nothing is done.
    pub when: Vec<Condition>,
    /// What is otherwise than the mapping says.
    pub set: Fields,
    /// The first of them that holds counts.
    pub cases: Vec<Case>,
}

/// What is done with some of the requests.
#[derive(Debug, Clone)]
pub struct Case {
    /// Those for which all of this holds.
    pub when: Vec<Condition>,
    /// Nothing is done with them.
    pub skip: bool,
    /// What is otherwise than the mapping says.
    pub set: Fields,
}

/// What may hold for a request.
#[derive(Debug, Clone)]
pub struct Condition {
    field: Field,
    test: Test,
    is_turned: bool,
}

#[derive(Debug, Clone)]
enum Test {
    Exists(bool),
    Is(Vec<Value>),
    Contains(String),
    Matches(Regex),
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Written {
    defaults: Map<String, Value>,
    when: Vec<WrittenCondition>,
    set: WrittenFields,
    cases: Vec<WrittenCase>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct WrittenCase {
    when: Vec<WrittenCondition>,
    skip: bool,
    set: WrittenFields,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct WrittenCondition {
    field: String,
    exists: Option<bool>,
    equals: Option<Scalar>,
    #[serde(rename = "in")]
    one_of: Option<Vec<Scalar>>,
    contains: Option<String>,
    matches: Option<String>,
    not: bool,
}

/// What a value of a request is compared with.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "must be a text, a number, true or false")]
enum Scalar {
    Text(String),
    Number(Number),
    Boolean(bool),
}

impl From<Scalar> for Value {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Text(text) => Self::String(text),
            Scalar::Number(number) => Self::Number(number),
            Scalar::Boolean(value) => Self::Bool(value),
        }
    }
}

impl Transform {
    /// Reads the rules of a mapping; `None` when a program of JavaScript says them,
    /// which is not run.
    pub(super) fn read(node: &Node<'_>) -> Result<Option<Self>, ConfigError> {
        if node.member("module")?.text()?.is_some() {
            return Ok(None);
        }
        let written: Written = node.deserialize()?;
        let conditions = written.cases.iter().map(|case| case.when.len()).sum::<usize>();
        if written.when.len() + written.cases.len() + conditions > RULES_MAX {
            return Err(node.wrong(&format!("must have at most {RULES_MAX} rules")));
        }
        let case = |(index, case): (usize, WrittenCase)| {
            let at = format!("cases[{index}]");
            Ok::<_, ConfigError>(Case {
                when: conditions_of(node, &format!("{at}.when"), case.when)?,
                skip: case.skip,
                set: case.set.read(&node.inside(&format!("{at}.set")))?,
            })
        };
        let defaults = written.defaults.into_iter();
        Ok(Some(Self {
            defaults: defaults.map(|(name, value)| (Field::parse(&name), value)).collect(),
            when: conditions_of(node, "when", written.when)?,
            set: written.set.read(&node.inside("set"))?,
            cases: written
                .cases
                .into_iter()
                .enumerate()
                .map(case)
                .collect::<Result<_, ConfigError>>()?,
        }))
    }

    /// Everything that may be otherwise than the mapping says.
    pub(super) fn all_fields(&self) -> impl Iterator<Item = &Fields> {
        [&self.set].into_iter().chain(self.cases.iter().map(|case| &case.set))
    }
}

fn conditions_of(
    node: &Node<'_>,
    at: &str,
    written: Vec<WrittenCondition>,
) -> Result<Vec<Condition>, ConfigError> {
    let read = |(index, written): (usize, WrittenCondition)| {
        Condition::of(written).map_err(|why| node.inside(&format!("{at}[{index}]")).wrong(&why))
    };
    written.into_iter().enumerate().map(read).collect()
}

impl Condition {
    fn of(written: WrittenCondition) -> Result<Self, String> {
        if written.field.trim().is_empty() {
            return Err("must name a field".into());
        }
        let is = written.equals.map(|value| vec![value]).or(written.one_of);
        let is = is.map(|all| Test::Is(all.into_iter().map(Value::from).collect()));
        let pattern = |text: String| {
            let built = regex::RegexBuilder::new(&text).size_limit(PATTERN_SIZE).build();
            built.map(Test::Matches).map_err(|error| format!("has a wrong pattern: {error}"))
        };
        let tests = [
            written.exists.map(|exists| Ok(Test::Exists(exists))),
            is.map(Ok),
            written.contains.map(|part| Ok(Test::Contains(part))),
            written.matches.map(pattern),
        ];
        let mut tests = tests.into_iter().flatten();
        let (Some(test), None) = (tests.next(), tests.next()) else {
            return Err("must have one of exists, equals, in, contains, matches".into());
        };
        Ok(Self { field: Field::parse(&written.field), test: test?, is_turned: written.not })
    }

    /// Whether it holds.
    pub fn holds(&self, source: &dyn Source) -> bool {
        let value = source.value(&self.field).filter(|value| !value.is_null());
        let holds = match (&self.test, &value) {
            (Test::Exists(wanted), value) => value.is_some() == *wanted,
            (_, None) => false,
            (Test::Is(all), Some(value)) => all.iter().any(|wanted| is_same(wanted, value)),
            (Test::Contains(part), Some(Value::Array(items))) => {
                items.iter().any(|item| item == part.as_str())
            }
            (Test::Contains(part), Some(value)) => shown(Some(value)).contains(part),
            (Test::Matches(pattern), Some(value)) => pattern.is_match(&shown(Some(value))),
        };
        holds != self.is_turned
    }
}

/// Headers and the query only have texts: `3` there is 3.
fn is_same(wanted: &Value, value: &Value) -> bool {
    wanted == value
        || (value.is_string() && !wanted.is_null() && shown(Some(wanted)) == shown(Some(value)))
}
