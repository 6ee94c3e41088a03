//! Restores probes and hooks that Istio has rewritten.
//!
//! Istio replaces each `httpGet`, `tcpSocket` and `grpc` of a probe or hook by an `httpGet` that its proxy answers. The
//! original actions are JSON in an environment variable of the proxy
//! (<https://github.com/istio/istio/blob/master/pkg/kube/inject/app_probe.go>).

use crate::core::container::{Container, Handler, Probe};
use crate::order::declare::limits::parse_json;
use crate::order::edit::Place;
use crate::order::inject::parts;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Name of Istio's proxy, which is a regular container or a native sidecar.
pub(super) const PROXY: &str = "istio-proxy";
/// Environment variable of the proxy with the original actions.
pub(super) const ORIGINALS_VARIABLE: &str = "ISTIO_KUBE_APP_PROBERS";

/// Start of the paths of rewritten probes.
pub(crate) const REWRITTEN_PATH_PREFIX: &str = "/app-health/";

/// Original actions, by the path of the rewritten probe or hook.
pub(super) struct OriginalProbes(BTreeMap<String, Value>);

impl OriginalProbes {
    /// Reads the original probes of `template`. The result is empty without a proxy or with an invalid variable.
    pub(super) fn read(template: &Value) -> OriginalProbes {
        let text = parts::find_container(template, PROXY).and_then(|(_, proxy)| {
            let variables = Place::root().to("env").items(proxy);
            variables.iter().find(|one| parts::item_name(one) == Some(ORIGINALS_VARIABLE))?.get("value")?.as_str()
        });
        OriginalProbes(text.and_then(parse_json).unwrap_or_default())
    }

    /// Restores the original actions of the container's probes, and keeps the times and thresholds. Returns the names
    /// of the fields, such as `readinessProbe`, whose rewritten probe has no valid original.
    pub(super) fn restore(&self, container: &mut Container) -> Vec<&'static str> {
        let Container { name, startup_probe, readiness_probe, .. } = container;
        let mut unknown = Vec::new();
        for (field, end, probe) in
            [("startupProbe", "startupz", startup_probe), ("readinessProbe", "readyz", readiness_probe)]
        {
            let path = format!("{REWRITTEN_PATH_PREFIX}{name}/{end}");
            let Some(probe) = probe else { continue };
            if !matches!(&probe.handler, Handler::HttpGet(get) if get.path.as_deref() == Some(path.as_str())) {
                continue;
            }
            match self.0.get(&path).and_then(|original| Probe::deserialize(original).ok()) {
                Some(original) => probe.handler = original.handler,
                None => unknown.push(field),
            }
        }
        unknown
    }

    /// Returns the preStop hook in the container's `spec`, or the known original of a rewritten hook. The rewritten
    /// hook depends on the proxy, which may have exited when podgate runs the hook.
    pub(super) fn pre_stop<'a>(&'a self, name: &str, spec: &'a Value) -> Option<&'a Value> {
        let hook = spec.pointer("/lifecycle/preStop")?;
        let path = format!("/app-lifecycle/{name}/prestopz");
        let is_rewritten = hook.pointer("/httpGet/path").is_some_and(|found| *found == path);
        self.0.get(&path).filter(|_| is_rewritten).or(Some(hook))
    }
}
