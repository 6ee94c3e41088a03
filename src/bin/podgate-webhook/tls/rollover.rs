//! Which certificate is used when. A function of values: what is kept, what the time is, what to keep instead.
//!
//! A new pair first stands by as `next`, while its CA is written into the webhook configuration; when the API servers have had
//! time to hear of it, it becomes the current one. The CA before it stays in the configuration until its certificate has expired:
//! for that long a replica may still show that.

use super::pair::{BACKDATED, CertPair};
use crate::certificate::Validity;
use std::time::{Duration, SystemTime};

/// What the Secret keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StoredCerts {
    pub(super) current: Option<CertPair>,
    pub(super) next: Option<CertPair>,
    pub(super) old_ca: Option<Vec<u8>>,
}

impl StoredCerts {
    /// All CAs that may be met: what the webhook configuration is to hold.
    pub(super) fn ca_bundle(&self) -> Vec<u8> {
        let pairs = [&self.current, &self.next].into_iter().flatten().map(|pair| &pair.ca);
        pairs.chain(&self.old_ca).flatten().copied().collect()
    }
}

/// What else decides.
pub(super) struct RolloverInputs<'a> {
    pub(super) time: SystemTime,
    /// How long a new one is to live.
    pub(super) life: Duration,
    /// The CA of `next` has been in the webhook configuration for long enough.
    pub(super) is_propagated: bool,
    /// What this replica shows, should nothing be kept any more.
    pub(super) served: Option<&'a CertPair>,
    /// When a pair is valid; `None` for one that can't be used now.
    pub(super) validity_of: &'a dyn Fn(&CertPair) -> Option<Validity>,
    pub(super) is_ca_valid: &'a dyn Fn(&[u8]) -> bool,
    pub(super) generate: &'a dyn Fn() -> Result<CertPair, String>,
}

/// What to keep from now on.
///
/// # Errors
/// When a certificate is needed and can't be made.
pub(super) fn next_certs(kept: &StoredCerts, now: &RolloverInputs<'_>) -> Result<StoredCerts, String> {
    let usable = |pair: &Option<CertPair>| pair.clone().filter(|pair| (now.validity_of)(pair).is_some());
    let old_ca = kept.old_ca.clone().filter(|ca| (now.is_ca_valid)(ca));
    let (current, next) = (usable(&kept.current), usable(&kept.next));
    Ok(match (current, next) {
        (Some(current), Some(next)) if now.is_propagated => {
            StoredCerts { current: Some(next), next: None, old_ca: Some(current.ca) }
        }
        (Some(current), None) if is_renewal_due(&current, now) => {
            StoredCerts { current: Some(current), next: Some((now.generate)()?), old_ca }
        }
        (Some(current), next) => StoredCerts { current: Some(current), next, old_ca },
        // What this replica shows is known to the API servers: no gap while a new one stands by.
        (None, next) if let Some(shown) = usable(&now.served.cloned()) => {
            let next = next.map_or_else(now.generate, Ok)?;
            StoredCerts { current: Some(shown), next: Some(next), old_ca }
        }
        (None, Some(next)) => StoredCerts { current: Some(next), next: None, old_ca },
        (None, None) => StoredCerts { current: Some((now.generate)()?), next: None, old_ca },
    })
}

/// A third of its life is left, or it would live for longer than is now asked for.
fn is_renewal_due(pair: &CertPair, now: &RolloverInputs<'_>) -> bool {
    let Some(life) = (now.validity_of)(pair) else { return true };
    let left = life.until.duration_since(now.time).unwrap_or_default();
    let whole = life.until.duration_since(life.from + BACKDATED).unwrap_or_default();
    left <= whole / 3 || left > now.life + now.life / 10
}

/// How often to look: often enough that a step is late by no more than a fraction of a certificate's life.
pub(super) fn reconcile_interval(life: Duration) -> Duration {
    (life / 20).clamp(Duration::from_secs(1), Duration::from_secs(60))
}

