//! Tools and permissions that only some tests need. The script `tests/needs` lists them.

use std::process::Command;

/// Reports that this machine lacks `need`. Call this function in a test that cannot run without `need`, then return
/// from the test. Panics unless the environment variable `PODGATE_MAY_SKIP` names the need.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "the variable is for the test, not for a program")]
pub(crate) fn missing(need: &str) {
    let may_skip = std::env::var("PODGATE_MAY_SKIP").unwrap_or_default();
    assert!(may_skip.split(',').any(|name| name == need), "{}", message(need));
    eprintln!("skipped: this machine lacks {need}");
}

/// Returns a text that describes the missing tool or permission, and how to get it.
fn message(need: &str) -> String {
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/needs")).arg(need).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    format!("this test needs {}. PODGATE_MAY_SKIP={need} skips such tests", text.trim_end())
}

#[test]
fn message_says_how_to_get_the_need() {
    let expected = "this test needs helm, which Go builds into ~/.cache/podgate: install Go (https://go.dev/dl). \
                    PODGATE_MAY_SKIP=helm skips such tests";
    assert_eq!(message("helm"), expected);
}
