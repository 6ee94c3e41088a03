//! Checks the help texts of a program and of its commands, and compares them with the files in `tests/help`, from which
//! `tools/site` makes the page "Commands".

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/help");

/// Checks that no line of a help text has more than 100 columns or shows a variable, that `-h` omits the text below
/// the flags, and that each help text is in its file. `PODGATE_REGENERATE=1` in the environment updates the files.
pub(crate) fn check_help(program: &str) {
    let help = |words: &[&str]| {
        let output = Command::new(program).args(words).env_clear().output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let file = Path::new(program).file_name().unwrap().to_str().unwrap();
    let usage = format!("Usage: {} ", file.replace("kubectl-", "kubectl "));
    let root = help(&["--help"]);
    let listed = root.split("Commands:\n").nth(1).unwrap_or_default().lines().take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|name| *name != "help");
    let mut short_helps = 0;
    let mut files = BTreeSet::new();
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
        assert!(long.contains(&usage), "{program} {name:?}: {long}");
        let file = match name {
            Some(name) => format!("{file}-{name}.txt"),
            None => format!("{file}.txt"),
        };
        compare(&file, &format!("{}\n", long.trim_end()));
        files.insert(file);
    }
    assert!(short_helps > 0, "{program}");
    let of_program = fs::read_dir(DIRECTORY).unwrap().map(Result::unwrap);
    let of_program = of_program.filter(|entry| fs::read_to_string(entry.path()).unwrap().contains(&usage));
    let stored: BTreeSet<String> = of_program.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert_eq!(stored, files, "remove the files in tests/help of commands that {program} does not have");
}

fn compare(file: &str, help: &str) {
    let path = format!("{DIRECTORY}/{file}");
    if std::env::var_os("PODGATE_REGENERATE").is_some() {
        fs::write(&path, help).unwrap();
    }
    let is_current = fs::read_to_string(&path).is_ok_and(|stored| stored == help);
    assert!(is_current, "{path} is out of date; run this test with PODGATE_REGENERATE=1. Expected:\n{help}");
}
