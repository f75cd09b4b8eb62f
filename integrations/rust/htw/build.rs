// SPDX-License-Identifier: MIT
//! Compiles the wheel's two files into the crate, by `$CC` and `$AR`.
//!
//! They are taken from `$HTW_WHEEL`; else, in a checkout of htw, made from its sources by
//! `wheel/amalgamate`, which needs python3; else from where Debian's `libhtw-dev` or `make
//! install` put them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn run(command: &mut Command) {
    let status = command
        .status()
        .unwrap_or_else(|e| panic!("cannot run {:?}: {}", command, e));

    assert!(status.success(), "{:?}: {}", command, status);
}

/// The program that a variable names, for this target or for all.
fn tool(name: &str, default: &str) -> String {
    let target = env::var("TARGET").unwrap().replace('-', "_");
    let names = [format!("{}_{}", name, target), name.to_string()];

    for name in &names {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    names
        .iter()
        .find_map(|name| env::var(name).ok())
        .unwrap_or_else(|| default.into())
}

/// The directory that has `htw_wheel.h` and `htw_wheel.c`.
fn wheel(out: &Path) -> PathBuf {
    println!("cargo:rerun-if-env-changed=HTW_WHEEL");
    if let Some(directory) = env::var_os("HTW_WHEEL") {
        return directory.into();
    }

    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    if top.join("wheel/amalgamate").exists() {
        for part in [
            "VERSION",
            "htw_wheel.c",
            "htw_wheel.h",
            "include/linux",
            "lib/port",
            "wheel",
        ] {
            println!("cargo:rerun-if-changed={}", top.join(part).display());
        }
        let made = out.join("made");
        run(Command::new("python3")
            .arg("-B")
            .arg(top.join("wheel/amalgamate"))
            .arg(&made));
        return made;
    }

    ["/usr/share/htw/wheel", "/usr/local/share/htw/wheel"]
        .iter()
        .map(PathBuf::from)
        .find(|directory| directory.join("htw_wheel.c").exists())
        .expect("no htw_wheel.c: install libhtw-dev, or set HTW_WHEEL to the directory that has it")
}

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let from = wheel(&out);
    let object = out.join("htw_rust_wheel.o");
    let archive = out.join("libhtw_rust_wheel.a");

    // Under names of our own: a program may have libhtw inside as well, with the same wheel.
    for (source, name) in [
        (from.join("htw_wheel.h"), "htw_rust_wheel.h"),
        (from.join("htw_wheel.c"), "htw_rust_wheel.c"),
        (PathBuf::from("src/calls.c"), "htw_rust_calls.c"),
    ] {
        println!("cargo:rerun-if-changed={}", source.display());
        let text =
            fs::read_to_string(&source).unwrap_or_else(|e| panic!("{}: {}", source.display(), e));
        fs::write(out.join(name), text.replace("htw_", "htw_rust_")).unwrap();
    }

    let mut cc = Command::new(tool("CC", "cc"));
    cc.args(["-std=c99", "-O2", "-g", "-fPIC", "-Wall", "-c", "-o"])
        .arg(&object);
    // Misuse would be a defect of this crate.
    if env::var_os("DEBUG").map_or(false, |debug| debug == "true") {
        cc.arg("-DHTW_ASSERT(x)=((x)?(void)0:__builtin_trap())");
    }
    run(cc.arg(out.join("htw_rust_calls.c")));

    let _ = fs::remove_file(&archive);
    run(Command::new(tool("AR", "ar"))
        .arg("crs")
        .arg(&archive)
        .arg(&object));
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=htw_rust_wheel");
}
