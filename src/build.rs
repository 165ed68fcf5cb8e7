//! How the program is linked, and the texts that it holds packed.

use std::env::var;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;

/// The functions that a gateway executes day by day, those of a quiet one first.
/// `tests/instructions` writes it.
const ORDER: &str = "src/build.order";
/// Texts that the program holds packed, as browsers take most of them: 400 KB less.
const PACKED: [&str; 3] =
    ["src/http/page", "docs/openapi.json", "src/providers/catalog/models.json"];

fn main() -> io::Result<()> {
    let packed = PathBuf::from(var("OUT_DIR").map_err(io::Error::other)?).join("packed");
    if packed.is_dir() {
        fs::remove_dir_all(&packed)?;
    }
    for path in PACKED {
        println!("cargo::rerun-if-changed={path}");
        let failed = |error| io::Error::other(format!("{path} is not packed: {error}"));
        pack(Path::new(path), &packed).map_err(failed)?;
    }
    link();
    Ok(())
}

/// Writes a file, or those of a folder, as gzip (RFC 1952) to the same path below `target`.
fn pack(path: &Path, target: &Path) -> io::Result<()> {
    if path.is_dir() {
        return fs::read_dir(path)?.try_for_each(|entry| pack(&entry?.path(), target));
    }
    let target = target.join(path);
    fs::create_dir_all(target.parent().unwrap_or(&target))?;
    let mut encoder = GzEncoder::new(File::create(target)?, Compression::best());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish().map(drop)
}

fn link() {
    println!("cargo::rerun-if-changed=src/build.rs");
    println!("cargo::rerun-if-changed={ORDER}");
    let is = |what: &str, value: &str| var(what).is_ok_and(|it| it == value);
    if !is("CARGO_CFG_TARGET_OS", "linux") || !is("CARGO_CFG_TARGET_ENV", "gnu") {
        return;
    }
    // What has to be moved to where the program is loaded, as bits instead of
    // entries of 24 bytes: one and a half megabytes less. Linkers that cannot do
    // it warn, and go on.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    if !is("PROFILE", "release") {
        return;
    }
    // The kernel maps what is near to an executed function too. Where these are side
    // by side, that is ten megabytes less of a program that does nothing. Names
    // that there are no more are skipped.
    if let Some(folder) = linker() {
        let order = Path::new(&var("CARGO_MANIFEST_DIR").unwrap_or_default()).join(ORDER);
        println!("cargo::rustc-link-arg-bins=-B{}", folder.display());
        println!("cargo::rustc-link-arg-bins=-fuse-ld=lld");
        println!("cargo::rustc-link-arg-bins=-Wl,--symbol-ordering-file={}", order.display());
        println!("cargo::rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
        // Functions that came out equal are there once: half a megabyte less.
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// The folder of the linker that comes with the compiler, which can order functions;
/// `None` where there is none, or somebody has chosen another.
fn linker() -> Option<PathBuf> {
    let is_chosen = var("RUSTC_LINKER").is_ok()
        || var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("link"));
    if is_chosen {
        return None;
    }
    let output = Command::new(var("RUSTC").ok()?).args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(output.stdout).ok()?;
    let host = var("HOST").ok()?;
    let folder = Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin/gcc-ld");
    folder.join("ld.lld").is_file().then_some(folder)
}
