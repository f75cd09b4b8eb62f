// SPDX-License-Identifier: MIT
//! The declarations are those of the header: a program in C, written from them, compiles against
//! it, and prints the same sizes, offsets and values.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn cflags() -> Vec<String> {
    let output = Command::new(env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into()))
        .args(["--cflags", "libhtw"])
        .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
        .output()
        .expect("pkg-config");

    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().map(str::to_string).collect()
}

/// Compile a program against the header; its output, or what the compiler says.
fn run_c(name: &str, text: &str) -> Result<String, String> {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let source = directory.join(format!("{}.c", name));
    let program = directory.join(name);

    fs::write(&source, text).unwrap();
    let output = Command::new(env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args(["-Wall", "-Werror", "-o"])
        .args([&program, &source])
        .args(cflags())
        .output()
        .expect("cc");
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success());
    Ok(String::from_utf8(output.stdout).unwrap())
}

/// A type of C for one of Rust's, as it is written in the declarations.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();

    if let Some(to) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(to));
    }
    if let Some(to) = rust.strip_prefix("*const ") {
        return format!("const {} *", c_type(to));
    }
    match rust {
        "" => "void".into(),
        "c_int" => "int".into(),
        "c_uint" => "unsigned int".into(),
        "u64" => "uint64_t".into(),
        "i64" => "int64_t".into(),
        "htw_backend" => "enum htw_backend".into(),
        other => {
            let known = htw_sys::structures().iter().any(|s| s.0 == other);
            assert!(
                known || other == "htw",
                "a type without one in C: {}",
                other
            );
            format!("struct {}", other)
        }
    }
}

fn prototype(name: &str, arguments: &[&str], result: &str) -> String {
    let arguments: Vec<String> = arguments.iter().map(|a| c_type(a)).collect();

    format!("{} {}({});\n", c_type(result), name, arguments.join(", "))
}

#[test]
fn functions_are_those_of_the_header() {
    let mut text = String::from("#include <libhtw.h>\n");

    for (name, arguments, result) in htw_sys::FUNCTIONS {
        text += &prototype(name, arguments, result);
    }
    text += "int main(void) { return 0; }\n";
    run_c("functions", &text).unwrap_or_else(|e| panic!("{}", e));
}

#[test]
fn another_type_would_be_found() {
    let wrong = prototype("htw_rearm", &["*mut htw", "u64", "c_uint"], "c_int");
    let text = format!(
        "#include <libhtw.h>\n{}int main(void) {{ return 0; }}\n",
        wrong
    );

    let said = run_c("wrong", &text).unwrap_err();
    assert!(
        said.contains("conflicting types") && said.contains("htw_rearm"),
        "{}",
        said
    );
}

#[test]
fn structures_are_those_of_the_header() {
    let mut text = String::from(
        "#include <libhtw.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n",
    );
    let mut expected = String::new();

    for (name, size, fields) in htw_sys::structures() {
        writeln!(text, "\tprintf(\"{0} %zu\\n\", sizeof(struct {0}));", name).unwrap();
        writeln!(expected, "{} {}", name, size).unwrap();
        for (field, offset, size) in fields {
            writeln!(text, "\tprintf(\"{0}.{1} %zu %zu\\n\", offsetof(struct {0}, {1}), sizeof(((struct {0} *)0)->{1}));",
                name, field).unwrap();
            writeln!(expected, "{}.{} {} {}", name, field, offset, size).unwrap();
        }
    }
    text += "\treturn 0;\n}\n";
    assert_eq!(
        run_c("structures", &text).unwrap_or_else(|e| panic!("{}", e)),
        expected
    );
}

#[test]
fn constants_are_those_of_the_header() {
    let mut text = String::from("#include <libhtw.h>\n#include <stdio.h>\nint main(void)\n{\n");
    let mut expected = String::new();

    for (name, value) in htw_sys::CONSTANTS {
        writeln!(
            text,
            "\tprintf(\"{0} %llu\\n\", (unsigned long long){0});",
            name
        )
        .unwrap();
        writeln!(expected, "{} {}", name, value).unwrap();
    }
    text += "\treturn 0;\n}\n";
    assert_eq!(
        run_c("constants", &text).unwrap_or_else(|e| panic!("{}", e)),
        expected
    );
}

/// The file that the compiler includes.
fn header() -> String {
    cflags()
        .iter()
        .filter_map(|flag| flag.strip_prefix("-I"))
        .chain(["/usr/include", "/usr/local/include"])
        .map(|directory| Path::new(directory).join("libhtw.h"))
        .find_map(|file| fs::read_to_string(file).ok())
        .expect("libhtw.h")
}

#[test]
fn all_functions_are_declared_or_left_out() {
    let left_out = ["htw_version", "htw_pwait", "htw_put_off_inline"];
    let header = header();
    let in_header: BTreeSet<&str> = header
        .lines()
        .filter(|line| {
            line.starts_with(|c: char| c.is_ascii_alphabetic()) && !line.starts_with("typedef")
        })
        .filter_map(|line| {
            let before = &line[..line.find('(')?];
            Some(&before[before.rfind("htw_")?..])
        })
        .filter(|name| !name.starts_with("htw_dispatch") && !name.starts_with("htw_call"))
        .filter(|name| !left_out.contains(name))
        .collect();
    let declared: BTreeSet<&str> = htw_sys::FUNCTIONS.iter().map(|f| f.0).collect();

    assert!(in_header.len() > 20);
    assert_eq!(in_header, declared);
}
