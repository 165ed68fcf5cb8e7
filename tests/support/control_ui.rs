//! A Control UI of a few files, made as the original's is.

use std::fs;
use std::path::Path;

pub const PAGE: &str = "<!doctype html>\n<html>\n  <head>\n    <title>OpenClaw Control</title>\n    \
    <script>\n      window.theme = \"dark\";\n    </script>\n    \
    <script type=\"module\" crossorigin src=\"./assets/index-NYVkUQrq.js\"></script>\n  \
    </head>\n  <body></body>\n</html>\n";

/// Puts one into a folder.
pub fn write_control_ui(folder: &Path) {
    fs::create_dir_all(folder.join("assets")).unwrap();
    let script = format!("window.loaded = \"{}\";\n", "x".repeat(200_000));
    for (name, text) in [
        ("index.html", PAGE),
        ("favicon.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
        ("manifest.webmanifest", "{\"name\": \"OpenClaw Control\"}"),
        ("sw.js", "// nothing\n"),
        ("assets/index-NYVkUQrq.js", &script),
        ("assets/index-DyaZOQpm.css", "body { color: red }\n"),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
}
