//! Looked-up commands, kept between runs by digest: what a digest names never changes.

use podgate::order::plan::ImageCommand;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// The folder; without one nothing is kept. That it can't be read or written is no error: it only saves time.
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
        // A file that another digest's was copied to says so.
        let same = value["digest"] == digest;
        same.then_some(ImageCommand { entrypoint: words("entrypoint")?, cmd: words("cmd")? })
    }

    pub(super) fn put(&self, digest: &str, platform: &str, command: &ImageCommand) {
        let Some(path) = self.path(digest, platform) else { return };
        let text = json!({"digest": digest, "entrypoint": command.entrypoint, "cmd": command.cmd}).to_string();
        // By a rename: another run may read at the same time.
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        let _ = folder.and_then(|()| fs::write(&beside, text)).and_then(|()| fs::rename(&beside, &path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_it_was_given_and_believes_nothing_else() {
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
