//! Settings of podgate's programs in a Pod, such as `log=debug, metrics=9090`.

use std::collections::BTreeMap;
use std::time::Duration;

/// Each setting: its name, the sidecar's flag, and a description of its values.
const SETTINGS: [(&str, &str, &str); 4] = [
    ("log", "--log-level", "error, warn, info, debug or trace"),
    ("log-format", "--log-format", "text or json"),
    ("metrics", "--metrics-addr", "a port such as 9090"),
    ("probe-floor", "--probe-floor", "a duration such as 500ms, at most 1m"),
];

/// Name of the setting for the port on which the sidecar serves metrics.
pub(crate) const METRICS_SETTING: &str = "metrics";

/// Values of the sidecar's flags, by the name of the setting. A setting that is absent has the program's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SidecarSettings(pub(crate) BTreeMap<&'static str, String>);

impl SidecarSettings {
    /// Returns the sidecar's arguments.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let flags = SETTINGS.iter().filter_map(|(name, flag, _)| Some([(*flag).to_owned(), self.0.get(name)?.clone()]));
        flags.flatten().collect()
    }

    /// Returns the port on which the sidecar serves metrics.
    pub(crate) fn metrics_port(&self) -> Option<u16> {
        self.0.get(METRICS_SETTING)?.strip_prefix(':')?.parse().ok()
    }

    /// Returns the log level of the sidecar and of the agents.
    pub(crate) fn log_level(&self) -> Option<&str> {
        self.0.get("log").map(String::as_str)
    }
}

/// Parses settings that are separated by commas. On failure, returns the reason why a setting is not valid.
pub fn parse(text: &str) -> Result<SidecarSettings, String> {
    let mut settings = SidecarSettings::default();
    for item in text.split(',') {
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        let (name, value) = (name.trim(), value.trim());
        let Some((name, _, expected)) = SETTINGS.iter().find(|(known, ..)| *known == name) else {
            return Err(format!("{name:?} is not one of {}", SETTINGS.map(|(known, ..)| known).join(", ")));
        };
        let is_valid = match *name {
            "log" => ["error", "warn", "info", "debug", "trace"].contains(&value),
            "log-format" => ["text", "json"].contains(&value),
            METRICS_SETTING => value.parse::<u16>().is_ok_and(|port| port > 0),
            _ => humantime::parse_duration(value).is_ok_and(|floor| floor <= Duration::from_secs(60)),
        };
        if !is_valid {
            return Err(format!("{name} needs {expected}, not {value:?}"));
        }
        // The sidecar listens on all addresses of the Pod.
        let value = if *name == METRICS_SETTING { format!(":{value}") } else { value.to_owned() };
        if settings.0.insert(name, value).is_some() {
            return Err(format!("{name} is set twice"));
        }
    }
    Ok(settings)
}
