//! The log of one incarnation of a container: events of the test server and messages of podgate.

use crate::cluster::try_kubectl;
use crate::scene::FollowedPod;
use serde_json::Value;

/// One line that the test server logged.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) ms: f64,
    pub(crate) detail: String,
}

/// The log of one incarnation of a container.
#[derive(Debug, Clone)]
pub(crate) struct IncarnationLog {
    pub(crate) name: String,
    /// Number of the incarnation, or 0 if the number is unknown.
    pub(crate) attempt: u32,
    pub(crate) events: Vec<Event>,
    /// JSON lines that podgate's hook or gate logged.
    podgate_lines: Vec<Value>,
    /// End time in milliseconds since 1970, if known.
    pub(crate) end: Option<f64>,
}

impl IncarnationLog {
    pub(crate) fn fetch(namespace: &str, pod: &str, container: &str, previous: bool) -> IncarnationLog {
        let mut arguments = vec!["-n", namespace, "logs", pod, "-c", container];
        if previous {
            arguments.push("--previous");
        }
        let log = try_kubectl(&arguments).unwrap_or_default();
        let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        IncarnationLog::parse(container, 0, &lines)
    }

    /// Builds a log from the JSON lines of one incarnation.
    pub(crate) fn parse(name: &str, attempt: u32, lines: &[Value]) -> IncarnationLog {
        let podgate_lines = lines.iter().filter(|line| line["msg"].is_string()).cloned().collect();
        let events = lines.iter().filter_map(|value| {
            let event = value["event"].as_str()?.to_owned();
            Some(Event {
                name: event,
                ms: value["ms"].as_f64()?,
                detail: value["detail"].as_str().unwrap_or("").to_owned(),
            })
        });
        let mut life =
            IncarnationLog { name: name.to_owned(), attempt, events: events.collect(), podgate_lines, end: None };
        life.end = life.time_of("exit");
        life
    }

    pub(crate) fn time_of(&self, event: &str) -> Option<f64> {
        self.events.iter().find(|e| e.name == event).map(|e| e.ms)
    }

    /// Returns the time of the first `event`. Panics if the log has no such event.
    pub(crate) fn expect_time_of(&self, event: &str) -> f64 {
        self.time_of(event).unwrap_or_else(|| panic!("{} never logged {event:?}: {:?}", self.name, self.events))
    }

    /// Returns podgate's last message, which explains why the hook or gate released its container or failed.
    pub(crate) fn last_message(&self) -> &str {
        self.podgate_lines.last().and_then(|line| line["msg"].as_str()).unwrap_or("(nothing)")
    }

    /// Returns the waiting time that the hook logged with its last message, in milliseconds.
    pub(crate) fn waited_ms(&self) -> Option<u64> {
        let waited = &self.podgate_lines.last()?["waited_ms"];
        waited.as_u64().or_else(|| waited.as_str()?.parse().ok())
    }

    /// Returns all messages that podgate logged in this container.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &str> {
        self.podgate_lines.iter().filter_map(|line| line["msg"].as_str())
    }

    /// Asserts that the program ended by itself within the grace period, and that no hook of the container used up its
    /// time limit.
    pub(crate) fn assert_ended_in_time(&self) {
        assert!(self.time_of("exit").is_some(), "{} was killed: {self:?}", self.name);
        assert!(!self.timed_out(), "{}: a hook timed out: {self:?}", self.name);
    }

    /// Returns true if a hook or gate of podgate has used up its time limit.
    pub(crate) fn timed_out(&self) -> bool {
        self.messages().any(|line| line.contains("timed out after"))
    }

    pub(crate) fn start_time(&self) -> f64 {
        self.expect_time_of("start")
    }

    pub(crate) fn ready_time(&self) -> f64 {
        self.expect_time_of("ready")
    }
}

/// Asserts that each container in `names` started only after the previous container was ready. Returns the logs of the
/// containers.
pub(crate) fn assert_order(run: &FollowedPod, names: &[&str]) -> Vec<IncarnationLog> {
    let lives: Vec<IncarnationLog> = names.iter().map(|name| run.log(name)).collect();
    for pair in lives.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let early = before.ready_time() - after.start_time();
        assert!(
            early <= 0.0,
            "order broken: {} started {early:.1} ms before {} was ready: {lives:?}",
            after.name,
            before.name
        );
    }
    lives
}

/// Formats one line with the times at which each container started and became ready, in seconds after the first start.
pub(crate) fn summary(lives: &[IncarnationLog]) -> String {
    let Some(zero) = lives.first().and_then(|life| life.time_of("start")) else { return "no starts".to_owned() };
    let at = |ms: f64| format!("{:+.2}", (ms - zero) / 1000.0);
    let life = |life: &IncarnationLog| {
        let start = life.time_of("start").map_or("never".to_owned(), at);
        let ready = life.time_of("ready").map_or("never".to_owned(), at);
        format!("{} {start} ready {ready}", life.name)
    };
    lives.iter().map(life).collect::<Vec<_>>().join(" | ")
}
