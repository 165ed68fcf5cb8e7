#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

use serde_json::Value;

use crate::support::json;

use super::*;

fn at(path: &str) -> ValuePath {
    path.parse().unwrap()
}

#[track_caller]
fn sets(text: &str, path: &str, value: Value, expected: &str) {
    assert_eq!(set(text, &at(path), &value).unwrap(), expected);
}

#[track_caller]
fn removes(text: &str, path: &str, expected: &str) {
    assert_eq!(remove(text, &at(path)).unwrap(), expected);
}

const CONFIG: &str = "\
// my gateway
{
  gateway: { port: 18789, bind: 'loopback' }, // where it listens
  agents: {
    defaults: {
      /* the good one */ model: \"a/b\", // do not touch
      workspace: '~/w',
    },
    list: [{ id: 'main' }, { id: 'work' }]
  },
  $odd: [1, 2,], 'qu\\'oted': .5e3,
}
// the end
";

#[test]
fn a_way_that_is_too_deep_to_be_read_again_is_refused() {
    for length in [129, 200, 100_000] {
        let error = set("{}", &ValuePath::of(&vec!["a"; length]), &json!(1)).unwrap_err();
        assert!(matches!(error, EditError::TooDeep(_)), "{length}");
    }
    let keys = ["a"; 200];
    let error = set("{}", &ValuePath::of(&keys), &json!(1)).unwrap_err();
    assert!(matches!(error, EditError::TooDeep(_)), "{error}");
    set("{}", &ValuePath::of(&keys[..100]), &json!(1)).unwrap();
}

#[test]
fn a_value_is_replaced_and_nothing_else() {
    sets(CONFIG, "agents.defaults.model", json!("c/d"), &CONFIG.replace("\"a/b\"", "\"c/d\""));
    sets(CONFIG, "gateway.port", json!(7), &CONFIG.replace("18789", "7"));
    sets(CONFIG, "agents.list[1].id", json!("w"), &CONFIG.replace("'work'", "\"w\""));
    sets(CONFIG, "[\"qu'oted\"]", json!(null), &CONFIG.replace(".5e3", "null"));
    sets(
        CONFIG,
        "agents.defaults.model",
        json!({"primary": "c/d", "fallbacks": ["e/f"], "x": [{"y": {}}]}),
        &CONFIG.replace(
            "\"a/b\"",
            "{\n        primary: \"c/d\",\n        fallbacks: [\"e/f\"],\n        x: [\n          {\n            y: {}\n          }\n        ]\n      }",
        ),
    );
}

#[test]
fn a_new_member_comes_last_in_the_manner_of_its_neighbours() {
    sets(
        CONFIG,
        "agents.defaults.timeoutSeconds",
        json!(5),
        &CONFIG.replace("'~/w',\n", "'~/w',\n      timeoutSeconds: 5,\n"),
    );
    sets(
        CONFIG,
        "gateway.mode",
        json!("local"),
        &CONFIG.replace("'loopback' }", "'loopback', mode: \"local\" }"),
    );
    sets(
        CONFIG,
        "agents.x.y-z",
        json!(true),
        &CONFIG.replace("'work' }]\n", "'work' }],\n    x: {\n      \"y-z\": true\n    }\n"),
    );
    sets(CONFIG, "agents.list[2]", json!("c"), &CONFIG.replace("'work' }]", "'work' }, \"c\"]"));
    sets(CONFIG, "$odd[2]", json!(3), &CONFIG.replace("[1, 2,]", "[1, 2, 3]"));
    sets(
        "{\"a\": {\"b\": 1}}",
        "a.c.d",
        json!([]),
        "{\"a\": {\"b\": 1, \"c\": {\n  \"d\": []\n}}}",
    );
}

#[test]
fn a_comment_stays_with_the_line_it_explains() {
    let text = "{\n  a: 1, // one\n  b: 2 // two\n  // what comes next\n}\n";
    sets(
        text,
        "c",
        json!(3),
        "{\n  a: 1, // one\n  b: 2, // two\n  c: 3\n  // what comes next\n}\n",
    );
    let text = "{\r\n\ta: 1, /* one */ // and more\r\n}";
    sets(text, "c", json!(3), "{\r\n\ta: 1, /* one */ // and more\r\n\tc: 3,\r\n}");
    sets("{\n  a: 1 /* no, */\n}", "b", json!(2), "{\n  a: 1, /* no, */\n  b: 2\n}");
    sets(
        "{ // nothing yet\n}\n",
        "a.b",
        json!(1),
        "{ // nothing yet\n  \"a\": {\n    \"b\": 1\n  }\n}\n",
    );
}

#[test]
fn an_empty_text_becomes_a_document() {
    for text in ["", "  \n"] {
        let made = set(text, &at("a.b"), &json!(1));
        assert_eq!(made.unwrap(), "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n", "{text:?}");
    }
    sets("{}", "a", json!("x"), "{\n  \"a\": \"x\"\n}");
    sets("{a: null}", "a.b[0]", json!(1), "{a: {\n  b: [1]\n}}");
}

