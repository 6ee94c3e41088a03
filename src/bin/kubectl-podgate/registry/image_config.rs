//! Entrypoint and Cmd of an image, read from its configuration.

use podgate::order::plan::ImageCommand;
use serde_json::Value;

/// Result of looking up an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageInfo {
    /// Digest of the tag, `sha256:…`. For a multi-platform image, the digest of the index.
    pub(crate) digest: String,
    pub(crate) command: ImageCommand,
}

/// Parses an image configuration (<https://github.com/opencontainers/image-spec/blob/main/config.md>).
pub(super) fn parse_command(config: &str) -> Option<ImageCommand> {
    let config: Value = serde_json::from_str(config).ok()?;
    // If an image sets no options, Docker omits `config` or writes null.
    let words = |field: &str| match config.get("config").and_then(|config| config.get(field)) {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(words)) => words.iter().map(|word| word.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    };
    config.is_object().then_some(())?;
    Some(ImageCommand { entrypoint: words("Entrypoint")?, cmd: words("Cmd")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_entrypoint_and_cmd() {
        let read = |text| parse_command(text).map(|command| (command.entrypoint.join(" "), command.cmd.join(" ")));
        let both = r#"{"config": {"Entrypoint": ["/e", "x"], "Cmd": ["c"]}, "os": "linux"}"#;
        assert_eq!(read(both), Some(("/e x".to_owned(), "c".to_owned())));
        for none in [r#"{"config": {"Entrypoint": null}}"#, r#"{"config": null}"#, "{}"] {
            assert_eq!(read(none), Some((String::new(), String::new())), "{none}");
        }
        for bad in ["", "[]", r#"{"config": {"Cmd": "c"}}"#, r#"{"config": {"Cmd": [1]}}"#] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
