//! The pages: README.md and docs/*.md, and what on them can be run.

use std::fs;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Something on a page that a reader would copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copied {
    /// `PAGE:LINE`
    pub(crate) at: String,
    pub(crate) text: String,
}

pub(crate) struct Page {
    /// From the repository's root.
    pub(crate) name: String,
    text: String,
}

/// Whether a command of `kubectl podgate` needs a cluster; the others are run by the tests that need none.
pub(crate) fn needs_a_cluster(command: &str) -> bool {
    let asks = ["status", "timeline", "override"].map(|name| format!("kubectl podgate {name} "));
    asks.iter().any(|name| command.contains(name)) || command.contains("--server")
}

impl Page {
    pub(crate) fn read(name: &str) -> Page {
        let path = Path::new(ROOT).join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Page { name: name.to_owned(), text }
    }

    /// All of them.
    pub(crate) fn all() -> Vec<Page> {
        let names = fs::read_dir(Path::new(ROOT).join("docs")).expect("docs");
        let mut names: Vec<String> = names
            .map(|entry| format!("docs/{}", entry.expect("an entry").file_name().to_string_lossy()))
            .filter(|name| name.ends_with(".md"))
            .collect();
        names.push("README.md".to_owned());
        names.sort();
        names.iter().map(|name| Page::read(name)).collect()
    }

    fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.name)
    }

    /// The fenced blocks of `language`.
    pub(crate) fn blocks(&self, language: &str) -> Vec<Copied> {
        let (mut found, mut open) = (Vec::new(), None);
        for (number, line) in self.text.lines().enumerate() {
            match (&mut open, line.trim_start().strip_prefix("```")) {
                (None, Some(word)) => open = Some((word.trim() == language, number + 2, String::new())),
                (Some(_), Some(_)) => {
                    if let Some((true, first, text)) = open.take() {
                        found.push(Copied { at: self.at(first), text });
                    }
                }
                (Some((_, _, text)), None) => {
                    text.push_str(line);
                    text.push('\n');
                }
                (None, None) => {}
            }
        }
        found
    }

    /// The examples of `kubectl podgate` in the help that stands on the page, without the words beside them.
    pub(crate) fn examples(&self) -> Vec<Copied> {
        let mut found = Vec::new();
        let mut within = false;
        for (number, line) in self.text.lines().enumerate() {
            within = line == "Examples:" || within && line.starts_with("  ");
            let command = line.trim_start().split("  ").next().unwrap_or_default();
            if within && command.contains("kubectl podgate ") {
                found.push(Copied { at: self.at(number + 1), text: command.to_owned() });
            }
        }
        found
    }

    /// The commands of `kubectl podgate` in the cells of the page's tables.
    pub(crate) fn in_tables(&self) -> Vec<Copied> {
        let rows = self.text.lines().enumerate().filter(|(_, line)| line.starts_with("| `kubectl podgate "));
        rows.map(|(number, line)| {
            let command = line.split('`').nth(1).unwrap_or_default();
            Copied { at: self.at(number + 1), text: command.to_owned() }
        })
        .collect()
    }
}
