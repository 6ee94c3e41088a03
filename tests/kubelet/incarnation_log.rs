//! What the programs in the containers said, and when.

use crate::cluster::try_kubectl;
use crate::scene::FollowedPod;
use serde_json::Value;

/// One line of a test server.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) ms: f64,
    pub(crate) detail: String,
}

/// The life of one container's current (or previous) incarnation.
#[derive(Debug, Clone)]
pub(crate) struct IncarnationLog {
    pub(crate) name: String,
    /// Which incarnation, where that is known; else 0.
    pub(crate) attempt: u32,
    pub(crate) events: Vec<Event>,
    /// What podgate's hook or gate logged, as JSON.
    podgate_lines: Vec<Value>,
    /// When it ended, as far as that is known.
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

    /// From the lines of one incarnation's log that are JSON.
    pub(crate) fn parse(name: &str, attempt: u32, lines: &[Value]) -> IncarnationLog {
        let hook = lines.iter().filter(|line| line["msg"].is_string()).cloned().collect();
        let events = lines.iter().filter_map(|value| {
            let event = value["event"].as_str()?.to_owned();
            Some(Event {
                name: event,
                ms: value["ms"].as_f64()?,
                detail: value["detail"].as_str().unwrap_or("").to_owned(),
            })
        });
        let mut life =
            IncarnationLog { name: name.to_owned(), attempt, events: events.collect(), podgate_lines: hook, end: None };
        life.end = life.time_of("exit");
        life
    }

    pub(crate) fn time_of(&self, event: &str) -> Option<f64> {
        self.events.iter().find(|e| e.name == event).map(|e| e.ms)
    }

    /// When it said `name` first.
    pub(crate) fn expect_time_of(&self, event: &str) -> f64 {
        self.time_of(event).unwrap_or_else(|| panic!("{} never said {event:?}: {:?}", self.name, self.events))
    }

    /// What the hook said at its end: why it let go or failed.
    pub(crate) fn last_message(&self) -> &str {
        self.podgate_lines.last().and_then(|line| line["msg"].as_str()).unwrap_or("(nothing)")
    }

    /// The time limit that matters: how long the hook waited before it let go, by its own word.
    pub(crate) fn waited_ms(&self) -> Option<u64> {
        let waited = &self.podgate_lines.last()?["waited_ms"];
        waited.as_u64().or_else(|| waited.as_str()?.parse().ok())
    }

    /// All that podgate said in this container.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &str> {
        self.podgate_lines.iter().filter_map(|line| line["msg"].as_str())
    }

    pub(crate) fn start_time(&self) -> f64 {
        self.expect_time_of("start")
    }

    pub(crate) fn ready_time(&self) -> f64 {
        self.expect_time_of("ready")
    }
}

/// Asserts that each of `names` started only when the one before it was ready, and gives their lives.
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

/// One line: when each started and became ready, in seconds from the first start.
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
