//! A certificate in files that another program renews, for example a cert-manager Secret mounted as a volume.

use super::pair;
use crate::state::State;
use podgate::core::text::error_chain;
use podgate::edge::files::read_trusted;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Interval between two reads of a file. In a Secret volume, only symlinks change, so modification times do not help.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_secs(10);
/// Size limit for each file, in bytes. A ConfigMap and a Secret have the same limit.
const FILE_MAX: usize = 1 << 20;

pub(crate) struct CertFiles {
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
}

impl CertFiles {
    /// Reads the files and serves their certificate if the certificate has changed. On failure, the served certificate
    /// remains unchanged.
    pub(super) fn reload(&self, state: &State) -> Result<(), String> {
        let (cert, key) = (read_file(&self.cert)?, read_file(&self.key)?);
        let paths = format!("{} and {}", self.cert.display(), self.key.display());
        let (key, life) = pair::parse(&cert, &key).map_err(|error| format!("{paths}: {error}"))?;
        state.served_cert.set_trusted(true);
        state.serve_cert(key, life);
        Ok(())
    }
}

pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    read_trusted(path, FILE_MAX).map_err(|error| format!("cannot read {}: {}", path.display(), error_chain(&error)))
}
