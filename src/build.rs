//! How the program is linked.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=src/build.rs");
    let is = |what: &str, value: &str| var(what).is_ok_and(|it| it == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        // What has to be moved to where the program is loaded, as bits instead of
        // entries of 24 bytes: one and a half megabytes less. Linkers that cannot do
        // it warn, and go on.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
