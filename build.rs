//! Makes the agent's static binary smaller: what the linker is told beside Cargo.toml's profile.

use std::env;

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
    println!("cargo::rustc-link-arg-bin=podgate=-Wl,-T,{}/src/bin/podgate/no-unwind.ld", env!("CARGO_MANIFEST_DIR"));
    // A relative relocation takes a bit in place of 24 bytes: 25 kB. musl has read this form since 1.2.4; a linker that can't
    // write it for its target says so and goes on.
    println!("cargo::rustc-link-arg-bin=podgate=-Wl,-z,pack-relative-relocs");
}
