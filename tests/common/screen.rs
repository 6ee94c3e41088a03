//! Compares the screen of a command with a file of `tests/tool/screens`, byte for byte.

use podgate::core::text::command_line;
use std::fs;

/// Asserts that `tests/tool/screens/NAME.txt` shows this command, its output and its exit code, as a terminal does.
/// `PODGATE_REGENERATE=1` in the environment updates the file.
pub(crate) fn assert_screen(name: &str, arguments: &[&str], (code, out, err): &(i32, String, String)) {
    let command = command_line(&[&["kubectl", "podgate"], arguments].concat());
    let screen = format!("$ {command}; echo $?\n{err}{out}{code}\n");
    let path = format!("{}/tests/tool/screens/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("PODGATE_REGENERATE").is_some() {
        fs::write(&path, &screen).unwrap();
    }
    let is_same = fs::read_to_string(&path).is_ok_and(|expected| expected == screen);
    assert!(is_same, "{path} differs; run this test with PODGATE_REGENERATE=1, and review the change:\n{screen}");
}
