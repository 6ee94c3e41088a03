//! The file of `--images`, which the webhook reads again while it runs.

use crate::error::Error;
use crate::state::State;
use crate::tls::{RELOAD_INTERVAL, read_file};
use podgate::order::image_map;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{info, warn};

/// Reads the commands that the next reviews use. On failure, the webhook keeps the previous commands. Without the file,
/// there are no commands, because the ConfigMap is optional.
pub(crate) fn load(path: &Path, state: &State) -> Result<(), Error> {
    let text = if path.exists() { read_file(path)? } else { b"{}".to_vec() };
    let images = image_map::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    if *state.images.borrow() != images {
        info!(count = images.len(), "read the commands of images");
        state.images.send_replace(images);
    }
    Ok(())
}

/// Reads the file every [`RELOAD_INTERVAL`]. Logs each new error once.
pub(crate) async fn keep_current(path: PathBuf, state: Arc<State>) {
    let mut last = Ok(());
    loop {
        tokio::time::sleep(RELOAD_INTERVAL).await;
        let result = load(&path, &state);
        state.metrics.image_file_reads.get_or_create(&[("result", if result.is_ok() { "ok" } else { "failed" })]).inc();
        if let Some(error) = result.as_ref().err().filter(|_| result != last) {
            warn!(%error, "cannot use the new file of --images; the old commands remain");
        }
        last = result;
    }
}
