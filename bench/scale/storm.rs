//! Reads the requests of sidecars from the API server's audit log.

use crate::cluster::{AuditedRequest, requests_of};
use crate::quantile::quantile;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Returns the requests that the API server received from the sidecars of `namespace` since `since`, each with its
/// time. Times are in milliseconds since 1970.
pub(crate) fn requests(namespace: &str, since: f64) -> Vec<(f64, AuditedRequest)> {
    let timed = |request: AuditedRequest| {
        let at = humantime::parse_rfc3339(&request.received).expect("a time");
        let at = at.duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970");
        (at.as_secs_f64() * 1000.0, request)
    };
    requests_of(namespace).into_iter().map(timed).filter(|(at, _)| *at >= since).collect()
}

/// Returns for each sidecar the seconds from `since` to its first watch that the API server accepted.
pub(crate) fn reconnects(namespace: &str, since: f64) -> Vec<f64> {
    let mut first = BTreeMap::new();
    for (at, request) in requests(namespace, since) {
        if request.verb == "watch" && request.code == 200 {
            first.entry(request.uri).or_insert(at);
        }
    }
    first.into_values().map(|at| (at - since) / 1000.0).collect()
}

/// Distribution of the reconnects of many sidecars over time.
pub(crate) struct Spread {
    /// Time in seconds in which the sidecars connect again, without the first 5 % and the last 5 % of the sidecars.
    pub(crate) seconds: f64,
    /// Largest share of all reconnects within one second.
    pub(crate) busiest_second: f64,
}

pub(crate) fn spread(what: &str, times: &[f64]) -> Spread {
    let at = |part| quantile(times, part);
    let within = |from: f64| times.iter().filter(|time| (from..from + 1.0).contains(time)).count();
    let most = times.iter().map(|from| within(*from)).max().unwrap_or(0);
    let bins: Vec<usize> = (0..=at(1.0) as usize).map(|from| within(from as f64)).collect();
    eprintln!("{what}: {} sidecars connect again, in each second: {bins:?}", times.len());
    Spread { seconds: at(0.95) - at(0.05), busiest_second: most as f64 / times.len() as f64 }
}
