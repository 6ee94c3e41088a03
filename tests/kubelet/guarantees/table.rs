//! Writes the tables of `docs/guarantees.md`: the comparison with other ways to order containers, the faults of podgate's
//! own parts, and the stop of the Pod.
//!
//! `cells.jsonl` has the last measured cells, each with what a user sees. The tables are generated from that file, so a
//! test without a cluster can check the page.

use super::cell::{Cell, Mode, Order, VERSIONS};
use super::{Row, START_ROWS, STOP_ROWS, compared_rows, rows_without_sidecar};
use crate::cluster::ROOT;
use serde::{Deserialize, Serialize};
use std::fs;

/// A cell with its row, mode and version of Kubernetes. Stored as one line of `cells.jsonl`.
#[derive(Serialize, Deserialize)]
struct StoredCell {
    row: String,
    mode: String,
    kubernetes: String,
    #[serde(flatten)]
    cell: Cell,
}

/// Mode and minor version of Kubernetes of one column of a table.
type Column = (Mode, u32);

/// The cells of all tables.
struct Cells(Vec<StoredCell>);

impl Cells {
    fn path() -> String {
        format!("{ROOT}/tests/kubelet/guarantees/cells.jsonl")
    }

    /// Reads the cells from `cells.jsonl`.
    fn stored() -> Cells {
        let path = Cells::path();
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{path}: {error}: {line}"));
        Cells(text.lines().map(parse).collect())
    }

    /// Returns the stored cells, with those replaced that the last runs measured. Omits cells without a row.
    fn with_measured(self) -> Cells {
        let mut cells = Vec::new();
        for row in START_ROWS.iter().chain(STOP_ROWS) {
            for (mode, minor) in columns(&COMPARED.map(|(mode, _)| mode)) {
                let measured = Cell::load(minor, row.id, mode);
                cells.extend(measured.or_else(|| self.get(row.id, (mode, minor)).cloned()).map(|cell| StoredCell {
                    row: row.id.to_owned(),
                    mode: mode.name().to_owned(),
                    kubernetes: version(minor),
                    cell,
                }));
            }
        }
        Cells(cells)
    }

    fn store(&self) {
        let path = Cells::path();
        let line = |cell| serde_json::to_string(cell).expect("plain text") + "\n";
        fs::write(&path, self.0.iter().map(line).collect::<String>()).unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// Asserts that each cell has the outcome that its test requires, and that each mode is measured on a version of
    /// Kubernetes that has the features of every row.
    fn assert_expected(&self, rows: &[&Row], columns: &[Column]) {
        for row in rows {
            for column in columns {
                let order = self.get(row.id, *column).expect("a complete column").order;
                let expected = row.expected_order(column.0);
                assert!([expected, Order::NotHere].contains(&order), "{}, {column:?}: {order:?}", row.id);
            }
            for mode in
                Mode::ALL.into_iter().chain([Mode::Lean]).filter(|mode| columns.iter().any(|column| column.0 == *mode))
            {
                let newest = columns.iter().rfind(|column| column.0 == mode).expect("a column");
                let order = self.get(row.id, *newest).map(|cell| cell.order);
                assert_ne!(order, Some(Order::NotHere), "{}, {mode:?}", row.id);
            }
        }
    }

    fn get(&self, row: &str, (mode, minor): Column) -> Option<&Cell> {
        let kubernetes = version(minor);
        let mut cells = self.0.iter().filter(|c| c.row == row && c.mode == mode.name() && c.kubernetes == kubernetes);
        let found = cells.next().map(|found| &found.cell);
        assert!(cells.next().is_none(), "{row}, {}, {kubernetes}: more than one cell", mode.name());
        found
    }

    /// Returns the columns of a table: the versions for which each row has a cell in each of the modes.
    fn columns(&self, rows: &[&Row], modes: &[Mode]) -> Vec<Column> {
        let is_complete =
            |minor: u32| modes.iter().all(|mode| rows.iter().all(|row| self.get(row.id, (*mode, minor)).is_some()));
        columns(modes).filter(|(_, minor)| is_complete(*minor)).collect()
    }

    /// Returns the versions on which the mode has all cells of these rows, and at least one row could be measured.
    fn versions(&self, rows: &[&Row], mode: Mode) -> Vec<u32> {
        let is_here = |column: &Column| {
            rows.iter().any(|row| self.get(row.id, *column).is_some_and(|cell| cell.order != Order::NotHere))
        };
        self.columns(rows, &[mode]).into_iter().filter(is_here).map(|(_, minor)| minor).collect()
    }
}

fn columns(modes: &[Mode]) -> impl Iterator<Item = Column> {
    modes.iter().flat_map(|mode| VERSIONS.map(|minor| (*mode, minor)))
}

fn version(minor: u32) -> String {
    format!("1.{minor}")
}

/// Returns the symbol for an outcome. The legend on the page explains the symbols.
fn symbol(order: Order) -> &'static str {
    match order {
        Order::Kept => "✓",
        Order::Lost => "✗",
        Order::NotHere => "–",
    }
}

