//! The main loop: starts the sidecar and the containers, follows them, and stops them in order.

use super::board::BoardReader;
use super::history::{ContainerHistory, Incarnation, SIGKILL_EXIT_CODE};
use super::run_plan::{self, RunPlan};
use super::screen::{self, RunResult, Screen};
use super::setup::{self, Programs};
use super::stand_in::{CRASH_EXIT_CODE, StandInEvent};
use super::supervisor::{Message, SupervisedContainer};
use super::{now_ms, source};
use crate::clock::now;
use crate::error::CommandResult;
use crate::try_run::{Fault, FaultKind, TryArgs};
use podgate::core::state::State;
use podgate::order::declare::spec::SIDECAR_NAME;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Interval at which the main loop looks at processes and the board.
const TICK: Duration = Duration::from_millis(4);
/// Time limit for the sidecar's exit, after all containers have stopped.
const SIDECAR_GRACE: Duration = Duration::from_secs(5);
/// Shortest run of a container before its stop, in milliseconds. The sidecar ignores a tether that is released earlier,
/// because a program may close inherited descriptors at its start.
const LINGER_MS: i64 = 2100;
/// Maximum number of messages that wait for the main loop. The main loop handles at most this many at once.
const MESSAGES_MAX: usize = 256;

pub(crate) fn run(args: &TryArgs) -> CommandResult {
    let programs = Programs::find()?;
    let planned = source::read(args)?;
    planned.check_flags(args)?;
    let (sender, messages) = sync_channel(MESSAGES_MAX);
    let interrupts = sender.clone();
    setup::on_interrupt(move || interrupts.send(Message::Interrupt).is_ok());
    let scratch = setup::create_directory()?;
    let plan = run_plan::build(args, &planned, &programs, scratch.path())?;
    let mut run = Run::new(args, &plan, &sender);
    run.screen.announce(&plan)?;
    let followed = run.follow(&messages);
    // Kill the processes first, because a script can read the verdict and end this process at once.
    run.containers.iter_mut().for_each(SupervisedContainer::kill_and_wait);
    drop(scratch);
    run.screen.print(i64::MAX, None)?;
    followed?;
    run.result.stopped = run.histories();
    screen::print_result(args, run.result)
}

/// A fault of `--break`.
struct PendingFault<'a> {
    fault: &'a Fault,
    container: usize,
    /// Index of the run that was killed for this fault.
    killed: Option<usize>,
}

enum Phase {
    /// The sidecar sets up the board.
    Boot,
    Run,
    /// The containers run until this time, then stop.
    Linger(Instant),
    Stop,
    StopSidecar,
}

struct Run<'a> {
    args: &'a TryArgs,
    plan: &'a RunPlan,
    /// The sidecar, followed by the containers.
    containers: Vec<SupervisedContainer>,
    board: BoardReader,
    screen: Screen<'a>,
    phase: Phase,
    start: Instant,
    faults: Vec<PendingFault<'a>>,
    is_interrupted: bool,
    result: RunResult<'a>,
}

