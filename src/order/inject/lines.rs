//! The agent's command lines, as they are written into a container.

use crate::core::command::Line;
use crate::core::container::{Container, Mode, Probe};
use crate::core::names;
use crate::core::until::{Until, Want};
use crate::order::inject::checks;
use crate::order::inject::hooks::{COMMAND, Then};
use crate::order::inject::parts::without_nulls;
use crate::order::plan::Planned;
use serde_json::{Value, json};
use std::time::Duration;

/// How much longer than its gate a container may take before the kubelet ends it: the gate is to say itself why it gives up.
const LATER: u64 = 5;
/// How long a hook may take that has nothing to wait for.
const STARTED: Duration = Duration::from_secs(10);

/// What a container is for the lines below.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own<'a> {
    /// As planned.
    pub(super) planned: &'a Planned,
    /// As its spec has it.
    pub(super) told: &'a Container,
    /// All of its spec.
    pub(super) spec: &'a Value,
}

/// `2m30s`: no blank, so that it needs no quotes.
pub(super) fn span(time: Duration) -> String {
    humantime::format_duration(time).to_string().replace(' ', "")
}

/// `db`, or `db=Started`: Ready is what the agent takes by default.
fn until(until: &Until) -> String {
    if until.want == Want::Ready { until.container.clone() } else { until.to_string() }
}

impl Own<'_> {
    /// The gate's words in front of the container's own command, up to `--`.
    pub(super) fn gate(&self) -> Vec<String> {
        let Planned { name, until: untils, parent, stop_after, .. } = self.planned;
        let mut line = Line::new("entrypoint");
        line.flag("--container", name);
        for one in untils {
            line.flag("--until", until(one));
        }
        if !untils.is_empty() {
            line.flag("--timeout", span(self.planned.timeout));
            self.gives_up(&mut line);
        }
        if *parent {
            line.flag("--tether", "parent");
            self.commands(&mut line);
        }
        for one in stop_after {
            line.flag("--stop-after", one);
        }
        self.last_words(&mut line);
        let mut words = line.words();
        words.push("--".to_owned());
        words
    }

    /// When a wait is given up, and what then.
    fn gives_up(&self, line: &mut Line) {
        if self.planned.continue_on_timeout {
            line.flag("--on-timeout", "continue");
        }
        if self.planned.fail_fast {
            line.switch("--fail-fast");
        }
    }

    /// The postStart hook. `then` is the user's own. One that waits for no more than the container's start is over at once: it reports
    /// that, and leaves its tether.
    pub(super) fn post_start(&self, then: Option<String>) -> Vec<String> {
        let Planned { name, until: untils, timeout, .. } = self.planned;
        let mut line = Line::new("post-start");
        line.flag("--container", name);
        let started = Until { container: name.clone(), want: Want::Started };
        // Nothing is lost if such a hook gives up.
        let waits = self.planned.mode == Mode::PostStart && untils.iter().any(|one| *one != started);
        if !waits {
            line.flag("--until", until(&started));
        } else if untils.iter().any(|one| one.container != *name || one.want != Want::Ready) {
            untils.iter().for_each(|one| line.flag("--until", until(one)));
        }
        line.flag("--timeout", span(if waits || then.is_some() { *timeout } else { STARTED }));
        if waits {
            self.gives_up(&mut line);
        } else {
            line.flag("--on-timeout", "continue");
        }
        if self.waits_for_itself() {
            self.commands(&mut line);
            let probe = self.told.readiness_probe.as_ref().or(self.told.startup_probe.as_ref());
            if let Some(url) = probe.and_then(|probe| checks::of(self.told, probe).url(false)) {
                line.flag("--fallback-check", url);
            }
        }
        if self.planned.tether {
            line.switch("--tether");
        }
        self.last_words(&mut line);
        if let Some(then) = then {
            line.flag("--then", then);
        }
        line.words()
    }

    /// Whether its hook waits until it is Ready itself.
    pub(super) fn waits_for_itself(&self) -> bool {
        let Planned { name, until, mode, .. } = self.planned;
        *mode == Mode::PostStart && until.iter().any(|one| one.container == *name && one.want == Want::Ready)
    }

    /// The preStop hook; `stays` are those that it waits for.
    pub(super) fn pre_stop(&self, stays: &[String], then: Option<Then>, grace: Duration, logs: bool) -> Vec<String> {
        let mut line = Line::new("pre-stop");
        line.flag("--container", &self.planned.name);
        for one in stays {
            line.flag("--until", one);
        }
        line.flag("--grace", span(grace));
        if logs {
            line.flag("--log-to", "/proc/1/fd/2");
        }
        if let Some(Then { command, takes }) = then {
            // A command of unknown length leaves half of the time at least to those that are waited for.
            let kept =
                takes.map_or(COMMAND.min(grace / 2), |takes| takes.saturating_add(Duration::from_secs(1)).min(grace));
            if kept != COMMAND && !stays.is_empty() {
                line.flag("--then-timeout", span(kept));
            }
            line.flag("--then", command);
        }
        line.words()
    }

    /// The startupProbe that holds the kubelet's other probes back until the gate has opened, and then asks what the container's own
    /// startupProbe asks.
    pub(super) fn opened(&self) -> Value {
        let mut line = Line::new("opened");
        let own = self.told.startup_probe.as_ref();
        let url = own.and_then(|probe| checks::of(self.told, probe).url(true));
        let mut limit = None;
        if let (Some(probe), Some(url)) = (own, url) {
            line.flag("--check", url);
            if probe.timeout_seconds > 1 {
                line.flag("--check-timeout", format!("{}s", probe.timeout_seconds));
            }
            // One second more, so that the agent itself reports the time-out of the check.
            limit = Some(probe.timeout_seconds.saturating_add(1));
        }
        let allowed = own.map_or(0, |probe| {
            u64::from(probe.initial_delay_seconds)
                + u64::from(probe.period_seconds) * u64::from(probe.failure_threshold)
        });
        let timeout = self.planned.timeout;
        let whole = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        let failures = whole.saturating_add(LATER).saturating_add(allowed).min(i32::MAX as u64);
        let grace = self.spec.pointer("/startupProbe/terminationGracePeriodSeconds").filter(|grace| grace.is_u64());
        without_nulls(&json!({
            "exec": {"command": line.words()},
            "periodSeconds": 1,
            "failureThreshold": failures,
            "timeoutSeconds": limit,
            "terminationGracePeriodSeconds": grace,
        }))
    }

    /// Its `exec` probes, which only the agent can run for the sidecar.
    fn commands(&self, line: &mut Line) {
        let commands: Vec<&Probe> = self.told.probes().filter(|probe| probe.is_exec()).collect();
        let mut urls: Vec<String> =
            commands.iter().filter_map(|probe| checks::of(self.told, probe).url(false)).collect();
        urls.dedup();
        for url in urls {
            line.flag("--check", url);
        }
        // The agent's own limit is 5 s.
        if let Some(longest) = commands.iter().map(|probe| probe.timeout_seconds).max().filter(|seconds| *seconds > 5) {
            line.flag("--check-timeout", format!("{longest}s"));
        }
    }

    /// Where its last words go, if not where they always do.
    fn last_words(&self, line: &mut Line) {
        let path = self.spec.get("terminationMessagePath").and_then(Value::as_str);
        if let Some(path) = path.filter(|path| !path.is_empty() && *path != names::TERMINATION_LOG) {
            line.flag("--termination-log", path);
        }
    }
}
