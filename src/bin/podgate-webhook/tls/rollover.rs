//! Determines the current and the next certificate. No I/O: maps the stored certificates and the time to the
//! certificates to store next.
//!
//! A new pair is first stored as `next`, and its CA is added to the webhook configuration. After all API servers have
//! had time to read the new configuration, `next` becomes `current`. The old CA stays in the configuration until its
//! certificate has expired, because a replica may still serve the old certificate.

use super::pair::{BACKDATED, CertPair};
use crate::certificate::Validity;
use std::time::{Duration, SystemTime};

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
    /// Lifetime of a new certificate.
    pub(super) life: Duration,
    /// True if the CA of `next` has been in the webhook configuration for the whole [`propagation_time`].
    pub(super) is_propagated: bool,
    /// Pair that this replica serves, used if the Secret has no usable current pair.
    pub(super) served: Option<&'a CertPair>,
    /// Returns a pair's validity; `None` if the pair can't be used now.
    pub(super) validity_of: &'a dyn Fn(&CertPair) -> Option<Validity>,
    pub(super) is_ca_valid: &'a dyn Fn(&[u8]) -> bool,
    pub(super) generate: &'a dyn Fn() -> Result<CertPair, String>,
}

/// Returns the certificates to store in the Secret. Fails if a certificate is needed but can't be created.
pub(super) fn next_certs(stored: &StoredCerts, now: &RolloverInputs<'_>) -> Result<StoredCerts, String> {
    let usable = |pair: &Option<CertPair>| pair.clone().filter(|pair| (now.validity_of)(pair).is_some());
    let old_ca = stored.old_ca.clone().filter(|ca| (now.is_ca_valid)(ca));
    let (current, next) = (usable(&stored.current), usable(&stored.next));
    Ok(match (current, next) {
        (Some(current), Some(next)) if now.is_propagated => {
            StoredCerts { current: Some(next), next: None, old_ca: Some(current.ca) }
        }
        (Some(current), None) if is_renewal_due(&current, now) => {
            StoredCerts { current: Some(current), next: Some((now.generate)()?), old_ca }
        }
        (Some(current), next) => StoredCerts { current: Some(current), next, old_ca },
        // The API servers already trust the served certificate, so serve it until the CA of the new certificate has
        // propagated.
        (None, next) if let Some(served) = usable(&now.served.cloned()) => {
            let next = next.map_or_else(now.generate, Ok)?;
            StoredCerts { current: Some(served), next: Some(next), old_ca }
        }
        (None, Some(next)) => StoredCerts { current: Some(next), next: None, old_ca },
        (None, None) => StoredCerts { current: Some((now.generate)()?), next: None, old_ca },
    })
}

/// Returns true if at most a third of the pair's lifetime is left. Also returns true if the time left exceeds the
/// lifetime of a new certificate by over 10 %, because the user has then reduced `--certificate-life`.
fn is_renewal_due(pair: &CertPair, now: &RolloverInputs<'_>) -> bool {
    let Some(life) = (now.validity_of)(pair) else { return true };
    let left = life.until.duration_since(now.time).unwrap_or_default();
    let whole = life.until.duration_since(life.from + BACKDATED).unwrap_or_default();
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

    /// Returns a fake pair whose CA contains the times of creation and expiry.
    fn pair(made: u64, life: u64) -> CertPair {
        CertPair { ca: format!("{} {}", made, made + life).into_bytes(), cert: Vec::new(), key: Vec::new() }
    }

    fn validity(ca: &[u8]) -> Validity {
        let text = std::str::from_utf8(ca).unwrap();
        let (made, until) = text.split_once(' ').unwrap();
        Validity { from: at(made.parse().unwrap()) - BACKDATED, until: at(until.parse().unwrap()) }
    }

    fn next_certs_at(
        stored: &StoredCerts,
        seconds: u64,
        is_propagated: bool,
        served: Option<&CertPair>,
    ) -> StoredCerts {
        let time = at(seconds);
        let validity_of =
            |pair: &CertPair| Some(validity(&pair.ca)).filter(|life| life.from <= time && time < life.until);
        let ca_holds = |ca: &[u8]| time < validity(ca).until;
        let make = || Ok(pair(seconds, LIFE.as_secs()));
        let now = RolloverInputs {
            time,
            life: LIFE,
            is_propagated,
            served,
            validity_of: &validity_of,
            is_ca_valid: &ca_holds,
            generate: &make,
        };
        next_certs(stored, &now).unwrap()
    }

    /// Returns stored certificates with these times of creation: current pair, next pair, old CA.
    fn stored([current, next, old]: [Option<u64>; 3]) -> StoredCerts {
        let made = |at: Option<u64>| at.map(|at| pair(at, LIFE.as_secs()));
        StoredCerts { current: made(current), next: made(next), old_ca: made(old).map(|old| old.ca) }
    }

    #[test]
    fn each_step_of_the_rollover() {
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
            let served = served.map(|made| pair(made, 600));
            let once = next_certs_at(&stored(before), seconds, is_propagated, served.as_ref());
            assert_eq!(once, stored(after), "{what}");
            assert_eq!(next_certs_at(&once, seconds, false, served.as_ref()), once, "{what}, second replica");
        }
        assert_eq!(stored(due).ca_bundle(), b"0 600400 1000", "both CAs");
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
