//! Builds the agent's command lines for a container.

use crate::core::ask::AskedProbe;
use crate::core::checks;
use crate::core::command::AgentCommand;
use crate::core::container::{Container, Probe};
use crate::core::defaults::{CHECK_TIMEOUT, PROBE_REPEAT_LIMIT, THEN_RESERVE};
use crate::core::names;
use crate::core::until::WantedState;
use crate::order::dollars;
use crate::order::inject::by_hand::with_added_flags;
use crate::order::inject::parts::without_nulls;
use crate::order::plan::{ContainerPlan, GatePlan};
use crate::order::sidecar_settings::SidecarSettings;
use serde_json::{Value, json};
use std::time::Duration;

/// Seconds from podgate's own time limit to the kubelet's limit for a probe. Podgate thus fails first, with the reason.
const EXTRA_SECONDS: u64 = 5;
/// Time limit for the user's own postStart hook. The kubelet has none.
const OWN_HOOK_LIMIT: Duration = Duration::from_hours(24);
/// Time without a sidecar, in seconds, after which a startupProbe that needs the sidecar may fail.
const OUTAGE_SECONDS: u64 = 30;

#[derive(Debug, Clone, Copy)]
pub(super) struct CommandLines<'a> {
    pub(super) planned: &'a ContainerPlan,
    /// The container's fields, as read from the spec.
    pub(super) container: &'a Container,
    pub(super) spec: &'a Value,
    /// The container with the parts of an earlier injection, if any.
    pub(super) found: Option<&'a Value>,
    pub(super) settings: &'a SidecarSettings,
    /// The containers that the gate asks itself, if the Pod has no sidecar.
    pub(super) predecessors: Option<&'a [Container]>,
}

/// Formats a duration without spaces, such as `2m30s`, so that a shell needs no quotes.
fn compact_duration(time: Duration) -> String {
    humantime::format_duration(time).to_string().replace(' ', "")
}

