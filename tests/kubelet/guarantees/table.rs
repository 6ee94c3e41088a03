//! The table in the docs.

use super::cell::{Cell, Mode, Order, VERSIONS};
use super::{ROWS, Row};
use crate::cluster::ROOT;

const BEGIN: &str = "<!-- begin of the table, written by `make guarantees` -->\n";
const END: &str = "<!-- end of the table -->\n";
const HEAD: &str = "\
| what goes wrong | post-start: order | the rest waits | you see | entrypoint: order | the rest waits | you see |
|---|---|---|---|---|---|---|
";

/// What both versions of Kubernetes say, or, where they differ, each with its name.
fn merge_versions(texts: [String; 2]) -> String {
    let [old, new] = texts;
    if old == new {
        return new;
    }
    let part = |minor: u32, text: String| format!("1.{minor}: {}", if text.is_empty() { "-".to_owned() } else { text });
    format!("{}<br>{}", part(VERSIONS[0], old), part(VERSIONS[1], new))
}

fn table_line(row: &Row) -> String {
    let mut line = format!("| {} |", row.title);
    for mode in Mode::ALL {
        let cells = VERSIONS.map(|minor| Cell::load(minor, row.id, mode));
        let column = |of: fn(&Cell) -> String| {
            merge_versions([of(&cells[0]), of(&cells[1])]).replace('|', "\\|").replace('\n', " ")
        };
        line.push_str(&format!(
            " {} | {} | {} |",
            column(|cell| cell.order.label().to_owned()),
            column(|cell| cell.waited.clone()),
            column(|cell| cell.user_sees.clone())
        ));
    }
    line + "\n"
}

/// The table is there, with a row for each fault, as the tests expect it, and its entrypoint column is green. With
/// `PODGATE_REGENERATE=1` in the environment it is written anew from the cells that were measured last.
#[test]
fn the_table_in_the_docs_is_full_and_green() {
    let path = format!("{ROOT}/docs/guarantees.md");
    let mut page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (before, rest) = page.split_once(BEGIN).expect("the table's begin");
    let (_, after) = rest.split_once(END).expect("the table's end");
    if std::env::var_os("PODGATE_REGENERATE").is_some() {
        let lines: String = ROWS.iter().map(table_line).collect();
        page = format!("{before}{BEGIN}\n{HEAD}{lines}\n{END}{after}");
        std::fs::write(&path, &page).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let (_, rest) = page.split_once(BEGIN).expect("the table's begin");
    let (table, _) = rest.split_once(END).expect("the table's end");
    let lines: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert_eq!(lines.len(), ROWS.len(), "'make guarantees' writes the table");
    for (row, line) in ROWS.iter().zip(lines) {
        let fields: Vec<&str> = line.split(" | ").collect();
        assert_eq!(fields[0], format!("| {}", row.title));
        for (field, mode) in [(fields[1], Mode::PostStart), (fields[4], Mode::Entrypoint)] {
            let expected = row.expected_order(mode);
            let parts: Vec<&str> =
                field.split("<br>").map(|part| part.split_once(": ").map_or(part, |(_, word)| word)).collect();
            let fits = |word: &&str| *word == expected.label() || *word == Order::NotHere.label();
            assert!(parts.iter().all(fits) && parts.contains(&expected.label()), "{}, {mode:?}: {field}", row.title);
        }
    }
}