/// Formats the symbol of a cell. A kept cell also has the longest wait, and the row of the deletion has the time until
/// the Pod is gone.
fn mark(cell: &Cell) -> String {
    let time = cell.waited.strip_suffix(" after Ready").filter(|_| cell.order == Order::Kept);
    let time = time.or_else(|| cell.waited.strip_prefix("the Pod is gone in "));
    let time = time.or_else(|| cell.waited.starts_with("only").then_some(&*cell.waited)).unwrap_or_default();
    // The legend on the page says that a time is an upper limit.
    let limit = time.strip_prefix("< ").unwrap_or(time);
    format!("{} {limit}", symbol(cell.order)).trim_end().to_owned()
}

/// Formats the versions as in `1.34, 1.36`.
fn list(minors: &[u32]) -> String {
    if minors.is_empty() {
        return symbol(Order::NotHere).to_owned();
    }
    minors.iter().map(|minor| version(*minor)).collect::<Vec<_>>().join(", ")
}

/// Formats a table with one column for each mode with a sidecar. Each title lists the versions on which the mode was
/// measured. A cell shows the newest of them.
fn section(cells: &Cells, rows: &[&Row]) -> String {
    let versions = Mode::ALL.map(|mode| (mode, cells.versions(rows, mode)));
    let titles = versions.each_ref().map(|(mode, minors)| format!("`{}` ({})", mode.name(), list(minors)));
    let mut table = format!("| what breaks | {} |\n|---|{}\n", titles.join(" | "), "---|".repeat(Mode::ALL.len()));
    for row in rows {
        let marks = versions.each_ref().map(|(mode, minors)| {
            let newest = *minors.last().expect("a measured version");
            mark(cells.get(row.id, (*mode, newest)).expect("a complete column"))
        });
        table.push_str(&format!("| {} | {} |\n", row.title, marks.join(" | ")));
    }
    table
}

/// Title of each column of the comparison.
const COMPARED: [(Mode, &str); 9] = [
    (Mode::Entrypoint, "podgate, `entrypoint`"),
    (Mode::Lean, "podgate without a sidecar"),
    (Mode::Hold, "podgate, `hold`"),
    (Mode::PostStart, "podgate, `post-start`"),
    (Mode::NativeSidecars, "native sidecars"),
    (Mode::Kruise, "Kruise"),
    (Mode::Tekton, "file wrapper"),
    (Mode::PollingWrapper, "polling wrapper"),
    (Mode::HookLoop, "polling hook"),
];