impl CommandLines<'_> {
    /// Returns the gate's command line up to `--`. The container's own command follows.
    pub(super) fn gate(&self, gate: &GatePlan) -> Vec<String> {
        let ContainerPlan { name, after, stop_after, .. } = self.planned;
        let mut line = AgentCommand::new("entrypoint");
        line.add_flag("--container", name);
        let asks = self.predecessors.into_iter().flatten().filter_map(AskedProbe::of).flatten();
        line.add_flags("--ask", asks.map(|ask| dollars::escape(&ask.to_string())));
        for until in after.iter().filter(|_| self.predecessors.is_none()) {
            // Omit the state Ready, which is the agent's default.
            let is_ready = until.want == WantedState::Ready;
            line.add_flag("--until", if is_ready { until.container.clone() } else { until.to_string() });
        }
        // Escape all checks, because Kubernetes expands variables in `command`.
        line.add_flags("--check", gate.checks.iter().map(|check| dollars::escape(&check.to_string())));
        if self.planned.has_closed_gate() {
            line.add_flag("--timeout", compact_duration(self.planned.timeout));
            self.add_timeout_flags(&mut line);
        }
        if gate.needs_parent {
            line.add_flag("--tether", "parent");
            line.add_flags("--ready-check", self.ready_checks().into_iter().map(|check| dollars::escape(&check)));
            self.add_probe_times(&mut line, &self.exec_probes());
        }
        line.add_flags("--restart-with", &gate.restarts_with);
        line.add_flags("--stop-after", stop_after);
        let stop_signal = self.spec.pointer("/lifecycle/stopSignal").and_then(Value::as_str);
        line.add_flags("--stop-signal", stop_signal.filter(|_| !stop_after.is_empty()));
        self.add_message_flags(&mut line);
        let mut words = with_added_flags(line, self.found, "command");
        words.push("--".to_owned());
        words
    }

    fn add_timeout_flags(&self, line: &mut AgentCommand) {
        if self.planned.continue_on_timeout {
            line.add_flag("--on-timeout", "continue");
        }
        if self.planned.fail_fast {
            line.add_switch("--fail-fast");
        }
    }

    /// Returns the command line of the postStart hook; `then` is the user's own hook. A hook that only reports the
    /// container's start returns at once, and leaves a process that holds the tether.
    pub(super) fn post_start(&self, then: Option<String>) -> Vec<String> {
        let ContainerPlan { name, timeout, .. } = self.planned;
        let mut line = AgentCommand::new("post-start");
        line.add_flag("--container", name);
        let waits = self.planned.has_blocking_hook();
        if !waits {
            line.add_flag("--until", format!("{name}={}", WantedState::Started));
        }
        if waits || then.is_some() {
            line.add_flag("--timeout", compact_duration(if waits { *timeout } else { OWN_HOOK_LIMIT }));
        }
        if waits {
            self.add_timeout_flags(&mut line);
            line.add_flags("--check", self.ready_checks());
            self.add_probe_times(&mut line, &self.exec_probes());
            let probe = self.container.readiness_probe.as_ref().or(self.container.startup_probe.as_ref());
            let check = match &self.planned.ready {
                Some(ready) => ready.check.clone(),
                None => probe.and_then(|probe| checks::equivalent_check(self.container, probe)),
            };
            line.add_flags("--fallback-check", check.map(|check| check.to_string()));
        }
        if self.planned.hook_needs_tether() {
            line.add_switch("--tether");
        }
        self.add_message_flags(&mut line);
        line.add_flags("--then", then);
        with_added_flags(line, self.found, "postStart")
    }

    /// Returns the command line of the preStop hook, which waits for the containers in `outlives` to exit.
    /// `takes` is the duration of the command `then`, if known.
    pub(super) fn pre_stop(
        &self,
        outlives: &[String],
        then: Option<String>,
        takes: Option<Duration>,
        grace: Duration,
        logs: bool,
    ) -> Vec<String> {
        let mut line = AgentCommand::new("pre-stop");
        line.add_flag("--container", &self.planned.name);
        line.add_flags("--until", outlives);
        // Without a gate and a postStart hook, the preStop hook must take the tether.
        if self.planned.hook_needs_tether() && !self.planned.has_hook() {
            line.add_switch("--tether");
        }
        if !outlives.is_empty() || then.is_some() {
            line.add_flag("--grace", compact_duration(grace));
        }
        if logs {
            line.add_flag("--log-to", "/proc/1/fd/2");
        }
        line.add_flags("--log-level", self.settings.log_level());
        if let Some(command) = then {
            // If the command's duration is unknown, reserve at least half of `grace` for the wait.
            let kept = takes
                .map_or(THEN_RESERVE.min(grace / 2), |takes| takes.saturating_add(Duration::from_secs(1)).min(grace));
            if kept != THEN_RESERVE && !outlives.is_empty() {
                line.add_flag("--then-timeout", compact_duration(kept));
            }
            line.add_flag("--then", command);
        }
        with_added_flags(line, self.found, "preStop")
    }

    /// Returns a startupProbe that delays the kubelet's other probes until the gate has opened and the container's own
    /// startupProbe has passed.
    pub(super) fn gate_startup_probe(&self) -> Value {
        let mut line = AgentCommand::new("opened");
        line.add_switch("--wait");
        let own = self.container.startup_probe.as_ref();
        match own {
            Some(probe) if probe.is_exec() || self.predecessors.is_some() => {
                let check = checks::equivalent_check(self.container, probe);
                line.add_flags("--check", check.map(|check| dollars::escape(&check.to_string())));
                for (flag, seconds, default) in [
                    ("--check-timeout", probe.timeout_seconds, 1),
                    ("--check-delay", probe.initial_delay_seconds, 0),
                    ("--check-period", probe.period_seconds, 10),
                ] {
                    if seconds != default {
                        line.add_flag(flag, compact_duration(Duration::from_secs(seconds.into())));
                    }
                }
                if probe.failure_threshold != 3 {
                    line.add_flag("--failure-threshold", probe.failure_threshold.to_string());
                }
            }
            Some(_) => line.add_switch("--sidecar-check"),
            None => {}
        }
        let delay = self.probes_delay();
        if delay > 0 {
            line.add_flag("--container", &self.planned.name);
            line.add_flag("--initial-delay", compact_duration(Duration::from_secs(delay)));
        }
        // Podgate counts the failures. This limit is only needed if the sidecar does not come back.
        let allowed = own.map_or(0, |probe| {
            let longest = u64::from(probe.period_seconds) + u64::from(probe.timeout_seconds);
            u64::from(probe.initial_delay_seconds) + longest * u64::from(probe.failure_threshold) + OUTAGE_SECONDS
        });
        let timeout = self.planned.timeout;
        let whole = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        let limit =
            [whole, EXTRA_SECONDS, allowed, delay].into_iter().fold(0, u64::saturating_add).min(i32::MAX as u64);
        let grace = self.spec.pointer("/startupProbe/terminationGracePeriodSeconds").filter(|grace| grace.is_u64());
        without_nulls(&json!({
            "exec": {"command": with_added_flags(line, self.found, "startupProbe")},
            // The kubelet first runs the probe after one period, so use the shortest period.
            "periodSeconds": 1,
            "timeoutSeconds": limit,
            "terminationGracePeriodSeconds": grace,
            // Without a report, podgate does not know when the gate has opened, so one failure ends the container.
            "failureThreshold": self.predecessors.map(|_| 1),
        }))
    }

    /// Returns the words in front of the command of an exec readinessProbe, and the probe's time limit in seconds.
    pub(super) fn probe_prefix(&self, probe: &Probe) -> (Vec<String>, u64) {
        let mut line = AgentCommand::new("probe");
        line.add_flag("--container", &self.planned.name);
        self.add_probe_times(&mut line, &[probe]);
        let mut words = with_added_flags(line, self.found, "readinessProbe");
        words.push("--".to_owned());
        let limit =
            PROBE_REPEAT_LIMIT.as_secs() + EXTRA_SECONDS + u64::from(probe.timeout_seconds) + passing_seconds(probe);
        (words, limit.min(i32::MAX as u64))
    }

    fn exec_probes(&self) -> Vec<&Probe> {
        self.container.probes().filter(|probe| probe.is_exec() && self.planned.ready.is_none()).collect()
    }

    /// Returns the container's `exec` probes, or the check that replaces its probes, as checks. The sidecar cannot run
    /// these checks, because they only work inside the container.
    fn ready_checks(&self) -> Vec<String> {
        if let Some(check) = &self.planned.ready {
            return if check.is_network() { Vec::new() } else { vec![check.text.clone()] };
        }
        let probes = self.exec_probes().into_iter();
        let mut checks: Vec<String> =
            probes.filter_map(|probe| Some(checks::equivalent_check(self.container, probe)?.to_string())).collect();
        checks.dedup();
        checks
    }

    /// Adds the times of the `exec` probes that the agent runs.
    fn add_probe_times(&self, line: &mut AgentCommand, probes: &[&Probe]) {
        let longest = |seconds: fn(&Probe) -> u64| probes.iter().map(|probe| seconds(probe)).max().unwrap_or_default();
        let default = if line.subcommand == "probe" { 1 } else { CHECK_TIMEOUT.as_secs() };
        for (flag, seconds, default) in [
            ("--check-timeout", longest(|probe| probe.timeout_seconds.into()), default),
            ("--initial-delay", longest(|probe| probe.initial_delay_seconds.into()), 0),
            ("--passing-for", longest(passing_seconds), 0),
        ] {
            if seconds > default {
                line.add_flag(flag, compact_duration(Duration::from_secs(seconds)));
            }
        }
    }

    /// Returns the seconds from the gate's opening to the start of the kubelet's other probes. The kubelet counts
    /// `initialDelaySeconds` from the start of the gate, so the delay may be over when the gate opens.
    fn probes_delay(&self) -> u64 {
        let Some(readiness) = &self.container.readiness_probe else { return 0 };
        // If only the kubelet can detect Ready, the longer delay would make the Pod Ready too late.
        let is_reported = self.predecessors.is_none()
            && (!readiness.is_exec()
                || self.planned.ready.is_some()
                || self.planned.entrypoint_gate().is_some_and(|gate| gate.needs_parent));
        let liveness = self.spec.pointer("/livenessProbe/initialDelaySeconds").and_then(Value::as_u64);
        liveness.filter(|_| is_reported).unwrap_or_default().max(readiness.initial_delay_seconds.into())
    }

    /// Adds the log level and the container's `terminationMessagePath`, unless they are the defaults.
    fn add_message_flags(&self, line: &mut AgentCommand) {
        line.add_flags("--log-level", self.settings.log_level());
        let path = self.spec["terminationMessagePath"].as_str();
        line.add_flags("--termination-log", path.filter(|path| !path.is_empty() && *path != names::TERMINATION_LOG));
    }
}

/// Returns the time from the first of the required passes of a probe to the last, in seconds.
fn passing_seconds(probe: &Probe) -> u64 {
    u64::from(probe.success_threshold.saturating_sub(1)) * u64::from(probe.period_seconds)
}
