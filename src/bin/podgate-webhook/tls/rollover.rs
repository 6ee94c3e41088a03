//! Decides which certificates are current and next, from the stored certificates and the time.
//!
//! A new pair is first stored as `next`, and its CA is added to the webhook configuration. After all API servers have
//! had time to read the new configuration, `next` becomes `current`. The old CA stays in the configuration until its
//! certificate has expired, because a replica may still serve the old certificate.

use super::pair::{self, BACKDATED, CertPair};
use crate::error::Error;
use crate::state::Validity;
use std::time::{Duration, SystemTime};
use tracing::warn;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StoredCerts {
    pub(super) current: Option<CertPair>,
    pub(super) next: Option<CertPair>,
    pub(super) old_ca: Option<Vec<u8>>,
}

impl StoredCerts {
    /// Returns the CA bundle for the webhook configuration: the CAs of all certificates that a replica may serve.
    pub(super) fn ca_bundle(&self) -> Vec<u8> {
        let pairs = [&self.current, &self.next].into_iter().flatten().map(|pair| &pair.ca);
        pairs.chain(&self.old_ca).flatten().copied().collect()
    }
}

pub(super) struct RolloverInputs<'a> {
    pub(super) time: SystemTime,
    pub(super) life: Duration,
    /// True if the CA of `next` has been in the webhook configuration for the whole [`propagation_time`].
    pub(super) is_propagated: bool,
    /// Pair that this replica serves, used if the Secret has no usable current pair.
    pub(super) served: Option<&'a CertPair>,
    /// DNS names for which a new certificate and each stored certificate must be valid.
    pub(super) names: &'a [String],
}

impl RolloverInputs<'_> {
    /// Returns a pair's validity; `None` if the pair cannot be used now.
    fn validity_of(&self, pair: &CertPair) -> Option<Validity> {
        let checked = pair.verify(self.names, self.time);
        checked.inspect_err(|why| warn!(%why, "a certificate in the Secret is unusable")).ok().map(|(_, life)| life)
    }

    fn generate(&self) -> Result<CertPair, Error> {
        CertPair::generate(self.names, self.time, self.life)
    }
}

/// Returns the certificates to store in the Secret. Fails if a certificate is needed but cannot be created.
pub(super) fn next_certs(stored: &StoredCerts, now: &RolloverInputs<'_>) -> Result<StoredCerts, Error> {
    let usable = |pair: &Option<CertPair>| pair.clone().filter(|pair| now.validity_of(pair).is_some());
    let old_ca = stored.old_ca.clone().filter(|ca| pair::ca_validity(ca).is_some_and(|life| now.time < life.end));
    let (current, next) = (usable(&stored.current), usable(&stored.next));
    Ok(match (current, next) {
        (Some(current), Some(next)) if now.is_propagated => {
            StoredCerts { current: Some(next), next: None, old_ca: Some(current.ca) }
        }
        (Some(current), None) if is_renewal_due(&current, now) => {
            StoredCerts { current: Some(current), next: Some(now.generate()?), old_ca }
        }
        (Some(current), next) => StoredCerts { current: Some(current), next, old_ca },
        // The API servers already trust the served certificate, so serve it until the CA of the new certificate has
        // propagated.
        (None, next) if let Some(served) = usable(&now.served.cloned()) => {
            let next = next.map_or_else(|| now.generate(), Ok)?;
            StoredCerts { current: Some(served), next: Some(next), old_ca }
        }
        (None, Some(next)) => StoredCerts { current: Some(next), next: None, old_ca },
        (None, None) => StoredCerts { current: Some(now.generate()?), next: None, old_ca },
    })
}

/// Returns true if at most a third of the pair's lifetime is left. Also returns true if the time left exceeds the
/// lifetime of a new certificate by over 10 %, because the user has then reduced `--certificate-life`.
fn is_renewal_due(pair: &CertPair, now: &RolloverInputs<'_>) -> bool {
    let Some(life) = now.validity_of(pair) else { return true };
    let left = life.end.duration_since(now.time).unwrap_or_default();
    let whole = life.end.duration_since(life.start + BACKDATED).unwrap_or_default();
    left <= whole / 3 || left > now.life + now.life / 10
}

