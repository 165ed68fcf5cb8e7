//! What includes mean, and what they may not do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;
use crate::config::parse;
use crate::support::json;

struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        // Without links of its own.
        let directory = tempfile::tempdir_in(fs::canonicalize(std::env::temp_dir()).unwrap());
        let directory = directory.unwrap();
        for (name, text) in files {
            let path = directory.path().join("home").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::create_dir_all(directory.path().join("home")).unwrap();
        Self { directory }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("home/openclaw.json")
    }

    fn whole(&self, text: &str) -> Result<Value, String> {
        let raw = parse(text, &self.file()).unwrap();
        whole(raw, &self.file()).map(|whole| whole.value).map_err(|error| error.to_string())
    }
}

#[test]
fn a_file_stands_for_what_is_in_it_and_the_text_beside_it_wins() {
    let home = Home::new(&[
        ("agents.json5", "{ defaults: { model: 'a/b', skills: ['x'] }, /* . */ }"),
        ("parts/more.json", r#"{"defaults": {"model": "c/d", "skills": ["y"]}, "list": []}"#),
        ("parts/deep.json5", "{ channels: { $include: '../list.json5' } }"),
        ("list.json5", "[1, 2]"),
    ]);
    for (text, value) in [
        (
            "{agents: {$include: './agents.json5'}}",
            json!({"agents": {"defaults": {"model": "a/b", "skills": ["x"]}}}),
        ),
        (
            "{agents: {$include: ['agents.json5', 'parts/more.json'], list: [{id: 'm'}]}}",
            json!({"agents": {"defaults": {"model": "c/d", "skills": ["x", "y"]},
                "list": [{"id": "m"}]}}),
        ),
        (
            "{agents: {$include: 'agents.json5', defaults: {model: 'own'}}}",
            json!({"agents": {"defaults": {"model": "own", "skills": ["x"]}}}),
        ),
        (
            "{$include: 'parts/deep.json5', x: [{$include: 'list.json5'}]}",
            json!({"channels": [1, 2], "x": [[1, 2]]}),
        ),
        ("{a: 1}", json!({"a": 1})),
    ] {
        assert_eq!(home.whole(text), Ok(value), "{text}");
    }
    let absolute = home.file().with_file_name("list.json5");
    let text = format!("{{x: {{$include: {absolute:?}}}}}");
    assert_eq!(home.whole(&text), Ok(json!({"x": [1, 2]})));
}

#[test]
fn the_files_are_told() {
    let home = Home::new(&[("a.json", r#"{"x": {"$include": "b.json"}}"#), ("b.json", "1")]);
    let raw = json!({"p": {"$include": ["a.json", "a.json"]}});
    let files = whole(raw, &home.file()).unwrap().files;
    let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["a.json", "b.json"]);
    symlink("b.json", home.file().with_file_name("link.json")).unwrap();
    let files = whole(json!({"p": {"$include": "link.json"}}), &home.file()).unwrap().files;
    assert_eq!(files, ["link.json", "b.json"].map(|name| home.file().with_file_name(name)));
}

#[test]
fn no_file_outside_of_the_directory_is_read() {
    let home = Home::new(&[("in.json", "1"), ("down/up.json", r#"{"$include": "../../secret"}"#)]);
    let outside = home.directory.path().join("secret");
    fs::write(&outside, "2").unwrap();
    symlink(&outside, home.file().with_file_name("link.json")).unwrap();
    symlink(home.directory.path(), home.file().with_file_name("way")).unwrap();
    let written = outside.display().to_string();
    for name in ["../secret", "down/../../secret", "link.json", "way/secret", &written] {
        let error = home.whole(&json!({"p": {"$include": name}}).to_string()).unwrap_err();
        assert!(error.starts_with("p.$include: must stay in "), "{name}: {error}");
    }
    let error = home.whole("{p: {q: {$include: 'down/up.json'}}}").unwrap_err();
    assert!(error.starts_with("p.q.$include: must stay in ") && error.contains("up.json"));
}

#[test]
fn what_is_wrong_with_an_include_is_told_with_its_path() {
    let home = Home::new(&[
        ("one.json", r#"{"x": {"$include": "two.json"}}"#),
        ("two.json", r#"{"y": {"$include": "one.json"}}"#),
        ("list.json", "[]"),
        ("bad.json5", "{\n  a: ,\n}"),
        ("self.json", r#"{"$include": "openclaw.json"}"#),
        ("openclaw.json", r#"{"$include": "self.json"}"#),
        ("folder/x", ""),
        ("blank.json5", " \n"),
        ("further.json5", "{x: {$include: 'blank.json5'}}"),
    ]);
    let pipe = home.file().with_file_name("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    for (text, start) in [
        ("{p: {$include: 'one.json'}}", "p.x.y.$include: \"one.json\" includes itself"),
        ("{p: {$include: 'gone.json'}}", "p.$include: cannot read \"gone.json\""),
        ("{p: {$include: 'folder'}}", "p.$include: cannot read \"folder\": it is no file"),
        ("{p: {$include: 'pipe'}}", "p.$include: cannot read \"pipe\": it is no file"),
        ("{p: {$include: 5}}", "p.$include: must be the path of a file"),
        ("{p: {$include: []}}", "p.$include: must be the path of a file"),
        ("{p: {$include: ['list.json', 1]}}", "p.$include: must be the path of a file"),
        ("{p: [{$include: 'list.json', a: 1}]}", "p[0].$include: must lead to an object"),
    ] {
        let error = home.whole(text).unwrap_err();
        assert!(error.starts_with(start), "{text}: {error}");
    }
    assert!(home.whole("{p: {$include: 'bad.json5'}}").unwrap_err().contains("bad.json5:2:"));
    let blank = fs::canonicalize(home.file().with_file_name("blank.json5")).unwrap();
    let told = format!("{} is empty; write {{}} to go on without settings", blank.display());
    for text in
        ["{p: {$include: 'blank.json5'}}", "{p: {$include: ['list.json', 'further.json5']}}"]
    {
        assert_eq!(home.whole(text), Err(told.clone()), "{text}");
    }
    assert!(home.whole("{$include: 'self.json'}").unwrap_err().contains("includes itself"));
}

#[test]
fn depth_and_number_have_bounds() {
    let mut files: Vec<(String, String)> = (0..12)
        .map(|n| (format!("{n}.json"), json!({"$include": format!("{}.json", n + 1)}).to_string()))
        .collect();
    files.push(("12.json".into(), "{}".into()));
    // Each names the next twice: two to the power of nine files.
    for n in 0..9 {
        let next = format!("b{}.json", n + 1);
        files.push((format!("b{n}.json"), json!({"$include": [next, next]}).to_string()));
    }
    files.push(("b9.json".into(), "{}".into()));
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    files.push(("deep.json".into(), deep.clone()));
    let borrowed: Vec<_> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let home = Home::new(&borrowed);
    assert!(home.whole("{$include: '3.json'}").is_ok());
    assert!(home.whole("{$include: '2.json'}").unwrap_err().contains("more than 10 files"));
    assert!(home.whole("{$include: 'b0.json'}").unwrap_err().contains("more than 100 files"));
    let text = format!("{{a: {}{{$include: 'deep.json'}}{}}}", "[".repeat(50), "]".repeat(50));
    assert!(home.whole(&text).unwrap_err().contains("nested too deep"));
}

#[test]
fn a_change_stands_beside_the_include_or_is_refused() {
    let under = json!({"model": "a/b", "list": [1], "deep": {"x": 1, "y": 2}});
    let raw = json!({"agents": {"$include": "a.json"}, "port": 1});
    let bare = |_: &Value| Some(under.clone());
    let wanted = |agents: Value| kept(json!({"agents": agents, "port": 2}), &raw, &bare);
    let written = |agents: Value| json!({"agents": agents, "port": 2});
    assert_eq!(wanted(under.clone()), Ok(written(json!({"$include": "a.json"}))));
    assert_eq!(
        wanted(json!({"model": "c/d", "list": [1, 2], "deep": {"x": 1, "y": 3}, "new": true})),
        Ok(written(json!({"$include": "a.json", "model": "c/d", "list": [2], "deep": {"y": 3},
            "new": true})))
    );
    let by_hand = json!({"$include": "b.json", "list": []});
    assert_eq!(wanted(by_hand.clone()), Ok(written(by_hand)));
    for (agents, path) in [
        (json!({"model": "a/b", "list": [1], "deep": {"x": 1}}), "agents.deep.y"),
        (json!({"model": "a/b", "list": [2], "deep": {"x": 1, "y": 2}}), "agents.list"),
        (json!(5), "agents"),
    ] {
        let lost = wanted(agents).unwrap_err();
        assert_eq!((lost.path.to_string().as_str(), lost.file.as_str()), (path, "a.json"));
    }
    let gone = kept(json!({"port": 2}), &raw, &bare);
    assert_eq!(gone, Ok(json!({"port": 2})));
}

#[test]
fn an_item_of_a_list_keeps_its_file_wherever_it_stands() {
    let raw = json!({"list": [{"id": "main"}, {"$include": "a.json"}, {"id": "c"}]});
    let a = json!({"id": "a", "name": "A"});
    let bare = |item: &Value| (item[INCLUDE] == "a.json").then(|| a.clone());
    let written = |list: &Value| {
        let kept = kept(json!({"list": list}), &raw, &bare);
        kept.map(|mut config| config["list"].take())
    };
    for list in [
        json!([{"id": "main"}, {"id": "c"}]),
        json!([{"id": "main"}, {"id": "new"}, {"id": "c"}]),
        json!([{"$include": "a.json"}]),
        json!([{"$include": "b.json"}, {"id": "main"}]),
    ] {
        assert_eq!(written(&list), Ok(list));
    }
    for (list, expected) in [
        (
            json!([{"id": "main"}, {"id": "c", "x": 1}, a]),
            json!([{"id": "main"}, {"id": "c", "x": 1}, {"$include": "a.json"}]),
        ),
        (json!([{"id": "a", "name": "B"}]), json!([{"$include": "a.json", "name": "B"}])),
    ] {
        assert_eq!(written(&list), Ok(expected));
    }
}

#[test]
fn an_item_without_a_name_is_that_of_its_place_while_the_list_is_as_long() {
    let raw = json!([{"$include": "a.json"}, 1]);
    let bare = |_: &Value| Some(json!({"x": 1, "y": 1}));
    let written = |list: Value| kept(list, &raw, &bare);
    let edited = json!({"x": 1, "y": 2});
    assert_eq!(written(json!([edited, 1])), Ok(json!([{"$include": "a.json", "y": 2}, 1])));
    assert_eq!(written(json!([edited])), Ok(json!([edited])));
    assert_eq!(written(json!([1, {"x": 1, "y": 1}])), Ok(json!([1, {"$include": "a.json"}])));
}

fn value() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let leaf = prop_oneof![Just(json!(1)), Just(json!(2)), Just(json!("a")), Just(json!(true))];
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map("[a-c]", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest::proptest! {
    #[test]
    fn what_is_written_means_what_was_wanted(
        under in proptest::collection::btree_map("[a-c]", value(), 0..3),
        over in proptest::collection::btree_map("[a-c]", value(), 0..3),
        wanted in proptest::collection::btree_map("[a-c]", value(), 0..3),
    ) {
        let object = |members: std::collections::BTreeMap<String, Value>| {
            Value::Object(members.into_iter().collect())
        };
        let (under, wanted) = (object(under), object(wanted));
        let mut raw = object(over);
        raw[INCLUDE] = json!("part.json");
        let bare = |_: &Value| Some(under.clone());
        if let Ok(Value::Object(mut written)) = kept(wanted.clone(), &raw, &bare) {
            proptest::prop_assert_eq!(written.shift_remove(INCLUDE), Some(json!("part.json")));
            let reached = merged(under.clone(), Value::Object(written));
            proptest::prop_assert_eq!(reached, wanted);
        }
        // What it is already can always be written.
        proptest::prop_assert!(kept(under.clone(), &raw, &bare).is_ok());
    }

    #[test]
    fn what_is_written_means_what_was_wanted_where_files_stand_below_files(
        under in proptest::collection::btree_map("[a-c]", value(), 0..3),
        deep in proptest::collection::btree_map("[a-c]", value(), 0..3),
        over in proptest::collection::btree_map("[a-c]", value(), 0..3),
        beside in proptest::collection::btree_map("[a-c]", value(), 0..3),
        wanted in proptest::collection::btree_map("[a-c]", value(), 0..3),
    ) {
        let object = |members: std::collections::BTreeMap<String, Value>| {
            Value::Object(members.into_iter().collect())
        };
        let files = [("part.json", object(under)), ("deep.json", object(deep))];
        let bare = saying(&files);
        let (mut raw, mut inner) = (object(over), object(beside));
        inner[INCLUDE] = json!("deep.json");
        raw["a"] = inner;
        raw[INCLUDE] = json!("part.json");
        let wanted = object(wanted);
        if let Ok(written) = kept(wanted.clone(), &raw, &bare) {
            proptest::prop_assert_eq!(keep::meant(&written, &bare), Some(wanted));
        }
        let now = keep::meant(&raw, &bare).unwrap();
        proptest::prop_assert_eq!(kept(now, &raw, &bare), Ok(raw));
    }
}

/// What these files say.
fn saying<'a>(files: &'a [(&'a str, Value)]) -> impl Fn(&Value) -> Option<Value> + 'a {
    move |only| {
        let file = files.iter().find(|(name, _)| only[INCLUDE] == *name);
        file.map(|(_, said)| said.clone())
    }
}

#[test]
fn an_include_below_another_one_stays_and_so_does_its_file() {
    let files = [
        ("a.json", json!({"session": {"x": 1}, "models": {"p": {"x": 1}}, "list": [{"id": "a"}]})),
        ("p.json", json!({"x": 1, "y": 2})),
        ("agents.json", json!({"defaults": {"model": "a/b"}, "list": []})),
        ("defaults.json", json!({"model": "c/d", "skills": [1]})),
        ("c.json", json!({"id": "c", "name": "C"})),
    ];
    let bare = saying(&files);
    let raw = json!({
        "$include": "a.json",
        "gateway": {"port": 1},
        "models": {"p": {"$include": "p.json"}},
        "agents": {"$include": "agents.json", "defaults": {"$include": "defaults.json"}},
        "list": [{"id": "b"}, {"$include": "c.json"}],
    });
    let now = keep::meant(&raw, &bare).unwrap();
    assert_eq!(now["models"]["p"], json!({"x": 1, "y": 2}));
    let changed = |pointer: &str, value: Value| {
        let mut wanted = now.clone();
        *wanted.pointer_mut(pointer).unwrap() = value;
        kept(wanted, &raw, &bare)
    };
    let said = |pointer: &str, value: Value| {
        let mut said = raw.clone();
        *said.pointer_mut(pointer).unwrap() = value;
        Ok(said)
    };
    assert_eq!(kept(now.clone(), &raw, &bare), Ok(raw.clone()));
    assert_eq!(changed("/gateway/port", json!(2)), said("/gateway/port", json!(2)));
    assert_eq!(
        changed("/models/p/y", json!(3)),
        said("/models/p", json!({"$include": "p.json", "y": 3}))
    );
    assert_eq!(
        changed("/agents/defaults/model", json!("e/f")),
        said("/agents/defaults", json!({"$include": "defaults.json", "model": "e/f"}))
    );
    assert_eq!(
        changed("/list/2/name", json!("D")),
        said("/list/1", json!({"$include": "c.json", "name": "D"}))
    );
    assert_eq!(changed("/list/1", json!({"id": "n"})), said("/list/0", json!({"id": "n"})));
    for (pointer, value, path, file) in [
        ("/models/p", json!({"x": 1}), "models.p.y", "p.json"),
        ("/agents/defaults/skills", json!([2]), "agents.defaults.skills", "defaults.json"),
        ("/list/0", json!({"id": "z"}), "list", "a.json"),
        ("/session", json!({}), "session.x", "a.json"),
    ] {
        let lost = changed(pointer, value).unwrap_err();
        assert_eq!((lost.path.to_string().as_str(), lost.file.as_str()), (path, file));
    }
}
