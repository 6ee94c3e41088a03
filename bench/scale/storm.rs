//! Requests of sidecars in the API server's audit log.

use crate::api::quantile;
use crate::cluster::run_script;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// A request of a sidecar.
pub(crate) struct Seen {
    pub(crate) verb: String,
    uri: String,
    /// Milliseconds since 1970.
    at: f64,
    /// 0 until the API server has sent the answer's head.
    code: u64,
}

/// Returns the requests that the API server received from the sidecars of `namespace` since `since`, in milliseconds since
/// 1970.
pub(crate) fn requests(namespace: &str, since: f64) -> Vec<Seen> {
    let path = run_script(&["audit-log"]);
    let log = std::fs::read_to_string(path.trim()).unwrap_or_else(|error| panic!("{path}: {error}"));
    let user = format!("\"username\":\"system:serviceaccount:{namespace}:default\"");
    let mut requests = BTreeMap::new();
    for line in log.lines().filter(|line| line.contains(&user)) {
        // The last line may be incomplete.
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let text = |key: &str| event[key].as_str().unwrap_or("").to_owned();
        let at = humantime::parse_rfc3339(&text("requestReceivedTimestamp")).expect("a time");
        let at = at.duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970").as_secs_f64() * 1000.0;
        let code = event["responseStatus"]["code"].as_u64().unwrap_or(0);
        // A watch has two entries with the same audit ID: one at its start and one at its end.
        requests.insert(text("auditID"), Seen { verb: text("verb"), uri: text("requestURI"), at, code });
    }
    requests.into_values().filter(|request| request.at >= since).collect()
}

/// Returns for each sidecar the seconds from `since` to its first watch that the API server accepted.
pub(crate) fn reconnects(namespace: &str, since: f64) -> Vec<f64> {
    let mut first = BTreeMap::new();
    for request in requests(namespace, since).iter().filter(|request| request.verb == "watch" && request.code == 200) {
        let at = first.entry(request.uri.clone()).or_insert(request.at);
        *at = request.at.min(*at);
    }
    first.into_values().map(|at| (at - since) / 1000.0).collect()
}

/// How the reconnects of many sidecars are spread.
pub(crate) struct Spread {
    /// Seconds between the first and the last twentieth.
    pub(crate) seconds: f64,
    /// Largest part of all reconnects within a second.
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