impl<'a> Run<'a> {
    fn new(args: &'a TryArgs, plan: &'a RunPlan, sender: &SyncSender<Message>) -> Run<'a> {
        let (zero, now) = (now_ms(), now());
        let supervise = |task: &run_plan::ContainerTask| SupervisedContainer::new(task.clone(), sender.clone());
        let mut containers: Vec<SupervisedContainer> = plan.tasks.iter().map(supervise).collect();
        containers[0].start_at = Some(now);
        // A name that no container has means the sidecar.
        let index = |name: &str| plan.tasks.iter().position(|task| task.name == name).unwrap_or_default();
        let faults = args.faults.iter();
        let faults = faults.map(|fault| PendingFault { fault, container: index(&fault.container), killed: None });
        Run {
            args,
            plan,
            containers,
            board: BoardReader::default(),
            screen: Screen::new(args, zero, plan.tasks.iter().map(|task| task.name.len()).max().unwrap_or_default()),
            phase: Phase::Boot,
            start: now,
            faults: faults.collect(),
            is_interrupted: false,
            result: RunResult { title: &plan.title, zero, judged_at: zero, stopped_at: zero, ..RunResult::default() },
        }
    }

    /// Runs until all processes have stopped, or until a second signal.
    fn follow(&mut self, messages: &Receiver<Message>) -> CommandResult<()> {
        loop {
            let first = messages.recv_timeout(TICK).ok();
            let received: Vec<Message> = first.into_iter().chain(messages.try_iter().take(MESSAGES_MAX)).collect();
            let now = now();
            self.poll_processes(now)?;
            // Show the board's changes before the received messages, because a gate opens on the board before a message
            // can report the container's start.
            self.read_board()?;
            for message in received {
                if matches!(message, Message::Interrupt) && std::mem::replace(&mut self.is_interrupted, true) {
                    return Ok(());
                }
                self.on_message(message);
            }
            self.cause_faults(now);
            if self.advance(now)? {
                return Ok(());
            }
            let until = now_ms() - screen::PRINT_DELAY_MS;
            let draw = || screen::live_chart(self.result.title, &self.histories(), self.result.zero);
            self.screen.print(until, self.screen.needs_redraw(until).then(draw).as_deref())?;
        }
    }

    fn histories(&self) -> Vec<ContainerHistory> {
        self.containers.iter().map(|own| own.history.clone()).collect()
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Log { name, line } => self.screen.add_log_line(&name, &line),
            Message::StandIn { name, run, event, at } => {
                // An event can occur before the verdict, although this thread reads the event's line only after the
                // verdict, for example on a busy machine. Add such an event to the verdict too.
                let judged = self.result.at_stop.iter_mut().filter(|_| at <= self.result.judged_at);
                let live = self.containers.iter_mut().map(|own| &mut own.history);
                for own in judged.chain(live).filter(|own| own.task.name == name) {
                    own.on_event(run, event, at);
                }
                if event == StandInEvent::Starts
                    && let Some(own) = self.containers.iter().find(|own| own.history.task.name == name)
                {
                    let what = if own.history.task.has_probe { "started" } else { "started, Ready (no probe)" };
                    let started = own.history.runs.get(run).and_then(|run| run.started);
                    self.screen.add_event(started.unwrap_or(at), &name, what);
                }
            }
            Message::Interrupt => {
                let what = "Ctrl-C or a signal: stopping in order; a second signal stops at once";
                self.screen.add_event(now_ms(), "", what);
                self.judge(now());
            }
        }
    }

    fn poll_processes(&mut self, now: Instant) -> CommandResult<()> {
        let at = now_ms();
        // If several containers have ended since the last poll, list their ends in the usual stop order.
        for own in self.containers.iter_mut().rev() {
            for event in own.poll(now, at)? {
                self.screen.add_event(at, &own.history.task.name, &event);
            }
        }
        // A killed sidecar starts again.
        let has_failed = |run: &Incarnation| run.ended.is_some_and(|(_, code)| code != SIGKILL_EXIT_CODE);
        if matches!(self.phase, Phase::Boot) && self.containers[0].history.runs.last().is_some_and(has_failed) {
            return Err("podgate's sidecar ended before it was ready; see its log above".into());
        }
        Ok(())
    }

    fn read_board(&mut self) -> CommandResult<()> {
        let epoch = self.board.epoch.clone();
        let changes = self.board.changes(&self.plan.board, now_ms());
        if self.board.epoch != epoch
            && let Some(run) = self.containers[0].history.runs.last_mut()
        {
            run.started = Some(now_ms());
            self.screen.add_event(now_ms(), SIDECAR_NAME, "started");
            self.containers[0].start_hook(&self.plan.sidecar_hook)?;
        }
        for (name, state, at) in changes {
            let Some(own) = self.containers.iter_mut().find(|own| own.history.task.name == name) else { continue };
            let run = own.history.runs.last_mut().filter(|run| run.created <= at && run.ended.is_none());
            match (state, run) {
                (State::Ready, Some(run)) => {
                    run.ready.get_or_insert(at);
                    if !own.history.task.has_probe {
                        // Without a probe, podgate counts the gate's opening as Ready, just before the command's start.
                        run.started = run.started.map(|started| started.min(at));
                        continue;
                    }
                    self.screen.add_event(at, &name, "Ready");
                }
                (State::NotReady, _) => self.screen.add_event(at, &name, "not Ready"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Kills the containers whose faults are due. A fault is due only while its container runs. Only one fault can kill
    /// a run. After the verdict, no fault is due, because the verdict would not show the fault's effect.
    fn cause_faults(&mut self, now: Instant) {
        for at in 0..self.faults.len() {
            let PendingFault { fault, container, killed } = self.faults[at];
            let own = &mut self.containers[container];
            let Some(child) = &mut own.child else { continue };
            let is_running = matches!(child.try_wait(), Ok(None));
            let last = own.history.runs.len().checked_sub(1);
            let is_due = matches!(fault.kind, FaultKind::Kill(after) if self.start + after <= now);
            let is_taken = self.faults.iter().any(|other| other.container == container && other.killed == last);
            if is_running && killed.is_none() && is_due && !is_taken && matches!(self.phase, Phase::Boot | Phase::Run) {
                let _ = child.kill();
                self.screen.add_event(now_ms(), &own.history.task.name, "is killed (--break)");
                self.faults[at].killed = last;
            }
        }
    }

    /// Moves to the next phase if it is due. Returns true after the last phase.
    fn advance(&mut self, now: Instant) -> CommandResult<bool> {
        let deadline = self.start + self.args.timeout;
        let is_open = now < deadline && !self.is_interrupted && !self.is_settled();
        match self.phase {
            Phase::Boot if self.containers[0].history.has_reached_goal() => {
                self.phase = Phase::Run;
                self.containers[1..].iter_mut().for_each(|own| own.start_at = Some(now));
            }
            Phase::Boot if now >= deadline => self.judge(now),
            Phase::Run if !is_open => self.judge(now),
            // A container has ended or was killed after the verdict, so the run is not settled: go back to `Run`.
            Phase::Linger(_) if is_open => self.phase = Phase::Run,
            // The last log lines may not have been read yet, so wait a moment.
            Phase::Linger(_) if !(self.args.stop || self.is_interrupted) => {
                return Ok(now_ms() - self.result.judged_at > 100);
            }
            Phase::Linger(until) if now >= until => {
                self.result.stopped_at = now_ms();
                self.phase = Phase::Stop;
                self.screen.add_event(self.result.stopped_at, "", "the Pod stops");
                for own in &mut self.containers[1..] {
                    own.begin_stop(now + self.plan.grace)?;
                }
            }
            Phase::Stop if self.containers[1..].iter().all(SupervisedContainer::is_over) => {
                self.phase = Phase::StopSidecar;
                self.containers[0].begin_stop(now + SIDECAR_GRACE)?;
            }
            Phase::StopSidecar => return Ok(self.containers[0].is_over()),
            Phase::Boot | Phase::Run | Phase::Linger(_) | Phase::Stop => {}
        }
        Ok(false)
    }

    /// Returns true if the run is ready for the verdict: each crash and kill has occurred, and each container has
    /// settled. Containers that will not run again, and their faults, do not count.
    fn is_settled(&self) -> bool {
        let is_resolved = |one: &PendingFault<'_>| {
            let own = &self.containers[one.container];
            let mut ends = own.history.runs.iter().map(|run| run.ended);
            own.is_over()
                || match one.fault.kind {
                    FaultKind::Never | FaultKind::IgnoresTerm => true,
                    FaultKind::Crash(_) => ends.flatten().any(|(_, code)| code == CRASH_EXIT_CODE),
                    FaultKind::Kill(_) => one.killed.and_then(|run| ends.nth(run)).is_some_and(|end| end.is_some()),
                }
        };
        self.faults.iter().all(is_resolved)
            && self.containers.iter().all(|own| own.is_over() || own.history.has_settled_at_goal(now_ms()))
    }

    /// Stores the histories for the verdict and enters the phase `Linger`. Later events do not change the stored ones.
    fn judge(&mut self, now: Instant) {
        if !matches!(self.phase, Phase::Boot | Phase::Run) {
            return;
        }
        (self.result.judged_at, self.result.stopped_at) = (now_ms(), now_ms());
        self.result.at_stop = self.histories();
        let starts = self.result.at_stop[1..].iter().filter_map(|own| own.runs.last()?.started);
        let age = self.result.judged_at - starts.max().unwrap_or_default();
        let rest = u64::try_from(LINGER_MS - age).unwrap_or_default();
        self.phase = Phase::Linger(now + Duration::from_millis(rest));
    }
}
