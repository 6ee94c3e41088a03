//! Opens and closes the gates of held containers.

use super::Controller;
use crate::clock::{now, wall_clock};
use tracing::{error, info};

impl Controller {
    /// Opens and closes gates as the published states require. Returns true if a patch must now make the kubelet sync
    /// the Pod: to release a container, or to repeat a lost probe.
    pub(super) fn update_gates(&mut self) -> bool {
        let repeats = self.pod.take_probe_repeat_request(now());
        let Some(files) = &self.hold_files else { return repeats };
        self.pod.update_gates(now(), wall_clock(), |container, open| {
            let written = files.set(container, open);
            match &written {
                Ok(()) => info!(%container, "{} the gate", if open { "opened" } else { "closed" }),
                Err(error) => error!(%container, %error, open, "cannot write or remove the gate file; retrying"),
            }
            written.is_ok()
        });
        self.publisher.milestones.record(&self.pod.tracks, wall_clock());
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
