//! Rest, once nothing more is to be learnt, and what ends it.

use super::Controller;
use crate::clock::now;
use crate::judge::world::Urgency;
use std::time::Duration;
use tracing::info;

/// How long to rest between two looks after having settled, at first and at most.
pub(super) const FIRST_REST: Duration = Duration::from_secs(2);
const LONGEST_REST: Duration = Duration::from_secs(60);
/// The same for what somebody waits for, at first; later a quarter of the other.
const PRESSING_REST: Duration = Duration::from_secs(1);
/// How long to wait for the API's answer in such a look.
const LOOK: Duration = Duration::from_secs(5);

impl Controller {
    /// Nothing more is to be learnt: lets go of connections and timers, and sleeps until a folder changes.
    pub(super) fn settle(&mut self) {
        if self.settled {
            return;
        }
        info!("all have started; settles");
        self.settled = true;
        self.probing.clear();
        self.vets.clear();
        // Only the kubelet can say that the others have ended.
        if let Some(api) = self.api.as_mut().filter(|_| !self.ends_with_others && !self.world.must_watch()) {
            api.stop_watching();
            self.world.stop_watching();
        }
    }

    /// Something has come up: looks at the pod again, at once or when the last look is long enough ago. A container can cause
    /// this as often as it likes, and the API is to notice little of it; but each begins to stop only once.
    pub(super) fn stir(&mut self, urgency: Urgency) {
        if !self.settled {
            return;
        }
        let here = now();
        let rest = match urgency {
            Urgency::Now => Duration::ZERO,
            Urgency::Soon => (self.rest / 4).max(PRESSING_REST),
            Urgency::Later => self.rest,
        };
        let due = self.stirred.map_or(here, |last| last + rest);
        if due > here {
            self.stir_at = Some(self.stir_at.map_or(due, |at| at.min(due)));
            return;
        }
        let long_ago = self.stirred.is_none_or(|last| here > last + LONGEST_REST * 2);
        self.rest = if long_ago { FIRST_REST } else { (self.rest * 2).min(LONGEST_REST) };
        (self.stirred, self.stir_at, self.settled) = (Some(here), None, false);
        if let Some(api) = &mut self.api {
            api.watch();
            // What the API says is waited for, unless it says nothing.
            self.looking_until = Some(here + LOOK);
        }
    }
}
