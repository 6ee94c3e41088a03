//! The main loop: starts the sidecar and the containers, follows them, and stops them in order.

use super::board::BoardReader;
use super::guard;
use super::history::History;
use super::programs::Programs;
use super::screen::{self, Screen};
use super::script::{self, Script};
use super::supervisor::{Message, Supervised, kill_group};
use super::{now_ms, report, source};
use crate::clock::monotonic_time;
use crate::output::fail_all;
use crate::try_run::args::{FaultKind, Try};
use podgate::core::exit::Exit;
use podgate::core::state::State;
use podgate::order::declare::spec::SIDECAR_NAME;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Interval at which the main loop looks at processes and the board.
const TICK: Duration = Duration::from_millis(4);
/// Time that the sidecar gets at the end, after all containers have stopped.
const SIDECAR_GRACE: Duration = Duration::from_secs(5);
/// Shortest run of a container before its stop, in milliseconds. The sidecar ignores a tether that is released earlier,
/// because a program may close inherited descriptors at its start.
const LINGER_MS: i64 = 2100;

pub(crate) fn run(args: &Try) -> ExitCode {
    let code = Programs::find().and_then(|programs| match args.inner.as_slice() {
        [outer, folder] => rehearse(args, &programs, outer, Path::new(folder)),
        _ => guard::run_outer(&programs.own),
    });
    code.unwrap_or_else(|message| fail_all(&message.lines().map(str::to_owned).collect::<Vec<_>>()))
}

/// Runs the Pod in this scratch folder. An error has one line for each problem.
fn rehearse(args: &Try, programs: &Programs, outer: &str, scratch: &Path) -> Result<ExitCode, String> {
    let planned = source::read(args)?;
    if let Some(wrong) = planned.wrong_name(args) {
        fail_all(&[wrong]);
        return Ok(Exit::Usage.into());
    }
    // This leaves the terminal's process group, so the manifest is read first.
    guard::end_with(outer, scratch);
    let (sender, messages) = channel();
    let interrupts = sender.clone();
    guard::on_interrupt(move || interrupts.send(Message::Interrupt).is_ok());
    let script = script::write(args, &planned, programs, scratch)?;
    let mut run = Run::new(args, &script, &sender);
    run.screen.announce(&script)?;
    let followed = run.follow(&messages);
    run.screen.print(i64::MAX, None)?;
    followed?;
    guard::clean_up(scratch);
    report::print(&run)
}

#[derive(Debug)]
enum Phase {
    /// The sidecar sets up the board.
    Boot,
    Run,
    /// The containers run until this time, then stop.
    Linger(Instant),
    Stop,
    StopSidecar,
}

pub(super) struct Run<'a> {
    pub(super) args: &'a Try,
    pub(super) script: &'a Script,
    /// The sidecar, followed by the containers.
    containers: Vec<Supervised>,
    board: BoardReader,
    screen: Screen,
    phase: Phase,
    /// Start of the Pod, in milliseconds since 1970.
    pub(super) zero: i64,
    deadline: Instant,
    /// Containers to kill, by their index.
    kills: Vec<(usize, Instant)>,
    /// Histories at the time of the verdict.
    pub(super) at_stop: Vec<History>,
    is_interrupted: bool,
    /// Time of the verdict, and time at which the containers began to stop.
    pub(super) judged_at: i64,
    pub(super) stopped_at: i64,
}

