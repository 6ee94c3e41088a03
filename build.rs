//! Makes the agent's static binary smaller: what the linker is told beside Cargo.toml's profile.

use std::env;
use std::fs;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/bin/podgate/no-unwind.ld");
    let is = |variable: &str, value: &str| env::var_os(variable).is_some_and(|found| found == value);
    if !is("CARGO_CFG_TARGET_ENV", "musl") || !is("PROFILE", "release") {
        return;
    }
    // What follows is said to a compiler that links; a bare lld would not understand it.
    if env::var_os("RUSTC_LINKER").is_some_and(|linker| linker.to_string_lossy().contains("lld")) {
        return;
    }
    // The agent aborts at a panic (profile `agent`), so nothing ever reads the tables for unwinding: 98 kB.
    // From where Cargo builds: it remembers this line, and only there it sees to it that the path is still right when the sources have
    // moved.
    let folder = env::var_os("OUT_DIR").map(PathBuf::from).expect("cargo gives a folder");
    let script = folder.join("no-unwind.ld");
    fs::copy("src/bin/podgate/no-unwind.ld", &script).expect("a file can be written there");
    println!("cargo::rustc-link-arg-bin=podgate=-Wl,-T,{}", script.display());
    // A relative relocation takes a bit in place of 24 bytes: 25 kB. musl has read this form since 1.2.4; a linker that can't
    // write it for its target says so and goes on.
    println!("cargo::rustc-link-arg-bin=podgate=-Wl,-z,pack-relative-relocs");
}
