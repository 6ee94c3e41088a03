//! What stands on a command line that is not finished, read leniently.

use std::ffi::OsString;

/// The flags and words that candidates depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Typed {
    pub(crate) namespace: Option<String>,
    pub(crate) context: Option<String>,
    pub(crate) kubeconfig: Option<String>,
    /// The command, and what stands behind it that is no flag.
    pub(crate) words: Vec<String>,
}

/// Flags of any command that take a value of their own; the value is no word.
const WITH_VALUE: [&str; 5] = ["--request-timeout", "--output", "-o", "--timeout", "--width"];

impl Typed {
    /// The last of `line` is what is being completed: it says nothing yet.
    pub(crate) fn read(line: &[OsString]) -> Typed {
        let whole = line.split_last().map_or(line, |(_, whole)| whole);
        let mut words = whole.iter().filter_map(|word| word.to_str());
        let mut typed = Typed::default();
        while let Some(word) = words.next() {
            let (flag, value) = match word.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value)),
                _ => (word, None),
            };
            let slot = match flag {
                "-n" | "--namespace" => &mut typed.namespace,
                "--context" => &mut typed.context,
                "--kubeconfig" => &mut typed.kubeconfig,
                flag if WITH_VALUE.contains(&flag) => {
                    if value.is_none() {
                        words.next();
                    }
                    continue;
                }
                flag if flag.starts_with("-n") => {
                    typed.namespace = Some(flag[2..].trim_start_matches('=').to_owned());
                    continue;
                }
                flag if flag.starts_with('-') => continue,
                word => {
                    typed.words.push(word.to_owned());
                    continue;
                }
            };
            *slot = value.or_else(|| words.next()).map(str::to_owned);
        }
        typed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_stands_there_already() {
        let read = |line: &[&str]| Typed::read(&line.iter().map(OsString::from).collect::<Vec<_>>());
        let typed = read(&["override", "-n", "shop", "--context=test", "-o", "json", "ordered", "--dry-run", "db=R"]);
        assert_eq!((typed.namespace.as_deref(), typed.context.as_deref()), (Some("shop"), Some("test")));
        assert_eq!(typed.words, ["override", "ordered"]);
        assert_eq!(read(&["status", "-nshop", ""]).namespace.as_deref(), Some("shop"));
        assert_eq!(read(&["status", "--kubeconfig", "/k", "-n"]).kubeconfig.as_deref(), Some("/k"));
        assert_eq!(read(&["status", "-n"]), Typed { words: vec!["status".to_owned()], ..Typed::default() });
        assert_eq!(read(&[]), Typed::default());
    }
}
