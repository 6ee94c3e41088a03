//! The wait loop: read the sources, decide, sleep until something may have changed.

use crate::args::WaitArgs;
use crate::check::Checks;
use crate::clock::now;
use crate::common::messenger::Messenger;
use crate::common::report::Reporter;
use crate::failure::Failure;
use crate::pod_sources::PodSources;
use crate::predecessors::Predecessors;
use crate::signals;
use podgate::core::exit::Exit;
use podgate::core::gate::{
    self, Decision, GateKind, GateSpec, Observations, OnTimeout, SIDECAR_START_TIMEOUT, SidecarHealth,
};
use podgate::core::names;
use podgate::core::until::WaitCondition;
use podgate::edge::lock;
use podgate::edge::sys::SignalFd;
use podgate::edge::watch::{REREAD_INTERVAL_MIN, Watch};
use rustix::event::{PollFd, PollFlags};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Delay between a change of the reasons for waiting and the message about that change. In a long chain, each start
/// changes the reasons of all later gates. The messages of these gates must not delay the next start.
const MESSAGE_DELAY: Duration = Duration::from_millis(500);

pub(crate) struct Wait<'a> {
    pub(crate) kind: GateKind<'a>,
    pub(crate) conditions: &'a [WaitCondition],
    pub(crate) args: &'a WaitArgs,
    pub(crate) sources: &'a PodSources,
    /// Signals that end the wait.
    pub(crate) signals: Option<&'a SignalFd>,
    pub(crate) since: Instant,
}

impl Wait<'_> {
    /// Waits until the gate opens. Publishes the reasons for waiting whenever they change.
    ///
    /// With `predecessors`, the Pod has no sidecar: the gate asks these containers itself, and reads no board.
    pub(crate) fn run(
        &self,
        mut predecessors: Option<Predecessors>,
        mut checks: Checks,
        mut fallback: Checks,
        reporter: &mut Reporter,
        messenger: &Messenger,
    ) -> Result<(), Failure> {
        let WaitArgs { timeout, fail_fast, on_timeout, .. } = *self.args;
        let spec = GateSpec { kind: self.kind, conditions: self.conditions, fail_fast, on_timeout };
        let deadline = self.since + timeout;
        let mut watch = if predecessors.is_some() { Watch::of_nothing() } else { self.sources.watch() };
        let mut method = None;
        let mut reason = Vec::new();
        let mut message_due: Option<Instant> = None;
        let mut late = Duration::ZERO;
        loop {
            let mut at = now();
            let view = if let Some(asked) = &mut predecessors {
                asked.run_due(at, late);
                asked.view()
            } else {
                let view = watch.read(|| self.sources.view());
                reporter.set_epoch(&view);
                if method.replace(watch.method) != Some(watch.method) {
                    info!(by = watch.method.as_str(), "waiting");
                }
                at = now();
                view
            };
            checks.run_due(at, &|| view.pod_ip());
            let dead = predecessors.is_none() && self.is_sidecar_dead(&watch, at);
            let sidecar = if dead {
                fallback.run_due(at, &|| view.pod_ip());
                match fallback.describe_pending().pop() {
                    _ if fallback.is_empty() => SidecarHealth::Dead,
                    Some(why) => SidecarHealth::FallbackFailed(why),
                    None => SidecarHealth::FallbackPassed,
                }
            } else {
                fallback.abort_running();
                SidecarHealth::Alive
            };
            let pending_probes = predecessors.iter().flat_map(Predecessors::describe_pending_probes);
            let observed = Observations {
                pending_checks: pending_probes.chain(checks.describe_pending()).collect(),
                impossible_check: checks.impossible_reason(),
                sidecar,
                waited: at.saturating_duration_since(self.since),
            };
            match gate::decide(&view, &spec, &observed) {
                Decision::Open(opening) => {
                    let waited = now().saturating_duration_since(self.since);
                    info!(waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX), "released: {opening}");
                    return Ok(());
                }
                Decision::GiveUp(exit, why) => return Err(Failure::new(exit, why)),
                Decision::Closed(mut obstacles) => {
                    // Report only while waiting: a restarted container that is released at once must not wake an idle
                    // sidecar.
                    if predecessors.is_none() && view.chosen_snapshot().is_some() {
                        reporter.refresh(&view, !checks.is_empty() && observed.pending_checks.is_empty());
                        let failed = reporter.error.as_ref();
                        obstacles.extend(failed.map(|error| format!("cannot report to the sidecar ({error})")));
                    }
                    if obstacles != reason {
                        let delay = if reason.is_empty() { Duration::ZERO } else { MESSAGE_DELAY };
                        message_due.get_or_insert(at + delay);
                        reason = obstacles;
                    }
                    if message_due.take_if(|due| *due <= at).is_some() {
                        messenger.publish_wait(&reason);
                    }
                }
            }
            // Read the clock again, because checks take time.
            let at = now();
            let left = deadline.saturating_duration_since(at);
            if left.is_zero() {
                let limit = humantime::format_duration(timeout);
                let why = gate::timeout_reason(&limit.to_string(), &reason, &view, self.conditions);
                if on_timeout == OnTimeout::Continue {
                    warn!("{why}; continuing (--on-timeout=continue)");
                    return Ok(());
                }
                return Err(Failure::new(Exit::TimedOut, format!("{why}; see kubectl podgate status POD")));
            }
            // The release of a dead sidecar's lock causes no event, so read again later.
            let reread = (predecessors.is_none() && !watch.has_live_bell()).then(|| at + REREAD_INTERVAL_MIN);
            let fallback_due = fallback.next_due().filter(|_| dead);
            let asked_due = predecessors.as_ref().and_then(|asked| asked.due);
            let next = [checks.next_due(), fallback_due, message_due, reread, asked_due].into_iter().flatten().min();
            let pause = next.map_or(left, |due| due.saturating_duration_since(at).min(left));
            let signals = self.signals.map(|signals| PollFd::new(signals, PollFlags::IN));
            let others = checks.poll_fds().chain(fallback.poll_fds()).chain(signals);
            let others = others.chain(predecessors.iter().flat_map(Predecessors::poll_fds));
            watch.wait(pause, others.collect()).map_err(Failure::setup_error("cannot wait"))?;
            // Measure from the start of the pause, so that the time does not include the gate's own work.
            if !pause.is_zero() {
                late = now().saturating_duration_since(at + pause);
            }
            if let Some(signal) = self.signals.and_then(SignalFd::next_signal) {
                let received = format!("{} while waiting; the command was not run", signals::name(signal));
                return Err(Failure::by_signal(signal, &received));
            }
        }
    }

    /// Returns true if no sidecar holds the lock on the board. In the first [`SIDECAR_START_TIMEOUT`] of the wait, the
    /// sidecar also counts as alive if its bell is live or missing.
    fn is_sidecar_dead(&self, watch: &Watch, now: Instant) -> bool {
        if watch.has_live_bell() && now < self.since + SIDECAR_START_TIMEOUT {
            return false;
        }
        if !watch.has_any_bell() && (now < self.since + SIDECAR_START_TIMEOUT || !self.sources.board.is_dir()) {
            return false;
        }
        matches!(lock::is_taken(&self.sources.board.join(names::CONTROLLER_LOCK_FILE)), Ok(false))
    }
}
