//! Cache of looked-up commands. Entries never expire: their key is a digest, and the content of a digest cannot change.

use podgate::order::plan::ImageCommand;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// Cache in a folder. `None` disables the cache. Errors on reading or writing entries are ignored.
#[derive(Debug, Clone)]
pub(super) struct CommandCache(pub(super) Option<PathBuf>);

impl CommandCache {
    fn path(&self, digest: &str, platform: &str) -> Option<PathBuf> {
        let name = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        Some(self.0.as_ref()?.join(format!("{}-{}.json", name(digest), name(platform))))
    }

    pub(super) fn get(&self, digest: &str, platform: &str) -> Option<ImageCommand> {
        let text = fs::read_to_string(self.path(digest, platform)?).ok()?;
        let value: Value = serde_json::from_str(&text).ok()?;
        let words = |field: &str| -> Option<Vec<String>> {
            value[field].as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect()
        };
        // Ignore a file that was copied or renamed from the entry of another digest.
        let is_same = value["digest"] == digest;
        is_same.then_some(ImageCommand { entrypoint: words("entrypoint")?, cmd: words("cmd")? })
    }

    pub(super) fn put(&self, digest: &str, platform: &str, command: &ImageCommand) {
        let Some(path) = self.path(digest, platform) else { return };
        let text = json!({"digest": digest, "entrypoint": command.entrypoint, "cmd": command.cmd}).to_string();
        // Write a temporary file first, because another process may read the entry at the same time.
        let temp_path = path.with_extension(format!("{}.tmp", std::process::id()));
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        let _ = folder.and_then(|()| fs::write(&temp_path, text)).and_then(|()| fs::rename(&temp_path, &path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_only_intact_entries_of_same_digest_and_platform() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CommandCache(Some(folder.path().join("deep/er")));
        let command = ImageCommand { entrypoint: vec!["/e".to_owned()], cmd: vec!["ü".to_owned()] };
        assert_eq!(cache.get("sha256:1", "linux/amd64"), None);
        cache.put("sha256:1", "linux/amd64", &command);
        assert_eq!(cache.get("sha256:1", "linux/amd64"), Some(command.clone()));
        assert_eq!(cache.get("sha256:1", "linux/arm64"), None);
        let (one, two) =
            (cache.path("sha256:1", "linux/amd64").unwrap(), cache.path("sha256:2", "linux/amd64").unwrap());
        fs::copy(&one, two).unwrap();
        assert_eq!(cache.get("sha256:2", "linux/amd64"), None);
        fs::write(one, "{").unwrap();
        assert_eq!(cache.get("sha256:1", "linux/amd64"), None);
        CommandCache(None).put("sha256:1", "x", &command);
        CommandCache(Some("/dev/null/x".into())).put("sha256:1", "x", &command);
    }
}
