//! Entrypoint and Cmd of an image, read from its configuration.

use podgate::order::plan::ImageCommand;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Result of looking up an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageInfo {
    /// Digest of the tag, `sha256:…`. For a multi-platform image, the digest of the index.
    pub(crate) digest: String,
    #[serde(flatten)]
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
