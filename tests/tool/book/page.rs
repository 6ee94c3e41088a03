//! Documentation pages (README.md and docs/*.md) and help texts (`tests/help`), and their commands and manifests.

use std::fs;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Command or fenced block that readers can copy from a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copied {
    /// Position in the form `PAGE:LINE`.
    pub(crate) at: String,
    pub(crate) text: String,
}

#[derive(Clone)]
pub(crate) struct Page {
    /// Path relative to the root of the repository.
    pub(crate) name: String,
    text: String,
}

/// Returns true for a `kubectl podgate` command that needs a cluster.
pub(crate) fn needs_a_cluster(command: &str) -> bool {
    let asks = ["status", "timeline", "override", "verify"].map(|name| format!("kubectl podgate {name} "));
    asks.iter().any(|name| command.contains(name))
}

/// Returns true for a command that reads images from a registry, or uses the file of their commands.
pub(crate) fn needs_a_registry(command: &str) -> bool {
    command.contains("resolve-images") || command.contains("images.json")
}

impl Page {
    pub(crate) fn read(name: &str) -> Page {
        let path = Path::new(ROOT).join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Page { name: name.to_owned(), text }
    }

    /// Reads all pages.
    pub(crate) fn all() -> Vec<Page> {
        [vec![Page::read("README.md")], Page::read_directory("docs", ".md")].concat()
    }

    /// Reads the help texts of all programs.
    pub(crate) fn help_texts() -> Vec<Page> {
        Page::read_directory("tests/help", ".txt")
    }

    fn read_directory(directory: &str, extension: &str) -> Vec<Page> {
        let names = fs::read_dir(Path::new(ROOT).join(directory)).expect(directory);
        let mut names: Vec<String> = names
            .map(|entry| format!("{directory}/{}", entry.expect("directory entry").file_name().to_string_lossy()))
            .filter(|name| name.ends_with(extension))
            .collect();
        names.sort();
        names.iter().map(|name| Page::read(name)).collect()
    }

    fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.name)
    }

    /// Returns the fenced blocks of `language`.
    pub(crate) fn blocks(&self, language: &str) -> Vec<Copied> {
        self.fenced().into_iter().filter(|(info, _)| info == language).map(|(_, block)| block).collect()
    }

    /// Returns all fenced blocks, each with the text after its opening fence.
    pub(crate) fn fenced(&self) -> Vec<(String, Copied)> {
        let (mut found, mut open) = (Vec::new(), None);
        for (number, line) in self.lines().enumerate() {
            match (&mut open, line.trim_start().strip_prefix("```")) {
                (None, Some(info)) => {
                    open = Some((info.trim().to_owned(), Copied { at: self.at(number + 2), text: String::new() }));
                }
                (Some(_), Some(_)) => found.extend(open.take()),
                (Some((_, block)), None) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        found
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines()
    }

    /// Returns the heading and text of each section whose heading starts with `marks`. Positions in a section refer to
    /// the whole page.
    pub(crate) fn sections(&self, marks: &str) -> Vec<(String, Page)> {
        let mut found: Vec<(String, Page)> = Vec::new();
        let mut within = false;
        for (number, line) in self.lines().enumerate() {
            if let Some(heading) = line.strip_prefix(marks) {
                let page = Page { name: self.name.clone(), text: "\n".repeat(number) };
                found.push((heading.to_owned(), page));
                within = true;
            } else if line.starts_with('#') {
                within = false;
            }
            if let Some((_, page)) = found.last_mut().filter(|_| within) {
                page.text.push_str(line);
                page.text.push('\n');
            }
        }
        found
    }

    /// Returns the examples of a help text. Omits the descriptions of the examples.
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

    /// Returns the `kubectl podgate` commands in the page's tables.
    pub(crate) fn in_tables(&self) -> Vec<Copied> {
        let rows = self.text.lines().enumerate().filter(|(_, line)| line.starts_with("| `kubectl podgate "));
        rows.map(|(number, line)| {
            let command = line.split('`').nth(1).unwrap_or_default();
            Copied { at: self.at(number + 1), text: command.to_owned() }
        })
        .collect()
    }
}