#[test]
fn what_is_removed_leaves_no_trace_and_takes_nothing_with_it() {
    removes(CONFIG, "agents.defaults.workspace", &CONFIG.replace("      workspace: '~/w',\n", ""));
    removes(CONFIG, "gateway.bind", &CONFIG.replace(", bind: 'loopback'", ""));
    removes(CONFIG, "gateway.port", &CONFIG.replace("port: 18789, ", ""));
    removes(CONFIG, "agents.list[0]", &CONFIG.replace("{ id: 'main' }, ", ""));
    removes(CONFIG, "agents.none.x", CONFIG);
    removes("{\n  a: 1,\n  b: 2\n}", "b", "{\n  a: 1\n}");
    removes("{a: 1}", "a", "{}");
    removes("{\n  a: 1, // note\n  b: 2,\n}", "a", "{\n  // note\n  b: 2,\n}");
    removes("{a: 1, b: 2, a: 3}", "a", "{b: 2}");
}

#[test]
fn of_a_key_that_is_there_twice_the_one_that_counts_is_changed() {
    sets("{a: 1, a: 2}", "a", json!(3), "{a: 1, a: 3}");
}

#[test]
fn what_is_no_json5_is_said_with_the_file() {
    let error =
        |text: &str| set(text, &at("a"), &json!(1)).unwrap_err().in_file("/c.json".as_ref());
    assert!(error("{\na: 1 2}").to_string().starts_with("/c.json:2:"));
    assert!(error("[1]").to_string().ends_with("must be an object (in /c.json)"));
    let elsewhere = set("{a: 5}", &at("a.b"), &json!(1)).unwrap_err();
    assert!(elsewhere.in_file("/c.json".as_ref()).to_string().starts_with("a: there is no way"));
}

#[test]
fn what_cannot_be_done_is_said_with_the_path() {
    let error = |text: &str, path: &str| set(text, &at(path), &json!(1)).unwrap_err().to_string();
    assert_eq!(error("{a: 5}", "a.b.c"), "a: there is no way further down: it is a plain value");
    assert_eq!(error("{a: []}", "a.b"), "a: there is no way further down: it is a list");
    assert_eq!(error("{a: {}}", "a[0]"), "a: there is no way further down: it is an object");
    assert_eq!(error("{a: [1]}", "a[3]"), "a[3]: the list has 1 items");
    assert_eq!(error("{}", "a[1]"), "a[1]: the list has 0 items");
    assert!(error("{a: ", "a").contains("not valid JSON5"));
    assert!(error("[1]", "a").contains("must be an object"));
    for wrong in ["", ".", "a.", "a..b", "a[", "a[x]", "[\"a]", "a]b["] {
        assert!(wrong.parse::<ValuePath>().is_err(), "{wrong:?}");
    }
    for path in ["a", "a.b[0][12].c", "[\"a.b\"].c", "a[\"\"]"] {
        assert_eq!(at(path).to_string(), path);
    }
}

/// Documents in every manner of writing.
fn document() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let space =
        prop::sample::select(vec!["", " ", "\n", "\n  ", " // c, }\n", "/* ] */", "\r\n\t"]);
    let key = prop::sample::select(vec!["a", "b", "\"c\"", "'d'", "$e", "\"f.g\"", "\"\\u0061\""]);
    let leaf = prop::sample::select(vec![
        "1",
        "'x,}'",
        "\"y//\"",
        "null",
        "true",
        "-.5",
        "\"\\\"\"",
        "+Infinity",
    ]);
    let leaf = leaf.prop_map(str::to_owned);
    let value = leaf.prop_recursive(4, 24, 4, move |inner| {
        let entry = (space.clone(), key.clone(), space.clone(), inner.clone(), space.clone());
        let members = prop::collection::vec(entry, 0..4);
        let items = prop::collection::vec((space.clone(), inner, space.clone()), 0..4);
        prop_oneof![
            (members, any::<bool>()).prop_map(|(members, trailing)| {
                let members: Vec<_> = members
                    .into_iter()
                    .map(|(a, k, b, v, c)| format!("{a}{k}:{b}{v}{c}"))
                    .collect();
                let comma = if trailing && !members.is_empty() { "," } else { "" };
                format!("{{{}{comma}}}", members.join(","))
            }),
            items.prop_map(|items| {
                let items: Vec<_> =
                    items.into_iter().map(|(a, v, b)| format!("{a}{v}{b}")).collect();
                format!("[{}]", items.join(","))
            }),
        ]
    });
    value.prop_map(|value| format!("// top\n{{ a: {value}, b: {value} }}\n"))
}

proptest::proptest! {
    /// The result means what was asked for (`verified` sees to that), and an
    /// edit is an error only where there is no way.
    #[test]
    fn every_document_can_be_edited(
        text in document(),
        path in "[ab](\\.[abcd]|\\[[01]\\]){0,3}",
        number in 0_u64..9,
    ) {
        let path = at(&path);
        match set(&text, &path, &json!(number)) {
            Ok(edited) => {
                let again = set(&edited, &path, &json!(number)).unwrap();
                proptest::prop_assert_eq!(&again, &edited);
                let gone = remove(&edited, &path).unwrap();
                proptest::prop_assert!(gone.contains("// top"));
            }
            Err(EditError::NoWay { .. } | EditError::NoItem { .. }) => {}
            Err(error) => proptest::prop_assert!(false, "{error} in {text}"),
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "[\\[\\]{}'\"/*\\\\\n a:,0]{0,60}") {
        let _ = set(&text, &at("a.b"), &json!(1));
        let _ = remove(&text, &at("a.b"));
    }
}
