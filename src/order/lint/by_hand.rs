//! A manifest that declares nothing, and has podgate's commands written out.

use super::document::nothing_declared;
use crate::core::agent_line::{runs, values};
use crate::core::container::{Container, Mode};
use crate::core::containers::{self, Broken};
use crate::core::names;
use crate::core::until::Until;
use crate::order::declare::spec::{Own, Spec};
use crate::order::finding::Finding;
use serde_json::Value;

/// What the agent takes for a preStop hook's `--grace` where nothing is said, in seconds.
const GRACE: u64 = 25;

/// What there is to say of a template that declares nothing.
#[must_use]
pub fn by_hand(template: &Value) -> Vec<Finding> {
    let spec = Spec::read(template, &mut Vec::new());
    let mut findings: Vec<Finding> = nothing_declared(template).into_iter().collect();
    let lines: Vec<Lines> = spec.containers.iter().map(Lines::of).collect();
    if lines.iter().all(Lines::is_empty) {
        return findings;
    }
    let grace = spec.value.get("terminationGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(30);
    for (own, lines) in spec.containers.iter().zip(&lines) {
        lines.check(own, &spec, grace, &mut findings);
    }
    let told: Vec<Container> = spec.containers.iter().zip(&lines).map(|(own, lines)| lines.told(own)).collect();
    if let Err(broken) = containers::check(&told) {
        let at = match &broken {
            Broken::GateBeforeHook { hook, .. } => hook,
            Broken::Cycle(names) => &names[0],
        };
        let at = spec.get(at).map(Own::place).unwrap_or_default();
        findings.push(Finding::error("order-broken", at, broken.to_string()));
    }
    findings
}

/// The commands of podgate's in one container.
#[derive(Debug)]
struct Lines {
    gate: Option<Vec<String>>,
    post_start: Option<Vec<String>>,
    pre_stop: Option<Vec<String>>,
}

impl Lines {
    fn of(own: &Own<'_>) -> Lines {
        let hook = |name: &str| -> Option<Vec<String>> {
            let command = own.value.get("lifecycle")?.get(name)?.get("exec")?.get("command")?.as_array()?;
            command.iter().map(|word| word.as_str().map(str::to_owned)).collect()
        };
        let command = own
            .strings("command")
            .map(|command| command.into_iter().chain(own.strings("args").into_iter().flatten()).collect());
        Lines {
            gate: command.filter(|line: &Vec<String>| runs(line, "entrypoint")),
            post_start: hook("postStart").filter(|line| runs(line, "post-start")),
            pre_stop: hook("preStop").filter(|line| runs(line, "pre-stop")),
        }
    }

    fn is_empty(&self) -> bool {
        self.gate.is_none() && self.post_start.is_none() && self.pre_stop.is_none()
    }

    fn untils(line: &[String]) -> Vec<Until> {
        values(line, "--until")
            .iter()
            .flat_map(|list| list.split(','))
            .filter_map(|text| text.trim().parse().ok())
            .collect()
    }

    fn told(&self, own: &Own<'_>) -> Container {
        let (mode, until) = match (&self.gate, &self.post_start) {
            (Some(gate), _) => (Mode::Entrypoint, Lines::untils(gate)),
            (None, Some(hook)) => (Mode::PostStart, Lines::untils(hook)),
            (None, None) => (Mode::None, Vec::new()),
        };
        Container { name: own.name.to_owned(), mode, until, ..Container::default() }
    }

    fn check(&self, own: &Own<'_>, spec: &Spec<'_>, grace: u64, findings: &mut Vec<Finding>) {
        let hook = |name: &str| own.place().to("lifecycle").to(name).to("exec").to("command");
        let lines = [
            (&self.gate, own.place().to("command")),
            (&self.post_start, hook("postStart")),
            (&self.pre_stop, hook("preStop")),
        ];
        for (line, at) in lines {
            let Some(line) = line else { continue };
            let named = values(line, "--until").into_iter().chain(values(line, "--stop-after"));
            for name in
                named.flat_map(|list| list.split(',')).map(|text| text.trim().split('=').next().unwrap_or_default())
            {
                if names::is_container_name(name)
                    && let Some(finding) = spec.refuse(name, &at, None)
                {
                    findings.push(finding);
                }
            }
            if let Some(other) = values(line, "--container").first().filter(|name| **name != own.name) {
                let what = format!("--container is {other}, and this is {}", own.name);
                findings.push(
                    Finding::error("unknown-container", at, what).mend(format!("write --container {}", own.name)),
                );
            }
        }
        let has = |field: &str| own.value.get(field).is_some_and(|value| !value.is_null());
        if self.gate.as_ref().is_some_and(|gate| !Lines::untils(gate).is_empty())
            && has("livenessProbe")
            && !has("startupProbe")
        {
            let what = format!("{} is killed by its livenessProbe while it waits in its gate", own.name);
            let mend =
                "give it a startupProbe with podgate opened, behind which the kubelet holds the livenessProbe back";
            findings.push(Finding::warning("liveness-kills", own.place().to("livenessProbe"), what).mend(mend));
        }
        if let Some(line) = &self.pre_stop {
            let stays = values(line, "--grace").first().and_then(|text| humantime::parse_duration(text).ok());
            let stays = stays.unwrap_or(std::time::Duration::from_secs(GRACE));
            if stays >= std::time::Duration::from_secs(grace) {
                let what = format!(
                    "the preStop hook of {} stays for up to {}, and the kubelet kills after {grace}s",
                    own.name,
                    humantime::format_duration(stays)
                );
                let mend = "write a --grace that leaves the container time to end in";
                findings.push(Finding::warning("pre-stop-too-long", hook("preStop"), what).mend(mend));
            }
        }
    }
}
