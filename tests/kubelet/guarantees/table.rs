//! Writes the tables of `docs/guarantees.md`: one table for each mode, followed by the details of each row.
//!
//! `cells.jsonl` has the cells of the last `make guarantees`. The tables are generated from that file, so a test
//! without a cluster can check the page.

use super::ROWS;
use super::cell::{Cell, Mode, Order, VERSIONS};
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
         stamps log lines and annotations. `tests/controller/clock_step.rs` tests that time limits keep their length.",
    ),
    (
        &["deleted"],
        &[Mode::PostStart],
        "The kubelet starts the remaining containers of its list. They run for milliseconds and then receive SIGTERM.",
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

    /// Reads the cells that the last runs measured. Panics if a cell is missing.
    fn measured() -> Cells {
        let mut cells = Vec::new();
        for row in ROWS {
            for mode in Mode::ALL {
                cells.extend(VERSIONS.map(|minor| StoredCell {
                    row: row.id.to_owned(),
                    mode: mode.name().to_owned(),
                    kubernetes: version(minor),
                    cell: Cell::load(minor, row.id, mode),
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

    /// Asserts that each cell has the outcome that its test requires, and that the newest Kubernetes has every cell.
    fn assert_expected(&self) {
        assert_eq!(self.0.len(), ROWS.len() * Mode::ALL.len() * VERSIONS.len(), "a cell without a row");
        for row in ROWS {
            for mode in Mode::ALL {
                let orders = VERSIONS.map(|minor| self.get(row.id, mode, minor).order);
                let expected = row.expected_order(mode);
                assert!(orders.iter().all(|order| [expected, Order::NotHere].contains(order)), "{}, {mode:?}", row.id);
                assert_eq!(orders.last(), Some(&expected), "{}, {mode:?}", row.id);
            }
        }
    }

    fn get(&self, row: &str, mode: Mode, minor: u32) -> &Cell {
        let kubernetes = version(minor);
        let mut cells = self.0.iter().filter(|c| c.row == row && c.mode == mode.name() && c.kubernetes == kubernetes);
        match (cells.next(), cells.next()) {
            (Some(found), None) => &found.cell,
            (None, _) => panic!("{row}, {}, {kubernetes}: no cell; run 'make guarantees'", mode.name()),
            (Some(_), Some(_)) => panic!("{row}, {}, {kubernetes}: more than one cell", mode.name()),
        }
    }
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

/// Formats the table of one mode, followed by the list of details.
fn section(cells: &Cells, mode: Mode) -> String {
    let versions = VERSIONS.map(version).join(" | ");
    let mut table = format!("| what breaks | {versions} |\n|---|{}\n", ":---:|".repeat(VERSIONS.len()));
    let mut details = String::new();
    for row in ROWS {
        let symbols = VERSIONS.map(|minor| symbol(cells.get(row.id, mode, minor).order)).join(" | ");
        table.push_str(&format!("| {} | {symbols} |\n", row.title));
        details.push_str(&item("- ", &format!("**{}**", row.title)));
        let here = VERSIONS.map(|minor| (minor, cells.get(row.id, mode, minor)));
        let here = here.into_iter().filter(|(_, cell)| cell.order != Order::NotHere);
        let here: Vec<(u32, &Cell)> = here.collect();
        let mut detail = |text: &str| details.push_str(&item("  - ", text));
        by_version("timing", &here, |cell| &cell.waited).iter().for_each(|text| detail(text));
        by_version("you see", &here, |cell| &cell.user_sees).iter().for_each(|text| detail(text));
        let notes = NOTES.iter().filter(|(rows, modes, _)| rows.contains(&row.id) && modes.contains(&mode));
        notes.for_each(|(_, _, text)| detail(&format!("note: {text}")));
    }
    format!("{table}\n{details}")
}

/// Returns one line if the text is the same for all versions. Otherwise returns one line for each version that has the
/// cell.
fn by_version(label: &str, cells: &[(u32, &Cell)], text: fn(&Cell) -> &String) -> Vec<String> {
    let Some((_, first)) = cells.first() else { return Vec::new() };
    if cells.len() == VERSIONS.len() && cells.iter().all(|(_, cell)| text(cell) == text(first)) {
        return vec![format!("{label}: {}", text(first))];
    }
    cells.iter().map(|(minor, cell)| format!("{label} on {}: {}", version(*minor), text(cell))).collect()
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

/// Returns the lines on the page that mark the start and the end of the table of `mode`.
fn markers(mode: Mode) -> (String, String) {
    let name = mode.name();
    (format!("<!-- begin {name}, written by `make guarantees` -->\n\n"), format!("\n<!-- end {name} -->"))
}

/// Compares the page with the stored cells. `PODGATE_REGENERATE=1` updates the page. `PODGATE_REGENERATE=measured`
/// first replaces the stored cells with the cells that the last runs measured.
#[test]
fn the_page_shows_the_stored_cells() {
    let regenerate = std::env::var_os("PODGATE_REGENERATE");
    let measured = regenerate.as_deref() == Some("measured".as_ref());
    let cells = if measured { Cells::measured() } else { Cells::stored() };
    cells.assert_expected();
    let path = format!("{ROOT}/docs/guarantees.md");
    let mut page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    for mode in Mode::ALL {
        let expected = section(&cells, mode);
        let (begin, end) = markers(mode);
        let parts = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?)));
        let (before, (found, after)) = parts.unwrap_or_else(|| panic!("{path}: no part between {begin:?} and {end:?}"));
        if regenerate.is_some() {
            page = format!("{before}{begin}{expected}{end}{after}");
        } else {
            assert_eq!(found, expected, "{path}, {}: run this test with PODGATE_REGENERATE=1", mode.name());
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
    assert!(ids.iter().all(|id| ROWS.iter().any(|row| row.id == *id)), "{ids:?}");
}

#[test]
fn versions_share_a_detail_only_if_all_have_the_same() {
    let cell = |waited: &str| Cell { order: Order::Kept, waited: waited.to_owned(), user_sees: String::new() };
    let (short, long) = (cell("< 5 s"), cell("< 20 s"));
    let [old, new] = VERSIONS;
    let lines = |cells: &[(u32, &Cell)]| by_version("timing", cells, |cell| &cell.waited);
    assert_eq!(lines(&[(old, &short), (new, &short)]), ["timing: < 5 s"]);
    assert_eq!(lines(&[(old, &long), (new, &short)]), ["timing on 1.34: < 20 s", "timing on 1.36: < 5 s"]);
    assert_eq!(lines(&[(new, &short)]), ["timing on 1.36: < 5 s"]);
    assert!(lines(&[]).is_empty());
}
