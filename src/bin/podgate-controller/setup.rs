//! Startup configuration: the Pod's identity, the agent's path, and the declared containers.

use crate::api::PodIdentity;
use crate::args::{PublishTarget, RunArgs};
use crate::clock::now;
use podgate::core::names;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::warn;

const LOCK_RETRY_DELAY: Duration = Duration::from_millis(10);
/// Time after which a wait for a lock is logged.
const LOCK_WARNING_DELAY: Duration = Duration::from_secs(1);

/// Waits until no other sidecar of the Pod runs, and returns the lock that keeps other sidecars waiting. Two sidecars
/// can run at once if the runtime reports a container's end too early, or if a Pod written by hand has two sidecars.
/// Both would write the board and open gates.
///
/// The lock is on the directory `self_dir` itself. Other containers mount only directories beneath it, so they cannot
/// take this lock. A file of the board is unsuitable, because other containers can take read locks on such a file.
pub(crate) async fn exclude_other_sidecars(self_dir: &Path) -> Result<File, String> {
    let why = "another sidecar of this Pod runs, or a container mounts this whole volume; containers need a subPath";
    let error = |error| format!("cannot lock --self {}: {error}; mount an emptyDir there", self_dir.display());
    let directory = File::open(self_dir).map_err(error)?;
    let try_lock = || match directory.try_lock() {
        Ok(()) => Ok(Some(())),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(failed)) => Err(error(failed)),
    };
    wait_for_lock(self_dir, why, try_lock).await?;
    Ok(directory)
}

/// Calls `try_lock` repeatedly, and returns the lock as soon as `try_lock` returns one. Logs `why`, the reason for the
/// wait, after `LOCK_WARNING_DELAY`.
pub(crate) async fn wait_for_lock<T>(
    path: &Path,
    why: &str,
    mut try_lock: impl FnMut() -> Result<Option<T>, String>,
) -> Result<T, String> {
    let (since, mut has_warned) = (now(), false);
    loop {
        if let Some(lock) = try_lock()? {
            return Ok(lock);
        }
        if since.elapsed() >= LOCK_WARNING_DELAY && !std::mem::replace(&mut has_warned, true) {
            warn!(path = %path.display(), "waiting for a lock: {why}");
        }
        tokio::time::sleep(LOCK_RETRY_DELAY).await;
    }
}

/// Returns the identity of the sidecar's own Pod; `None` with `--publish none`.
pub(crate) fn pod_identity(args: &RunArgs) -> Result<Option<PodIdentity>, String> {
    if args.publish == PublishTarget::None {
        return match args.containers {
            Some(_) => Ok(None),
            None => Err("--publish none needs --containers, because the sidecar then reads no Pod spec".to_owned()),
        };
    }
    match (&args.pod_name, &args.pod_namespace) {
        (Some(name), Some(namespace)) => Ok(Some(PodIdentity {
            name: name.clone(),
            namespace: namespace.clone(),
            uid: args.pod_uid.clone(),
            container: args.name.clone(),
        })),
        _ => Err("POD_NAME and POD_NAMESPACE are not set; set them with fieldRef, or pass --publish none".to_owned()),
    }
}

pub(crate) fn default_agent_path() -> std::io::Result<PathBuf> {
    let own = std::fs::read_link("/proc/self/exe")?;
    Ok(own.parent().unwrap_or(Path::new("/")).join(names::AGENT_FILE))
}