impl<'a> Run<'a> {
    fn new(args: &'a Try, script: &'a Script, sender: &Sender<Message>) -> Run<'a> {
        let (zero, now) = (now_ms(), monotonic_time());
        let supervise = |task: &script::Task| Supervised::new(task.clone(), sender.clone());
        let mut containers: Vec<Supervised> = script.tasks.iter().map(supervise).collect();
        containers[0].start_at = Some(now);
        // A name that no container has is that of the sidecar.
        let index = |name: &str| script.tasks.iter().position(|task| task.name == name).unwrap_or_default();
        let kills = args.faults.iter().filter_map(|fault| match fault.kind {
            FaultKind::Kill(after) => Some((index(&fault.container), now + after)),
            _ => None,
        });
        Run {
            args,
            script,
            containers,
            board: BoardReader::default(),
            screen: Screen::new(args, zero, script.tasks.iter().map(|task| task.name.len()).max().unwrap_or_default()),
            phase: Phase::Boot,
            zero,
            deadline: now + args.timeout,
            kills: kills.collect(),
            at_stop: Vec::new(),
            is_interrupted: false,
            judged_at: zero,
            stopped_at: zero,
        }
    }

    /// Runs until all processes have stopped, or until a second signal.
    fn follow(&mut self, messages: &Receiver<Message>) -> Result<(), String> {
        loop {
            let first = messages.recv_timeout(TICK).ok();
            for message in first.into_iter().chain(messages.try_iter()) {
                if matches!(message, Message::Interrupt) && std::mem::replace(&mut self.is_interrupted, true) {
                    return Ok(());
                }
                self.on_message(message);
            }
            let now = monotonic_time();
            self.poll_processes(now)?;
            self.read_board()?;
            self.cause_faults(now);
            if self.advance(now)? {
                return Ok(());
            }
            let until = now_ms() - screen::DELAY_MS;
            let chart = self.screen.is_due(until).then(|| report::live_chart(self));
            self.screen.print(until, chart.as_deref())?;
        }
    }

    pub(super) fn histories(&self) -> Vec<History> {
        self.containers.iter().map(|own| own.history.clone()).collect()
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Log { name, line } => self.screen.log(&name, &line),
            Message::StandIn { name, run, is_ready, at } => {
                let Some(own) = self.containers.iter_mut().find(|own| own.history.task.name == name) else { return };
                let (task, Some(run)) = (&own.history.task, own.history.runs.get_mut(run)) else { return };
                let at = if task.has_probe { at } else { run.ready.map_or(at, |ready| ready.min(at)) };
                if is_ready {
                    run.passes = Some(at);
                    return;
                }
                run.started = Some(at);
                let what = if task.has_probe { "started" } else { "started, Ready (no probe)" };
                self.screen.event(at, &name, what);
            }
            Message::Interrupt => {
                self.screen.event(now_ms(), "", "Ctrl-C: stopping in order; press it again to stop at once");
                self.judge(monotonic_time());
            }
        }
    }

    fn poll_processes(&mut self, now: Instant) -> Result<(), String> {
        let at = now_ms();
        // In this order, containers that have ended since the last look are listed as the usual stop order ends them.
        for own in self.containers.iter_mut().rev() {
            for event in own.poll(now, at)? {
                self.screen.event(at, &own.history.task.name, &event);
            }
        }
        match self.containers[0].history.runs.last() {
            // A killed sidecar starts again.
            Some(run) if run.ended.is_some_and(|(_, code)| code != 137) && matches!(self.phase, Phase::Boot) => {
                Err("podgate's sidecar ended before it was ready; see its log above".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn read_board(&mut self) -> Result<(), String> {
        let epoch = self.board.epoch.clone();
        let changes = self.board.changes(&self.script.board, now_ms());
        if self.board.epoch != epoch
            && let Some(run) = self.containers[0].history.runs.last_mut()
        {
            run.started = Some(now_ms());
            self.screen.event(now_ms(), SIDECAR_NAME, "started");
            self.containers[0].start_hook(&self.script.sidecar_hook)?;
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
                    self.screen.event(at, &name, "Ready");
                }
                (State::NotReady, _) => self.screen.event(at, &name, "not Ready"),
                _ => {}
            }
        }
        Ok(())
    }

    fn cause_faults(&mut self, now: Instant) {
        let is_booting = matches!(self.phase, Phase::Boot);
        for (index, own) in self.containers.iter().enumerate() {
            // A fault waits until its container runs. Each kill needs a run of its own.
            let can_occur = own.child.is_some() || own.is_over() && !is_booting;
            let is_due = |(target, at): &(usize, Instant)| *target == index && *at <= now && can_occur;
            if let Some(due) = self.kills.iter().position(is_due) {
                self.kills.remove(due);
                kill_group(own.child.as_ref());
                let what = if own.child.is_some() { "is killed (--break)" } else { "had already ended (--break)" };
                self.screen.event(now_ms(), &own.history.task.name, what);
            }
        }
    }

    /// Moves to the next phase if it is due. Returns true after the last phase.
    fn advance(&mut self, now: Instant) -> Result<bool, String> {
        let is_open = now < self.deadline && !self.is_interrupted && !self.is_settled();
        match self.phase {
            Phase::Boot if self.containers[0].history.is_complete() => {
                self.phase = Phase::Run;
                self.containers[1..].iter_mut().for_each(|own| own.start_at = Some(now));
            }
            Phase::Boot if now >= self.deadline => self.judge(now),
            Phase::Run if !is_open => self.judge(now),
            // A container has ended since the verdict, or is killed.
            Phase::Linger(_) if is_open => self.phase = Phase::Run,
            // The last log lines may not have been read yet.
            Phase::Linger(_) if !(self.args.stop || self.is_interrupted) => return Ok(now_ms() - self.judged_at > 100),
            Phase::Linger(until) if now >= until => {
                self.stopped_at = now_ms();
                self.phase = Phase::Stop;
                self.screen.event(self.stopped_at, "", "the Pod stops");
                for own in &mut self.containers[1..] {
                    own.stop(now + self.script.grace)?;
                }
            }
            Phase::Stop if self.containers[1..].iter().all(Supervised::is_over) => {
                self.phase = Phase::StopSidecar;
                self.containers[0].stop(now + SIDECAR_GRACE)?;
            }
            Phase::StopSidecar => return Ok(self.containers[0].is_over()),
            Phase::Boot | Phase::Run | Phase::Linger(_) | Phase::Stop => {}
        }
        Ok(false)
    }

    /// Returns true if nothing is left to see: all faults have occurred, and all containers are complete or over.
    fn is_settled(&self) -> bool {
        let fatal = self.args.faults.iter().filter(|one| matches!(one.kind, FaultKind::Crash(_) | FaultKind::Kill(_)));
        let is_settled = |own: &Supervised| {
            let History { task, runs } = &own.history;
            let ends = runs.iter().filter(|run| run.ended.is_some()).count();
            let faults = fatal.clone().filter(|fault| fault.container == task.name).count();
            own.is_over() || ends >= faults && own.history.is_settled(now_ms())
        };
        self.kills.is_empty() && self.containers.iter().all(is_settled)
    }

    /// Ends the start. Later events do not change the verdict.
    fn judge(&mut self, now: Instant) {
        if !matches!(self.phase, Phase::Boot | Phase::Run) {
            return;
        }
        (self.judged_at, self.stopped_at) = (now_ms(), now_ms());
        self.at_stop = self.histories();
        let starts = self.at_stop[1..].iter().filter_map(|own| own.runs.last()?.started);
        let age = self.judged_at - starts.max().unwrap_or_default();
        let rest = u64::try_from(LINGER_MS - age).unwrap_or_default();
        self.phase = Phase::Linger(now + Duration::from_millis(rest));
    }
}
