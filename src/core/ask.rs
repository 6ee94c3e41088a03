//! `NAME [after=NAME,…] [SETTING=NUMBER…] CHECK`: a probe of a predecessor, which a gate without a sidecar runs itself.
//! The settings have the names of the Pod API: `db initialDelaySeconds=5 http://:8080/ready`.

use crate::core::argv::{Check, ParseError};
use crate::core::checks::equivalent_check;
use crate::core::container::{Container, Handler, Probe};
use crate::core::names;
use crate::core::quit::is_local;
use crate::core::until::{WaitCondition, WantedState};
use std::fmt;
use std::str::FromStr;

/// One probe of a predecessor. A container with two probes has two: its startupProbe, then its readinessProbe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedProbe {
    /// Name of the container.
    pub container: String,
    /// Containers that must be Ready before this container starts. The gate asks this container only then.
    pub after: Vec<String>,
    /// The probe to run.
    pub probe: Probe,
    check: Check,
}

impl AskedProbe {
    /// Returns the probes of `container`, which waits for the containers in `container.until`. `None` if a gate cannot
    /// run one of the probes: it needs TLS, gRPC or a command, or its port is unknown.
    pub fn of(container: &Container) -> Option<Vec<AskedProbe>> {
        let ask = |probe: &Probe| {
            let check = equivalent_check(container, probe).filter(Check::is_network)?;
            let after = container.until.iter().map(|until| until.container.clone()).collect();
            Some(AskedProbe { container: container.name.clone(), after, probe: probe.clone(), check })
        };
        container.probes().map(ask).collect()
    }

    /// Adds this probe to `containers`.
    pub fn add_to(self, containers: &mut Vec<Container>) {
        if let Some(known) = containers.iter_mut().find(|one| one.name == self.container) {
            known.startup_probe = known.readiness_probe.replace(self.probe);
            return;
        }
        let until = |container| WaitCondition { container, want: WantedState::Ready };
        containers.push(Container {
            name: self.container,
            until: self.after.into_iter().map(until).collect(),
            readiness_probe: Some(self.probe),
            ..Container::default()
        });
    }
}

const FORM: &str = "write NAME http://:PORT/PATH or NAME tcp://:PORT";

impl FromStr for AskedProbe {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<AskedProbe, ParseError> {
        let (name, mut rest) = text.split_once(' ').ok_or(FORM)?;
        if !names::is_container_name(name) {
            return Err(format!("{name:?} is not a container name; {FORM}").into());
        }
        let mut after = Vec::new();
        let mut numbers = [0, 1, 10, 1];
        while let Some((word, next)) = rest.split_once(' ').filter(|(word, _)| !word.contains("://")) {
            rest = next;
            let (setting, value) = word.split_once('=').ok_or(FORM)?;
            let place = SETTINGS.iter().position(|known| *known == setting);
            match (place, value.parse()) {
                (Some(at), Ok(number)) => numbers[at] = number,
                _ if setting == "after" => after.extend(value.split(',').map(str::to_owned)),
                _ => return Err(format!("{word:?} is not a setting of a probe; {FORM}").into()),
            }
        }
        let check: Check = rest.parse()?;
        let handler = Handler::from_check(check.clone()).filter(|_| check.is_network()).ok_or(FORM)?;
        if !is_local(handler.host()) {
            return Err(format!("{rest} is not in this Pod; {FORM}").into());
        }
        let [initial_delay_seconds, timeout_seconds, period_seconds, success_threshold] = numbers;
        let probe = Probe {
            handler,
            initial_delay_seconds,
            timeout_seconds,
            period_seconds,
            success_threshold,
            failure_threshold: 3,
        };
        Ok(AskedProbe { container: name.to_owned(), after, probe, check })
    }
}

/// Settings of a probe, with the names of the Pod API. One failure makes a container pending again, so there is no
/// `failureThreshold`.
const SETTINGS: [&str; 4] = ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold"];

impl fmt::Display for AskedProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.container)?;
        if !self.after.is_empty() {
            write!(f, " after={}", self.after.join(","))?;
        }
        let Probe { initial_delay_seconds, timeout_seconds, period_seconds, success_threshold, .. } = self.probe;
        let numbers = [initial_delay_seconds, timeout_seconds, period_seconds, success_threshold];
        for ((setting, number), default) in SETTINGS.iter().zip(numbers).zip([0, 1, 10, 1]) {
            if number != default {
                write!(f, " {setting}={number}")?;
            }
        }
        write!(f, " {}", self.check)
    }
}
