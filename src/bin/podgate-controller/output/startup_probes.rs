//! Answers the kubelet's startupProbes over HTTP, so that the start of a Pod needs no `exec`.

use crate::clock::now;
use crate::model::track::Start;
use hyper::{StatusCode, Uri};
use podgate::core::names;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
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
    pub(crate) async fn respond(self: Rc<Self>, uri: Uri) -> (StatusCode, String) {
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
            let wait = match (start.has_passed_probe, start.is_ready) {
                (false, _) => seconds("limit"),
                (true, false) => seconds("delay"),
                (true, true) => Duration::ZERO,
            };
            let due = start.opened_at.map(|at| at + wait);
            if due.is_some_and(|due| due <= now()) {
                let why = "the startupProbe has not passed in time after the gate has opened\n";
                let failed = (StatusCode::SERVICE_UNAVAILABLE, why.to_owned());
                return if start.has_passed_probe { (StatusCode::OK, String::new()) } else { failed };
            }
            tokio::select! {
                _ = starts.changed() => {}
                () = sleep_until(due.unwrap_or_else(now).into()), if due.is_some() => {}
            }
        }
    }
}
