//! Answers the kubelet's startupProbes over HTTP, so that the start of a Pod needs no `exec`.

use crate::clock::now;
use crate::model::track::Start;
use hyper::{StatusCode, Uri};
use podgate::core::names;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep_until;

#[derive(Debug, Default)]
pub(crate) struct StartupProbes {
    starts: watch::Sender<BTreeMap<String, Start>>,
    /// True if the kubelet has learned that the sidecar has set up the board.
    pub(crate) is_sidecar_started: Cell<bool>,
}

impl StartupProbes {
    pub(crate) fn update(&self, starts: BTreeMap<String, Start>) {
        self.starts.send_if_modified(|last| std::mem::replace(last, starts) != *last);
    }

    /// Answers a request like `podgate opened --wait`. The parameters `delay` and `limit` are the seconds of
    /// `--initial-delay` and `--check-limit`.
    pub(crate) async fn respond(&self, uri: Uri) -> (StatusCode, String) {
        if uri.path() == names::READY_PATH {
            self.is_sidecar_started.set(true);
            return (StatusCode::OK, String::new());
        }
        let seconds = |name: &str| {
            let mut pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
            let value = pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok());
            Duration::from_secs(value.map_or(0, u32::into))
        };
        let mut starts = self.starts.subscribe();
        loop {
            let name = uri.path().strip_prefix(names::OPENED_PATH).unwrap_or_default();
            let Some(start) = starts.borrow_and_update().get(name).copied() else {
                return (StatusCode::NOT_FOUND, "no container with a gate has this name\n".to_owned());
            };
            let due = match start.opened_at {
                Some(at) if !start.has_passed_probe => Some(at + seconds("limit")),
                Some(at) if !start.is_ready => Some(at + seconds("delay")),
                Some(_) => Some(now()),
                None => None,
            };
            match due.filter(|due| *due <= now()) {
                Some(_) if start.has_passed_probe => return (StatusCode::OK, String::new()),
                Some(_) => {
                    let why = "the startupProbe has not passed in time after the gate has opened\n";
                    return (StatusCode::SERVICE_UNAVAILABLE, why.to_owned());
                }
                None => {}
            }
            tokio::select! {
                changed = starts.changed() => if changed.is_err() { return (StatusCode::GONE, String::new()) },
                () = sleep_until(due.unwrap_or_else(now).into()), if due.is_some() => {}
            }
        }
    }
}
