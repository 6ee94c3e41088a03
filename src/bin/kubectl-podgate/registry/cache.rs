//! Cache of looked-up commands. Entries never expire: their key is a digest, and the content of a digest cannot change.

use podgate::order::plan::ImageCommand;
use serde_json::json;
use std::fs;
use std::path::PathBuf;

/// Cache in a directory. `None` disables the cache. Errors on reading or writing entries are ignored.
#[derive(Debug, Clone)]
pub(super) struct CommandCache(pub(super) Option<PathBuf>);

impl CommandCache {
    fn path(&self, digest: &str, platform: &str) -> Option<PathBuf> {
        let name = format!("{digest}-{platform}").replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        Some(self.0.as_ref()?.join(name + ".json"))
    }

    pub(super) fn get(&self, digest: &str, platform: &str) -> Option<ImageCommand> {
        let text = fs::read_to_string(self.path(digest, platform)?).ok()?;
        // Ignore a file that was copied or renamed from the entry of another digest.
        serde_json::from_str(&text).ok().filter(|info: &ImageCommand| info.digest == digest)
    }

    pub(super) fn put(&self, info: &ImageCommand, platform: &str) {
        let Some(path) = self.path(&info.digest, platform) else { return };
        let text = json!(info).to_string();
        // Write a temporary file first, because another process may read the entry at the same time.
        let temp_path = path.with_extension(format!("{}.tmp", std::process::id()));
        let directory = path.parent().map_or(Ok(()), fs::create_dir_all);
        let _ = directory.and_then(|()| fs::write(&temp_path, text)).and_then(|()| fs::rename(&temp_path, &path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_only_intact_entries_of_same_digest_and_platform() {
        let directory = tempfile::tempdir().unwrap();
        let cache = CommandCache(Some(directory.path().join("deep/er")));
        let digest = "sha256:1".to_owned();
        let info = ImageCommand { entrypoint: vec!["/e".to_owned()], cmd: vec!["ü".to_owned()], digest };
        let (amd64, arm64) = ("linux/amd64", "linux/arm64");
        assert_eq!(cache.get("sha256:1", amd64), None);
        cache.put(&info, amd64);
        assert_eq!(cache.get("sha256:1", amd64), Some(info.clone()));
        assert_eq!(cache.get("sha256:1", arm64), None);
        let (one, two) = (cache.path("sha256:1", amd64).unwrap(), cache.path("sha256:2", amd64).unwrap());
        fs::copy(&one, two).unwrap();
        assert_eq!(cache.get("sha256:2", amd64), None);
        fs::write(one, "{").unwrap();
        assert_eq!(cache.get("sha256:1", amd64), None);
        CommandCache(None).put(&info, amd64);
        CommandCache(Some("/dev/null/x".into())).put(&info, amd64);
    }
}
