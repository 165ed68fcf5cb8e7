//! JSON values, written as they look.
//!
//! Owns: `json!`, which is that of `serde_json` in less code. That one spells out for each
//! member how its name is copied, its value made, and what was there before dropped; here
//! each member is a call. There are 4 700 of them.

use serde::Serialize;
use serde_json::{Map, Value};

/// A [`Value`] in the syntax of JSON; in the place of a value may be an expression of anything
/// that can be serialised, in that of a name a constant, or an expression in parentheses.
///
/// Where something cannot be written, such as a path that is not UTF-8, stands why: that of
/// `serde_json` panics there.
macro_rules! json {
    (null) => { serde_json::Value::Null };
    ([$($items:tt)*]) => { $crate::support::json!(@items [] $($items)*) };
    ({ $($members:tt)* }) => {
        serde_json::Value::Object({
            #[allow(unused_mut, reason = "an object may be empty")]
            let mut object = serde_json::Map::new();
            $crate::support::json!(@members object $($members)*);
            object
        })
    };

    (@members $object:ident) => {};
    (@members $object:ident $name:tt: null $(, $($rest:tt)*)?) => {
        $crate::support::object::put(&mut $object, $name.as_ref(), serde_json::Value::Null);
        $crate::support::json!(@members $object $($($rest)*)?);
    };
    (@members $object:ident $name:tt: [$($items:tt)*] $(, $($rest:tt)*)?) => {
        let value = $crate::support::json!([$($items)*]);
        $crate::support::object::put(&mut $object, $name.as_ref(), value);
        $crate::support::json!(@members $object $($($rest)*)?);
    };
    (@members $object:ident $name:tt: {$($members:tt)*} $(, $($rest:tt)*)?) => {
        let value = $crate::support::json!({$($members)*});
        $crate::support::object::put(&mut $object, $name.as_ref(), value);
        $crate::support::json!(@members $object $($($rest)*)?);
    };
    (@members $object:ident $name:tt: $value:expr $(, $($rest:tt)*)?) => {
        $crate::support::object::put_any(&mut $object, $name.as_ref(), &$value);
        $crate::support::json!(@members $object $($($rest)*)?);
    };

    (@items [$($done:expr,)*]) => {
        serde_json::Value::Array(vec![$($done),*])
    };
    (@items [$($done:expr,)*] null $(, $($rest:tt)*)?) => {
        $crate::support::json!(@items [$($done,)* serde_json::Value::Null,] $($($rest)*)?)
    };
    (@items [$($done:expr,)*] [$($items:tt)*] $(, $($rest:tt)*)?) => {
        $crate::support::json!(
            @items [$($done,)* $crate::support::json!([$($items)*]),] $($($rest)*)?
        )
    };
    (@items [$($done:expr,)*] {$($members:tt)*} $(, $($rest:tt)*)?) => {
        $crate::support::json!(
            @items [$($done,)* $crate::support::json!({$($members)*}),] $($($rest)*)?
        )
    };
    (@items [$($done:expr,)*] $item:expr $(, $($rest:tt)*)?) => {
        $crate::support::json!(
            @items [$($done,)* $crate::support::object::value(&$item),] $($($rest)*)?
        )
    };

    ($value:expr) => { $crate::support::object::value(&$value) };
}

pub(crate) use json;

/// Sets a member.
#[inline(never)]
pub(crate) fn put(object: &mut Map<String, Value>, name: &str, value: Value) {
    object.insert(name.to_owned(), value);
}

/// The same of what is no [`Value`] yet.
#[inline(never)]
pub(crate) fn put_any<T: Serialize + ?Sized>(
    object: &mut Map<String, Value>,
    name: &str,
    value: &T,
) {
    put(object, name, self::value(value));
}

/// As a [`Value`].
#[inline(never)]
pub(crate) fn value<T: Serialize + ?Sized>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| error.to_string().into())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    #[test]
    fn a_value_is_as_that_of_serde_json() {
        const NAME: &str = "constant";
        let text = String::from("text");
        let some = Some(3);
        let none: Option<u8> = None;
        assert_eq!(json!(null), serde_json::json!(null));
        assert_eq!(json!({}), serde_json::json!({}));
        assert_eq!(json!([]), serde_json::json!([]));
        assert_eq!(json!(text.len() + 1), 5);
        assert_eq!(
            json!({
                "text": text, NAME: some, (format!("a{}", 1)): none, "null": null, "empty": {},
                "list": [1, null, [], {"deep": [true, -0.5,]}, text, [text.len(), text.len()][1]],
                "calls": text.as_str().trim_start_matches('t'),
                "twice": 1, "twice": 2,
            }),
            serde_json::json!({
                "text": "text", "constant": 3, "a1": null, "null": null, "empty": {},
                "list": [1, null, [], {"deep": [true, -0.5]}, "text", 4],
                "calls": "ext",
                "twice": 2,
            })
        );
        assert_eq!(text, "text", "only read");
    }

    #[test]
    fn what_cannot_be_written_is_no_reason_to_stop() {
        let odd = Path::new(OsStr::from_bytes(b"/tmp/\xff"));
        let value = json!({"path": odd, "list": [odd], "after": 1});
        let why = "path contains invalid UTF-8 characters";
        assert_eq!(value, serde_json::json!({"path": why, "list": [why], "after": 1}));
    }
}