/// Formats the table that compares podgate with other ways to order containers, for one version of Kubernetes. The last
/// row lists the other versions on which podgate was measured. Some of them lack the feature of a row.
fn comparison(cells: &Cells, minor: u32) -> String {
    let titles = COMPARED.map(|(_, title)| title).join(" | ");
    let mut table =
        format!("| what breaks, on {} | {titles} |\n|---|{}\n", version(minor), "---|".repeat(COMPARED.len()));
    for row in compared_rows() {
        let marks = COMPARED
            .map(|(mode, _)| cells.get(row.id, (mode, minor)).map_or_else(|| symbol(Order::NotHere).to_owned(), mark));
        table.push_str(&format!("| {} | {} |\n", row.title, marks.join(" | ")));
    }
    let others = COMPARED.map(|(mode, _)| {
        let mut minors = if mode.is_peer() { Vec::new() } else { cells.versions(&rows_without_sidecar(), mode) };
        minors.retain(|other| *other != minor);
        list(&minors)
    });
    table.push_str(&format!("| also measured on | {} |\n", others.join(" | ")));
    table
}

/// Returns the lines on the page that mark the start and the end of a table.
fn markers(name: &str) -> (String, String) {
    let command = if name == "compared" { "compare" } else { "guarantees" };
    (format!("<!-- begin {name}, written by `make {command}` -->\n\n"), format!("\n<!-- end {name} -->"))
}

/// Compares the page with the stored cells. `PODGATE_REGENERATE=1` updates the page. `PODGATE_REGENERATE=measured`
/// first replaces the stored cells with the cells that the last runs measured.
#[test]
fn the_page_shows_the_stored_cells() {
    let regenerate = std::env::var_os("PODGATE_REGENERATE");
    let measured = regenerate.as_deref() == Some("measured".as_ref());
    let stored = Cells::stored();
    let cells = if measured { stored.with_measured() } else { stored };
    let path = format!("{ROOT}/docs/guarantees.md");
    let mut page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (start, stop): (Vec<&Row>, Vec<&Row>) = (START_ROWS.iter().collect(), STOP_ROWS.iter().collect());
    let compared = compared_rows();
    let own: Vec<&Row> = START_ROWS.iter().filter(|row| compared.iter().all(|other| other.id != row.id)).collect();
    let mut measured_rows = Vec::from(Mode::ALL.map(|mode| (start.clone(), vec![mode])));
    measured_rows.extend(Mode::ALL.map(|mode| (stop.clone(), vec![mode])));
    measured_rows.push((rows_without_sidecar(), vec![Mode::Lean]));
    measured_rows.push((rows_without_sidecar(), COMPARED.map(|(mode, _)| mode).to_vec()));
    let mut newest = None;
    for (rows, modes) in measured_rows {
        let columns = cells.columns(&rows, &modes);
        assert!(!columns.is_empty(), "{modes:?}: no version of Kubernetes has all cells; run 'make guarantees'");
        cells.assert_expected(&rows, &columns);
        newest = columns.last().map(|(_, minor)| *minor);
    }
    let compared = comparison(&cells, newest.expect("the columns of the comparison"));
    for (name, expected) in [("compared", compared), ("own", section(&cells, &own)), ("stop", section(&cells, &stop))] {
        let (begin, end) = markers(name);
        let parts = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?)));
        let (before, (found, after)) = parts.unwrap_or_else(|| panic!("{path}: no part between {begin:?} and {end:?}"));
        if regenerate.is_some() {
            page = format!("{before}{begin}{expected}{end}{after}");
        } else {
            assert_eq!(found, expected, "{path}, {name}: run this test with PODGATE_REGENERATE=1");
        }
    }
    if regenerate.is_some() {
        fs::write(&path, &page).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    if measured {
        cells.store();
    }
}

#[test]
fn a_mark_has_the_time_of_a_kept_order() {
    let mark_of = |order, waited: &str| mark(&Cell { order, waited: waited.to_owned(), user_sees: String::new() });
    assert_eq!(mark_of(Order::Kept, "< 5 s after Ready"), "✓ 5 s");
    assert_eq!(mark_of(Order::Kept, "SIGTERM < 1 s after the exit"), "✓");
    assert_eq!(mark_of(Order::Lost, "before Ready"), "✗");
    assert_eq!(mark_of(Order::Lost, "the Pod is gone in 62 s"), "✗ 62 s");
    assert_eq!(mark_of(Order::NotHere, ""), "–");
}
