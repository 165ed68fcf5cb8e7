//! The rule for numbers that need not be whole.

use serde_json::Value;

use super::{Path, Rule, Unknown};

/// Any number.
#[derive(Debug, Clone, Copy)]
pub struct Number;

/// Any number.
pub const fn number() -> Number {
    Number
}

impl Rule for Number {
    type Out = f64;
    fn read(&self, value: Value, path: &Path, _: Unknown, errors: &mut Vec<String>) -> Option<f64> {
        let number = value.as_f64();
        if number.is_none() {
            errors.push(path.say("must be number"));
        }
        number
    }
}
