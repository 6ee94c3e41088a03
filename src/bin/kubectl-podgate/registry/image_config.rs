//! Entrypoint and Cmd of an image, read from its configuration.

use podgate::order::plan::ImageCommand;
use serde_json::Value;

/// Parses the image configuration (<https://github.com/opencontainers/image-spec/blob/main/config.md>) of the image
/// with this digest.
pub(super) fn parse_command(config: &str, digest: String) -> Option<ImageCommand> {
    let config: Value = serde_json::from_str(config).ok()?;
    // If an image sets no options, Docker omits `config` or writes null.
    let words = |field: &str| match config.get("config").and_then(|config| config.get(field)) {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(words)) => words.iter().map(|word| word.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    };
    config.is_object().then_some(())?;
    Some(ImageCommand { entrypoint: words("Entrypoint")?, cmd: words("Cmd")?, digest })
}
