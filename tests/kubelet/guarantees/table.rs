//! Writes the tables of `docs/guarantees.md`: one table for each mode, and one for the stop of the Pod. The details of
//! each row follow.
//!
//! `cells.jsonl` has the last measured cells. The tables are generated from that file, so a test without a cluster can
//! check the page.

use super::cell::{Cell, Mode, Order, VERSIONS};
use super::{Row, START_ROWS, STOP_ROWS, compared_rows, rows_without_sidecar};
use crate::cluster::ROOT;
use serde::{Deserialize, Serialize};
use std::fs;

/// Maximum line length of the page outside tables, in characters.
const WIDTH: usize = 120;

/// Notes on the tables. Each entry has the ids of the rows, the modes, and the text.
const NOTES: &[(&[&str], &[Mode], &str)] = &[
    (
        &["crash_before_ready"],
        &[Mode::PostStart],
        "If a container crashes while its hook runs, the kubelet starts the next container at once.",
    ),
    (
        &["crash_after_ready"],
        &[Mode::PostStart],
        "The kubelet does not restart `db` while the hook of `api` waits. It starts `web` as soon as that hook returns.",
    ),
    (
        &["waiter_killed"],
        &[Mode::PostStart],
        "The hook fails. The kubelet kills its container, starts the next one, and then restarts the first one.",
    ),
    (
        &["time_limit"],
        &[Mode::PostStart],
        "The hook fails. The kubelet kills its container, starts the next one, and then restarts the first one. With \
         `--on-timeout continue` the kubelet kills nothing, but it still starts the next container.",
    ),
    (
        &["time_limit"],
        &[Mode::Entrypoint],
        "The gate ends its container with exit code 75. The command has not run. The kubelet restarts the container after \
         its back-off, and the gate waits again.",
    ),
    (
        &["waiter_killed"],
        &[Mode::Hold],
        "The gate has no process, because the sidecar opens it. The test kills the sidecar three times instead.",
    ),
    (
        &["time_limit"],
        &[Mode::Hold],
        "The container stays held. It has no process yet, so no gate exits. The container starts when its conditions are met.",
    ),
    (
        &["sandbox_killed", "host_network"],
        &[Mode::Hold],
        "The containers have exited before, so the kubelet's back-off of 10 s delays the restart of a held container.",
    ),
    (
        &["kubelet_restarted", "kubelet_restarted_exec", "containerd_restarted"],
        &[Mode::PostStart],
        "The restart kills the waiting hook. The kubelet does not run it again and starts the next container.",
    ),
    (
        &["clock_steps"],
        &Mode::ALL,
        "All containers share the node's clock. The test therefore steps only the clock that the sidecar, the hooks and \
         the gates see. Podgate measures every wait by the monotonic clock, which cannot be stepped. The wall clock only \
         stamps log lines and annotations. `tests/sidecar/program/clock_step.rs` tests that time limits keep \
         their length.",
    ),
    (
        &["deleted"],
        &[Mode::PostStart],
        "The kubelet starts the remaining containers of its list. They run for milliseconds and then receive SIGTERM.",
    ),
    (
        &["stop_short"],
        &Mode::ALL,
        "The Pod has written more to an `emptyDir` than its `sizeLimit`. In this case, and if the node is out of memory \
         or disk space, the kubelet ends all hooks after 1 s.",
    ),
    (
        &["stop_hook_killed"],
        &Mode::ALL,
        "The kubelet sends SIGTERM as soon as a hook has ended. The hook of `db` still waits for `api` and `web`.",
    ),
    (
        &["stop_term_ignored"],
        &Mode::ALL,
        "Each hook waits until its time limit, so `api` and `db` still stop one after the other. The kubelet kills `web` \
         at the end of the grace period.",
    ),
];

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

