//! Checks the help texts of a program and of its commands.

use std::process::Command;

/// Checks that no line of a help text has more than 100 columns or shows a variable, and that `-h` omits the text below
/// the flags.
pub(crate) fn check_help(program: &str) {
    let help = |words: &[&str]| {
        let output = Command::new(program).args(words).env_clear().output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let root = help(&["--help"]);
    let listed = root.split("Commands:\n").nth(1).unwrap_or_default().lines().take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|name| *name != "help");
    let mut short_helps = 0;
    for name in [None].into_iter().chain(names.filter(|name| !name.is_empty()).map(Some)) {
        let [short, long] = ["-h", "--help"].map(|flag| help(&Vec::from_iter(name.into_iter().chain([flag]))));
        for line in short.lines().chain(long.lines()) {
            let columns = line.chars().count();
            assert!(columns <= 100 && !line.contains("[env: "), "{program} {name:?}, {columns} columns: {line}");
        }
        match short.strip_suffix("--help shows more.\n") {
            Some(flags) => {
                assert!(long.starts_with(flags) && long.len() > short.len(), "{program} {name:?}: {short}");
                short_helps += 1;
            }
            None => assert!(short == long && !long.contains("Exit codes:"), "{program} {name:?}: {long}"),
        }
    }
    assert!(short_helps > 0, "{program}");
}