/// Returns the interval between two checks, which is a small fraction of a certificate's lifetime.
pub(super) fn reconcile_interval(life: Duration) -> Duration {
    (life / 20).clamp(Duration::from_secs(1), Duration::from_secs(60))
}

/// Returns the time between publishing a CA in the webhook configuration and using its certificate. A healthy API
/// server reads the new configuration in less than a second.
pub(super) fn propagation_time(life: Duration) -> Duration {
    (life / 12).clamp(Duration::from_secs(5), Duration::from_secs(600))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    const LIFE: Duration = Duration::from_secs(600);

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    /// Returns certificates with these times of creation: current pair, next pair, old CA.
    fn stored(made: [Option<u64>; 3], names: &[String]) -> StoredCerts {
        let make = |seconds| CertPair::generate(names, at(seconds), LIFE).unwrap();
        let [current, next, old] = made.map(|made| made.map(make));
        StoredCerts { current, next, old_ca: old.map(|old| old.ca) }
    }

    /// Returns the times of creation of `certs`.
    fn made(certs: &StoredCerts) -> [Option<u64>; 3] {
        let pairs = [&certs.current, &certs.next].map(|pair| pair.as_ref().map(|pair| &pair.ca));
        [pairs[0], pairs[1], certs.old_ca.as_ref()].map(|ca| {
            let made = pair::ca_validity(ca?)?.start + BACKDATED;
            Some(made.duration_since(at(0)).unwrap().as_secs())
        })
    }

    #[test]
    fn each_step_of_the_rollover() {
        let names = ["podgate-webhook.podgate.svc".to_owned()];
        let (first, due, second) = ([Some(0), None, None], [Some(0), Some(400), None], [Some(400), None, Some(0)]);
        for (what, before, seconds, is_propagated, served, after) in [
            ("no certificate yet", [None; 3], 0, false, None, first),
            ("renewal not due yet", first, 399, true, None, first),
            ("renewal due", first, 400, false, None, due),
            ("API servers may not have the new CA yet", due, 449, false, None, due),
            ("API servers have the new CA", due, 450, true, None, second),
            ("another replica may serve the old one", second, 599, false, None, second),
            ("the old one has expired", second, 600, false, None, [Some(400), None, None]),
            ("the second renewal", second, 800, false, None, [Some(400), Some(800), None]),
            ("expired during a long pause: a new one at once", first, 5000, false, None, [Some(5000), None, None]),
            ("next is used early if current has expired", due, 700, false, None, [Some(400), None, None]),
            ("created by a clock that was ahead", [Some(100_000), None, None], 0, false, None, first),
            ("Secret emptied: stored again, then renewed", [None; 3], 100, false, Some(0), [Some(0), Some(100), None]),
            ("Secret emptied, served one expired", [None; 3], 900, false, Some(0), [Some(900), None, None]),
        ] {
            let served = served.and_then(|made| stored([Some(made), None, None], &names).current);
            let next = |stored: &StoredCerts, is_propagated| {
                let (time, served) = (at(seconds), served.as_ref());
                let now = RolloverInputs { time, life: LIFE, is_propagated, served, names: &names };
                next_certs(stored, &now).unwrap()
            };
            let once = next(&stored(before, &names), is_propagated);
            assert_eq!(made(&once), after, "{what}");
            assert_eq!(next(&once, false), once, "{what}, second replica");
        }
        let both = stored(due, &names);
        let cas = [both.current.as_ref().unwrap().ca.clone(), both.next.as_ref().unwrap().ca.clone()];
        assert_eq!(both.ca_bundle(), cas.concat(), "both CAs");
    }

    /// Checks that all steps of a rollover fit into the shortest allowed lifetime.
    #[test]
    fn lifetime_of_a_minute_is_enough() {
        let life = Duration::from_secs(60);
        assert!(life * 2 / 3 + propagation_time(life) + reconcile_interval(life) * 3 < life);
        assert_eq!(reconcile_interval(life), Duration::from_secs(3));
        let week = life * 60 * 24 * 7;
        assert_eq!(
            (reconcile_interval(week), propagation_time(week)),
            (Duration::from_secs(60), Duration::from_secs(600))
        );
    }
}