/// Formats a table with these columns, followed by the list of details.
fn section(cells: &Cells, rows: &[&Row], columns: &[Column]) -> String {
    let titles = columns.iter().map(|column| title(*column, columns)).collect::<Vec<_>>().join(" | ");
    let mut table = format!("| what breaks | {titles} |\n|---|{}\n", ":---:|".repeat(columns.len()));
    let mut details = String::new();
    for row in rows {
        let all = columns.iter().map(|column| (*column, cells.get(row.id, *column).expect("a complete column")));
        let all: Vec<(Column, &Cell)> = all.collect();
        let symbols = all.iter().map(|(_, cell)| symbol(cell.order)).collect::<Vec<_>>().join(" | ");
        table.push_str(&format!("| {} | {symbols} |\n", row.title));
        details.push_str(&item("- ", &format!("**{}**", row.title)));
        let here: Vec<(Column, &Cell)> = all.into_iter().filter(|(_, cell)| cell.order != Order::NotHere).collect();
        let mut detail = |text: &str| details.push_str(&item("  - ", text));
        by_column("timing", &here, |cell| &cell.waited).iter().for_each(|text| detail(text));
        by_column("you see", &here, |cell| &cell.user_sees).iter().for_each(|text| detail(text));
        let has_mode = |modes: &[Mode]| columns.iter().any(|(mode, _)| modes.contains(mode));
        let notes = NOTES.iter().filter(|(rows, modes, _)| rows.contains(&row.id) && has_mode(modes));
        notes.for_each(|(_, _, text)| detail(&format!("note: {text}")));
    }
    format!("{table}\n{details}")
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

/// Formats the table that compares podgate with other ways to order containers, for one version of Kubernetes. Each
/// cell has the symbol of the outcome. A kept cell also has the longest wait, and the row of the deletion has the time
/// until the Pod is gone.
fn comparison(cells: &Cells, minor: u32) -> String {
    let titles = COMPARED.map(|(_, title)| title).join(" | ");
    let mut table =
        format!("| what breaks, on {} | {titles} |\n|---|{}\n", version(minor), "---|".repeat(COMPARED.len()));
    for row in compared_rows() {
        let text = COMPARED.map(|(mode, _)| {
            let Some(cell) = cells.get(row.id, (mode, minor)) else { return symbol(Order::NotHere).to_owned() };
            let time = cell.waited.strip_suffix(" after Ready").filter(|_| cell.order == Order::Kept);
            let time = time.or_else(|| cell.waited.strip_prefix("the Pod is gone in "));
            let time = time.or_else(|| cell.waited.starts_with("only").then_some(&*cell.waited)).unwrap_or_default();
            format!("{} {time}", symbol(cell.order)).trim_end().to_owned()
        });
        table.push_str(&format!("| {} | {} |\n", row.title, text.join(" | ")));
    }
    table
}

/// Returns the title of a column. Includes the mode if the table has several modes.
fn title((mode, minor): Column, columns: &[Column]) -> String {
    let has_modes = columns.iter().any(|(other, _)| *other != mode);
    if has_modes { format!("{}, {}", mode.name(), version(minor)) } else { version(minor) }
}

/// Returns one line if the text is the same in all columns. Otherwise returns one line for each column. Returns no line
/// if the text is empty.
fn by_column(label: &str, cells: &[(Column, &Cell)], text: fn(&Cell) -> &String) -> Vec<String> {
    let Some((_, first)) = cells.first() else { return Vec::new() };
    if cells.iter().all(|(_, cell)| text(cell) == text(first)) {
        return if text(first).is_empty() { Vec::new() } else { vec![format!("{label}: {}", text(first))] };
    }
    let columns: Vec<Column> = cells.iter().map(|(column, _)| *column).collect();
    cells.iter().map(|(column, cell)| format!("{label} on {}: {}", title(*column, &columns), text(cell))).collect()
}

/// Formats a list item, wrapped at [`WIDTH`].
fn item(bullet: &str, text: &str) -> String {
    let mut lines = vec![bullet.trim_end().to_owned()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("at least one");
        if line.chars().count() + 1 + word.chars().count() <= WIDTH {
            *line += &format!(" {word}");
        } else {
            lines.push(format!("{}{word}", " ".repeat(bullet.len())));
        }
    }
    lines.join("\n") + "\n"
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
    let tables = Mode::ALL.map(|mode| (mode.name(), start.clone(), vec![mode]));
    let others = [(Mode::Lean.name(), rows_without_sidecar(), vec![Mode::Lean]), ("stop", stop, Mode::ALL.to_vec())];
    let compared = ("compared", rows_without_sidecar(), COMPARED.map(|(mode, _)| mode).to_vec());
    for (name, rows, modes) in tables.into_iter().chain(others).chain([compared]) {
        let columns = cells.columns(&rows, &modes);
        assert!(!columns.is_empty(), "{name}: no version of Kubernetes has all cells; run 'make guarantees'");
        cells.assert_expected(&rows, &columns);
        let expected = match name {
            "compared" => comparison(&cells, columns[columns.len() - 1].1),
            _ => section(&cells, &rows, &columns),
        };
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
fn every_note_belongs_to_a_row() {
    let ids: Vec<&str> = NOTES.iter().flat_map(|(ids, ..)| ids.iter().copied()).collect();
    let is_row = |id: &str| START_ROWS.iter().chain(STOP_ROWS).any(|row| row.id == id);
    assert!(ids.iter().all(|id| is_row(id)), "{ids:?}");
}

#[test]
fn columns_share_a_detail_only_if_all_have_the_same() {
    let cell = |waited: &str| Cell { order: Order::Kept, waited: waited.to_owned(), user_sees: String::new() };
    let (short, long) = (cell("< 5 s"), cell("< 20 s"));
    let (old, new) = ((Mode::Entrypoint, 34), (Mode::Entrypoint, 36));
    let lines = |cells: &[(Column, &Cell)]| by_column("timing", cells, |cell| &cell.waited);
    assert_eq!(lines(&[(old, &short), (new, &short)]), ["timing: < 5 s"]);
    assert_eq!(lines(&[(old, &long), (new, &short)]), ["timing on 1.34: < 20 s", "timing on 1.36: < 5 s"]);
    let held = (Mode::Hold, 36);
    let both = ["timing on entrypoint, 1.36: < 20 s", "timing on hold, 1.36: < 5 s"];
    assert_eq!(lines(&[(new, &long), (held, &short)]), both);
    assert!(lines(&[]).is_empty());
    assert!(by_column("you see", &[(new, &short)], |cell| &cell.user_sees).is_empty());
}
