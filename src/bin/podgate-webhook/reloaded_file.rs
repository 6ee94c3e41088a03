//! Files that the webhook reads again while it runs.

use crate::error::{Error, failed};
use crate::metrics::Labels;
use podgate::edge::files::read_following_links;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tracing::{info, warn};

/// Interval between two reads of a file. In a Secret volume, only symlinks change, so modification times do not help.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_secs(10);
/// Size limit for a file, in bytes. A ConfigMap and a Secret have the same limit.
pub(crate) const FILE_MAX: usize = 1 << 20;

/// File of a ConfigMap: that of `--images` or `--orders`.
pub(crate) struct ReloadedFile<T> {
    /// The flag, for the log.
    pub(crate) flag: &'static str,
    /// Path from the flag. `None` without the flag.
    pub(crate) path: Option<PathBuf>,
    /// Size limit, in bytes.
    pub(crate) size_max: usize,
    pub(crate) parse: fn(&[u8]) -> Result<T, String>,
    pub(crate) reads: Family<Labels, Counter>,
    /// Content of the last valid file.
    pub(crate) current: watch::Sender<Arc<T>>,
}

impl<T: Default + PartialEq> ReloadedFile<T> {
    pub(crate) fn get(&self) -> Arc<T> {
        Arc::clone(&self.current.borrow())
    }

    /// Reads the content that the next reviews use. On failure, the previous content remains. Without the file, there
    /// is no content, because the ConfigMap is optional.
    pub(crate) fn load(&self) -> Result<(), Error> {
        let Some(path) = &self.path else { return Ok(()) };
        let new = if path.exists() {
            (self.parse)(&read_file(path, self.size_max)?).map_err(|error| format!("{}: {error}", path.display()))?
        } else {
            T::default()
        };
        if *self.get() != new {
            info!("read the file of {}", self.flag);
            self.current.send_replace(Arc::new(new));
        }
        Ok(())
    }

    /// Reads the file every [`RELOAD_INTERVAL`]. Logs each new error once. `last` is the result of the last read.
    pub(crate) async fn keep_current(self: Arc<Self>, mut last: Result<(), Error>) {
        while self.path.is_some() {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            last = self.reload(&last);
        }
    }

    /// Reads the file, and counts the read. Logs an error that differs from that of the `last` read.
    pub(crate) fn reload(&self, last: &Result<(), Error>) -> Result<(), Error> {
        let result = self.load();
        let label = if result.is_ok() { "ok" } else { "failed" };
        self.reads.get_or_create(&[("result", label)]).inc_by(u64::from(self.path.is_some()));
        if let Some(error) = result.as_ref().err().filter(|_| result != *last) {
            warn!(%error, "cannot use the file of {}; the last valid content remains in use", self.flag);
        }
        result
    }
}

pub(crate) fn read_file(path: &Path, size_max: usize) -> Result<Vec<u8>, Error> {
    read_following_links(path, size_max).map_err(failed(format_args!("cannot read {}", path.display())))
}
