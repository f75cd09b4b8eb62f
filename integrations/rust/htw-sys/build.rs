// SPDX-License-Identifier: MIT
//! Finds libhtw by pkg-config. `HTW_STATIC=1` links it into the program.

use std::env;
use std::process::Command;

fn pkg_config(arguments: &[&str]) -> String {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let output = Command::new(&program)
        .args(arguments)
        .arg("libhtw >= 0.1")
        .output()
        .unwrap_or_else(|e| panic!("cannot run {}: {}", program, e));

    if !output.status.success() {
        panic!(
            "libhtw is not found (Debian's package libhtw-dev, or make install of htw, and \
             PKG_CONFIG_PATH for a prefix of one's own; htw without its feature \"timers\" \
             does without it):\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).expect("what pkg-config prints is text")
}

fn main() {
    for name in [
        "HTW_STATIC",
        "PKG_CONFIG",
        "PKG_CONFIG_PATH",
        "PKG_CONFIG_LIBDIR",
    ] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    let kind = match env::var_os("HTW_STATIC") {
        Some(value) if value != "0" => "static",
        _ => "dylib",
    };

    for word in pkg_config(&["--libs"]).split_whitespace() {
        if let Some(directory) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={}", directory);
        } else if word == "-lhtw" {
            println!("cargo:rustc-link-lib={}=htw", kind);
        }
    }
    // pkg-config leaves out a directory in which the compiler looks anyway.
    if kind == "static" {
        let directory = pkg_config(&["--variable=libdir"]);
        println!("cargo:rustc-link-search=native={}", directory.trim());
    }
}