/// How long a CA stands in the webhook configuration before it is used: an API server hears of it within a second, unless
/// something is wrong with it.
pub(super) fn propagation_time(life: Duration) -> Duration {
    (life / 12).clamp(Duration::from_secs(5), Duration::from_secs(600))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::time::UNIX_EPOCH;

    const LIFE: Duration = Duration::from_secs(600);

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    /// A stand-in whose text says when it was made and for how long.
    fn pair(made: u64, life: u64) -> CertPair {
        CertPair { ca: format!("{} {}", made, made + life).into_bytes(), cert: Vec::new(), key: Vec::new() }
    }

    fn validity(ca: &[u8]) -> Validity {
        let text = std::str::from_utf8(ca).unwrap();
        let (made, until) = text.split_once(' ').unwrap();
        Validity { from: at(made.parse().unwrap()) - BACKDATED, until: at(until.parse().unwrap()) }
    }

    fn next_certs_at(kept: &StoredCerts, seconds: u64, is_ripe: bool, shown: Option<&CertPair>) -> StoredCerts {
        let time = at(seconds);
        let life_of = |pair: &CertPair| Some(validity(&pair.ca)).filter(|life| life.from <= time && time < life.until);
        let ca_holds = |ca: &[u8]| time < validity(ca).until;
        let make = || Ok(pair(seconds, LIFE.as_secs()));
        let now = RolloverInputs {
            time,
            life: LIFE,
            is_propagated: is_ripe,
            served: shown,
            validity_of: &life_of,
            is_ca_valid: &ca_holds,
            generate: &make,
        };
        next_certs(kept, &now).unwrap()
    }

    /// By when they were made: the current pair, the next one, the old CA.
    fn stored([current, next, old]: [Option<u64>; 3]) -> StoredCerts {
        let made = |at: Option<u64>| at.map(|at| pair(at, LIFE.as_secs()));
        StoredCerts { current: made(current), next: made(next), old_ca: made(old).map(|old| old.ca) }
    }

    #[test]
    fn each_step() {
        let (first, due, second) = ([Some(0), None, None], [Some(0), Some(400), None], [Some(400), None, Some(0)]);
        for (what, before, seconds, is_ripe, shown, after) in [
            ("from nothing", [None; 3], 0, false, None, first),
            ("not yet due", first, 399, true, None, first),
            ("due", first, 400, false, None, due),
            ("the API servers may not know it yet", due, 449, false, None, due),
            ("they know it", due, 450, true, None, second),
            ("another replica may show the old one", second, 599, false, None, second),
            ("nobody shows the old one any more", second, 600, false, None, [Some(400), None, None]),
            ("the second renewal", second, 800, false, None, [Some(400), Some(800), None]),
            ("after a long sleep a new one at once", first, 5000, false, None, [Some(5000), None, None]),
            ("ripe or not, it is the only one", due, 700, false, None, [Some(400), None, None]),
            ("made by a clock that was ahead", [Some(100_000), None, None], 0, false, None, first),
            ("wiped: put back, and replaced without a gap", [None; 3], 100, false, Some(0), [Some(0), Some(100), None]),
            ("wiped, and expired", [None; 3], 900, false, Some(0), [Some(900), None, None]),
        ] {
            let shown = shown.map(|made| pair(made, 600));
            let once = next_certs_at(&stored(before), seconds, is_ripe, shown.as_ref());
            assert_eq!(once, stored(after), "{what}");
            assert_eq!(next_certs_at(&once, seconds, false, shown.as_ref()), once, "{what}, for who comes second");
        }
        assert_eq!(stored(due).ca_bundle(), b"0 600400 1000", "both CAs");
    }

    #[test]
    fn a_life_that_is_asked_to_be_shorter_begins_anew() {
        let kept = StoredCerts { current: Some(pair(0, 100_000)), next: None, old_ca: None };
        assert_eq!(next_certs_at(&kept, 1, false, None).next, Some(pair(1, 600)));
    }

    #[test]
    fn what_can_not_be_made_is_an_error_and_only_where_it_is_needed() {
        let tried = Cell::new(0);
        let make = || {
            tried.set(tried.get() + 1);
            Err("no".to_owned())
        };
        let time = at(0);
        let life_of = |pair: &CertPair| Some(validity(&pair.ca));
        let now = RolloverInputs {
            time,
            life: LIFE,
            is_propagated: true,
            served: None,
            validity_of: &life_of,
            is_ca_valid: &|_| true,
            generate: &make,
        };
        assert_eq!(
            next_certs(&StoredCerts { current: Some(pair(0, 600)), ..StoredCerts::default() }, &now).map(|_| ()),
            Ok(())
        );
        assert_eq!(tried.get(), 0);
        assert_eq!(next_certs(&StoredCerts::default(), &now), Err("no".to_owned()));
    }

    /// The shortest life that is allowed: each step fits into the one before it.
    #[test]
    fn a_minute_is_enough() {
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
