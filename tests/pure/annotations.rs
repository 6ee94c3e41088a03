//! Tests of the annotation format. The format is compatible with Go's quoting, and arbitrary bytes cause no panic.

use crate::needs::missing;
use podgate::core::annotations::{Annotations, read, write};
use podgate::core::report::Report;
use podgate::core::snapshot::{Snapshot, is_snapshot_key};
use proptest::prelude::*;
use std::path::PathBuf;
use std::process::Command;

fn vectors(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)
}

/// Parses each line of a vector file. Returns the bytes of the text, and the quoted text.
fn lines(name: &str) -> Vec<(Vec<u8>, String)> {
    let file = std::fs::read_to_string(vectors(name)).unwrap();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let line = |line: &str| {
        let (text, quoted) = line.split_once('\t').unwrap();
        (text.as_bytes().chunks(2).map(byte).collect(), quoted.to_owned())
    };
    file.split_terminator('\n').map(line).collect()
}

fn read_value(quoted: &str) -> Option<String> {
    read(format!("a={quoted}\nz=\"end\"").as_bytes(), |_| true).expect("complete file").remove("a")
}

#[test]
fn reads_text_quoted_by_go() {
    let lines = lines("go-quoted.txt");
    assert!(lines.len() > 300);
    let mut texts = 0;
    for (bytes, quoted) in lines {
        let read = read_value(&quoted);
        match String::from_utf8(bytes) {
            // Go escapes invalid UTF-8 byte by byte. podgate ignores values with invalid UTF-8.
            Err(_) => assert_eq!(read, None, "{quoted}"),
            Ok(text) => {
                assert_eq!(read, Some(text), "{quoted}");
                texts += 1;
            }
        }
    }
    assert!(texts > 150);
}

/// `podgate-quoted.txt` holds the same texts, quoted by podgate. Run this test with `PODGATE_REGENERATE=1` to
/// regenerate the file.
#[test]
fn writes_quotes_that_go_can_read() {
    let texts = lines("go-quoted.txt").into_iter().filter_map(|(bytes, _)| String::from_utf8(bytes).ok());
    let line = |text: String| {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        let file = write(&Annotations::from([("a".to_owned(), text)]));
        format!("{hex}\t{}\n", file.strip_prefix("a=").unwrap())
    };
    let fresh: String = texts.map(line).collect();
    if std::env::var_os("PODGATE_REGENERATE").is_some() {
        std::fs::write(vectors("podgate-quoted.txt"), &fresh).unwrap();
    }
    assert_eq!(std::fs::read_to_string(vectors("podgate-quoted.txt")).unwrap(), fresh);
}

#[test]
fn go_reads_both_vector_files() {
    let output = Command::new("go").arg("run").arg(vectors("main.go")).arg("unquote").output();
    let Ok(output) = output else { return missing("go") };
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && text.ends_with(" 0 wrong\n"), "{text}");
}

#[test]
fn every_character_round_trips() {
    let characters: Vec<char> = ('\0'..=char::MAX).collect();
    for some in characters.chunks(4096) {
        let all = Annotations::from([("a".to_owned(), some.iter().collect())]);
        assert_eq!(read(write(&all).as_bytes(), |_| true), Ok(all));
    }
}

proptest! {
    #[test]
    fn annotations_round_trip(all in prop::collection::btree_map("[!-<>-}][!-<>-~]{0,19}", any::<String>(), 0..8)) {
        let text = write(&all);
        prop_assert!(!text.bytes().any(|b| b != b'\n' && b < b' '));
        prop_assert_eq!(read(text.as_bytes(), |_| true), Ok(all));
    }

    #[test]
    fn truncated_file_gives_no_wrong_value(
        all in prop::collection::btree_map("[a-z./]{1,20}", any::<String>(), 1..5),
        cut in any::<prop::sample::Index>(),
    ) {
        let text = write(&all);
        if let Ok(part) = read(&text.as_bytes()[..cut.index(text.len())], |_| true) {
            for (key, value) in part {
                prop_assert_eq!(all.get(&key), Some(&value));
            }
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(prop_oneof![
        any::<u8>(), Just(b'\\'), Just(b'"'), Just(b'='), Just(b'\n'), Just(b'u'), Just(b'x'), Just(b'0'),
    ], 0..200)) {
        if let Ok(all) = read(&bytes, |_| true) {
            prop_assert_eq!(read(write(&all).as_bytes(), |_| true), Ok(all.clone()));
            let _ = Snapshot::from_annotations(&all);
        }
        let _ = read(&bytes, is_snapshot_key);
        let _ = Report::parse(&bytes);
    }
}
