//! Questions of the Control UI before commands run.

use serde_json::json;

use super::Place;

#[tokio::test]
async fn commands_are_allowed_and_denied_in_the_original_dialog() {
    let place = Place::with(|config| {
        config["tools"]["exec"] = json!({"security": "allowlist", "ask": "on-miss"});
    })
    .await;
    let seen = place.visit("approvals", json!({})).await;
    let asked = seen.told["asked"].as_array().unwrap();
    let commands = ["touch once", "touch denied", "touch always"];
    assert_eq!(asked.len(), commands.len());
    let workspace = place.gateway.workspace();
    for (asked, command) in asked.iter().zip(commands) {
        let lines: Vec<&str> =
            asked.as_array().unwrap().iter().filter_map(|line| line.as_str()).collect();
        assert_eq!((lines[0], lines[2]), ("Exec approval needed", command));
        assert!(lines[1].starts_with("expires in "), "{lines:?}");
        for (name, value) in [
            ("Host", "gateway"),
            ("Session", "agent:main:main"),
            ("CWD", workspace.to_str().unwrap()),
            ("Security", "allowlist"),
            ("Ask", "on-miss"),
        ] {
            let at = lines.iter().position(|line| *line == name).expect(name);
            assert_eq!(lines[at + 1], value, "{lines:?}");
        }
    }
    assert_eq!(
        seen.told["answers"],
        json!([{"ok": true}, {"ok": true}, {"ok": true}, {"ok": true}])
    );
    let made = ["once", "denied", "always", "again", "elsewhere"];
    let made = made.map(|name| workspace.join(name).exists());
    assert_eq!(made, [true, false, true, true, true]);
}
