//! Opens and closes the gates of held containers.

use super::Controller;
use crate::clock::{now, wall_clock};
use tracing::{error, info};

impl Controller {
    /// Opens and closes gates as the published states require.
    pub(super) fn update_gates(&mut self) {
        let Some(files) = &self.hold_files else { return };
        self.pod.update_gates(now(), wall_clock(), |container, open| {
            let written = files.set(container, open);
            match &written {
                Ok(()) => info!(%container, "{} the gate", if open { "opened" } else { "closed" }),
                Err(error) => error!(%container, %error, open, "cannot write or remove the gate file; retrying"),
            }
            written.is_ok()
        });
        self.publisher.milestones.record(&self.pod.tracks, wall_clock());
    }

    /// Returns true if a patch must make the kubelet sync the Pod now: to release a container or repeat a lost probe.
    pub(super) fn take_sync_request(&mut self) -> bool {
        let repeats = self.pod.take_lost_probe_request(now());
        let Some(files) = &self.hold_files else { return repeats };
        let due = self.pod.take_release_requests(now());
        for container in &due {
            // Write the gate file again, because another process may have removed it.
            if let Err(error) = files.set(container, true) {
                error!(%container, %error, "cannot write the gate file");
            }
        }
        repeats || !due.is_empty()
    }
}
