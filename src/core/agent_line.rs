//! Reading the agent's own command line where it stands in a container's spec.

use crate::core::names;

/// Whether `line` runs the agent's `subcommand`, from whatever folder.
pub fn runs(line: &[String], subcommand: &str) -> bool {
    matches!(line, [program, first, ..] if file_name(program) == names::AGENT_FILE && first == subcommand)
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The values of a flag, as they are written: up to `--`, behind which another program's words stand.
pub fn values<'a>(line: &'a [String], flag: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut words = line.iter().take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        if word == flag {
            found.extend(words.next().map(String::as_str));
        } else if let Some(value) = word.strip_prefix(flag).and_then(|rest| rest.strip_prefix('=')) {
            found.push(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn knows_the_agent_by_its_file_name_and_its_first_word() {
        assert!(runs(&line(&["/podgate/bin/podgate", "entrypoint", "--"]), "entrypoint"));
        for other in [&["podgate"][..], &["/podgate/bin/podgate", "post-start"], &["sh", "entrypoint"], &[]] {
            assert!(!runs(&line(other), "entrypoint"), "{other:?}");
        }
    }

    #[test]
    fn reads_a_flag_as_the_agent_would() {
        let words = line(&[
            "podgate",
            "entrypoint",
            "--until",
            "db",
            "--until=api,web",
            "--untilx=1",
            "--",
            "x",
            "--until",
            "y",
        ]);
        assert_eq!(values(&words, "--until"), ["db", "api,web"]);
        assert!(values(&line(&["podgate", "entrypoint", "--until"]), "--until").is_empty());
    }
}
