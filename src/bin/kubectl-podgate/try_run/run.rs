//! The main loop: starts the sidecar and the containers, follows them, and stops them in order.

use super::args::{FaultKind, Output, SIDECAR, Try};
use super::board::BoardReader;
use super::chart::{Frame, timeline};
use super::guard::Scratch;
use super::history::{History, Outcome, describe_exit, outcome, restarts, sentences, stop_sentences};
use super::programs::Programs;
use super::screen::Screen;
use super::script::{self, Script};
use super::stand_in::StandInEvent;
use super::supervisor::{Change, Message, Supervised, has_ended, reap, spawn};
use super::{Refusal, now_ms, source};
use crate::clock::monotonic_time;
use crate::output::{print_stderr, to_json, write_stdout};
use crate::timeline::shape::{Timeline, format_seconds};
use crate::timeline::{svg, text};
use crate::{runtime, terminal};
use podgate::core::state::State;
use podgate::core::until::WaitCondition;
use serde::Serialize;
use std::process::{Child, ExitCode};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// Interval at which the main loop looks at processes and the board.
const TICK: Duration = Duration::from_millis(4);
/// Time that the sidecar gets at the end, after all containers have stopped.
const SIDECAR_GRACE: Duration = Duration::from_secs(5);
/// Shortest run of a container before its stop, in milliseconds. The sidecar ignores a tether that is released earlier,
/// because a program may close inherited descriptors at its start.
const LINGER_MS: i64 = 2100;
/// Width of the chart if standard output is not a terminal.
const DEFAULT_COLUMNS: usize = 100;
const EXIT_BROKEN: u8 = 2;
const EXIT_INCOMPLETE: u8 = 3;

pub(super) fn run(args: &Try) -> Result<ExitCode, Refusal> {
    let programs = Programs::find()?;
    let planned = source::read(args)?;
    let (sender, messages) = channel();
    forward_signals(sender.clone());
    // On drop, the guard of the scratch folder kills what is left.
    let scratch = Scratch::create(&programs)?;
    let script = script::write(args, &planned, &programs, &scratch)?;
    let mut run = Run::new(args, script, &sender)?;
    run.follow(&messages)?;
    drop(scratch);
    run.finish()
}

/// Sends SIGINT, SIGTERM and SIGHUP to the main loop.
fn forward_signals(messages: Sender<Message>) {
    std::thread::spawn(move || {
        runtime::block_on(async {
            let register = |kind| signal(kind).map_err(|error| format!("can't handle signals: {error}"));
            let mut interrupt = register(SignalKind::interrupt())?;
            let mut terminate = register(SignalKind::terminate())?;
            let mut hangup = register(SignalKind::hangup())?;
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                if messages.send(Message::Signal).is_err() {
                    return Ok(ExitCode::SUCCESS);
                }
            }
        })
    });
}

#[derive(Debug)]
enum Phase {
    /// The sidecar sets up the board.
    Boot,
    Run,
    /// The containers run until this time, then stop.
    Linger(Instant),
    /// The containers stop.
    Stop,
    /// The containers have stopped. The sidecar stops.
    StopSidecar,
}

struct Run<'a> {
    args: &'a Try,
    script: Script,
    sidecar: Supervised,
    /// The sidecar's running postStart hook.
    sidecar_hook: Option<Child>,
    is_sidecar_ready: bool,
    containers: Vec<Supervised>,
    board: BoardReader,
    screen: Screen,
    phase: Phase,
    /// Start of the Pod, in milliseconds since 1970.
    zero: i64,
    deadline: Instant,
    kills: Vec<(String, Instant)>,
    /// Histories at the beginning of the stop.
    at_stop: Vec<History>,
    is_interrupted: bool,
    /// Time of the verdict, and time at which the containers began to stop.
    judged_at: i64,
    stopped_at: i64,
}

impl<'a> Run<'a> {
    fn new(args: &'a Try, script: Script, sender: &Sender<Message>) -> Result<Run<'a>, String> {
        let (zero, now) = (now_ms(), monotonic_time());
        let containers: Vec<Supervised> =
            script.tasks.iter().map(|task| Supervised::new(task.clone(), sender.clone())).collect();
        let mut sidecar = Supervised::new(script.sidecar.clone(), sender.clone());
        sidecar.start(now);
        let width = script.tasks.iter().map(|task| task.name.len()).max().unwrap_or_default().max(SIDECAR.len());
        Ok(Run {
            args,
            sidecar,
            sidecar_hook: None,
            is_sidecar_ready: false,
            containers,
            board: BoardReader::new(&script.board),
            screen: Screen::new(args.output, zero, width),
            phase: Phase::Boot,
            zero,
            deadline: now + args.timeout,
            kills: script.kills.iter().map(|(name, after)| (name.clone(), now + *after)).collect(),
            at_stop: Vec::new(),
            is_interrupted: false,
            judged_at: zero,
            stopped_at: zero,
            script,
        })
    }

    /// Runs until all processes have stopped, or until a second signal.
    fn follow(&mut self, messages: &Receiver<Message>) -> Result<(), String> {
        self.announce()?;
        loop {
            let first = messages.recv_timeout(TICK).ok();
            for message in first.into_iter().chain(messages.try_iter()) {
                if self.on_message(message)? {
                    return self.screen.finish();
                }
            }
            let now = monotonic_time();
            self.poll_processes(now)?;
            self.read_board();
            self.cause_faults(now);
            if self.advance(now)? {
                return self.screen.finish();
            }
            let (screen, frame) = (&mut self.screen, (&self.script.title, self.zero));
            let histories: Vec<History> = self.containers.iter().map(|one| one.history.clone()).collect();
            let sidecar = &self.sidecar.history;
            screen.flush(now_ms(), now, |columns| {
                let (title, from) = frame;
                let summary = format!("{title} has been starting for {}.", format_seconds(now_ms() - from));
                let frame =
                    Frame { title: title.clone(), summary, notes: Vec::new(), is_complete: false, from, to: now_ms() };
                render_text(&timeline(frame, sidecar, &histories), columns)
            })?;
        }
    }

    fn announce(&self) -> Result<(), String> {
        let names: Vec<&str> = self.script.tasks.iter().map(|task| task.name.as_str()).collect();
        let head = format!("{}: {}", self.script.title, names.join(", "));
        for line in std::iter::once(&head).chain(&self.script.notes) {
            match self.args.output {
                Output::Text => _ = write_stdout(&format!("{line}\n"))?,
                Output::Json | Output::Svg => print_stderr(line),
            }
        }
        Ok(())
    }

    /// Handles a message. Returns true if the run must end at once.
    fn on_message(&mut self, message: Message) -> Result<bool, String> {
        match message {
            Message::Log { name, line } if self.args.verbose || !is_podgate_info(&line) => {
                self.screen.log(now_ms(), &name, &line);
            }
            Message::Log { .. } => {}
            Message::StandIn { name, run, event } => {
                let Some(own) = self.containers.iter_mut().find(|one| one.history.name == name) else {
                    return Ok(false);
                };
                let Some(run) = own.history.runs.get_mut(run) else { return Ok(false) };
                match event {
                    StandInEvent::Started(at) => {
                        run.started = Some(at);
                        let what = if own.history.has_probe { "started" } else { "started, Ready (no probe)" };
                        self.screen.event(at, &name, what);
                    }
                    StandInEvent::Ready(at) => {
                        run.passes = Some(at);
                        if own.history.reports_ready {
                            run.ready = Some(at);
                            self.screen.event(at, &name, "Ready");
                        }
                    }
                }
            }
            Message::Signal if self.is_interrupted => return Ok(true),
            Message::Signal => {
                self.is_interrupted = true;
                self.screen.event(now_ms(), "", "Ctrl-C: stopping in order; press it again to stop at once");
                self.judge(monotonic_time());
            }
        }
        Ok(false)
    }

    fn poll_processes(&mut self, now: Instant) -> Result<(), String> {
        for change in self.sidecar.poll(now)? {
            if change == Change::Created {
                let environment = self.script.sidecar.environment.iter().cloned();
                reap(self.sidecar_hook.take());
                self.sidecar_hook = Some(spawn(&self.script.sidecar_hook, environment, &self.script.sidecar.folder)?);
                self.screen.event(now_ms(), SIDECAR, "started");
            } else {
                self.is_sidecar_ready = false;
                self.screen.event(now_ms(), SIDECAR, &describe_end(change));
                if matches!(self.phase, Phase::Boot) {
                    return Err("podgate's sidecar ended before it was ready; see its log above".to_owned());
                }
            }
        }
        if self.sidecar_hook.as_ref().is_some_and(has_ended) {
            self.is_sidecar_ready = reap(self.sidecar_hook.take()) == 0;
        }
        for own in &mut self.containers {
            let name = own.history.name.clone();
            for change in own.poll(now)? {
                let conditions: Vec<String> = own.history.conditions.iter().map(WaitCondition::to_string).collect();
                match change {
                    Change::Created if own.history.has_gate && !conditions.is_empty() => {
                        self.screen.event(now_ms(), &name, &format!("waits for {}", conditions.join(", ")));
                    }
                    Change::Created => {}
                    Change::Ended { .. } => self.screen.event(now_ms(), &name, &describe_end(change)),
                }
            }
        }
        Ok(())
    }

    fn read_board(&mut self) {
        for change in self.board.changes(now_ms()) {
            let mut probed = self.containers.iter_mut().filter(|own| own.history.has_probe);
            let Some(own) = probed.find(|own| own.history.name == change.name) else { continue };
            let run = own.history.runs.last_mut().filter(|run| run.created <= change.at && run.ended.is_none());
            match (change.state, run) {
                (State::Ready, Some(run)) => {
                    if run.ready.is_none() {
                        run.ready = Some(change.at);
                    }
                    self.screen.event(change.at, &change.name, "Ready");
                }
                (State::NotReady, _) => self.screen.event(change.at, &change.name, "not Ready"),
                _ => {}
            }
        }
    }

    fn cause_faults(&mut self, now: Instant) {
        let (due, later) = std::mem::take(&mut self.kills).into_iter().partition(|(_, at)| *at <= now);
        self.kills = later;
        for (name, _) in due as Vec<(String, Instant)> {
            let containers = self.containers.iter().chain(std::iter::once(&self.sidecar));
            if let Some(own) = containers.into_iter().find(|one| one.history.name == name) {
                own.kill();
                self.screen.event(now_ms(), &name, "is killed (--break)");
            }
        }
    }

    /// Moves to the next phase if it is due. Returns true after the last phase.
    fn advance(&mut self, now: Instant) -> Result<bool, String> {
        match self.phase {
            Phase::Boot if self.is_sidecar_ready => {
                self.phase = Phase::Run;
                self.containers.iter_mut().for_each(|own| own.start(now));
            }
            Phase::Boot | Phase::Run if now >= self.deadline || self.is_settled() => self.judge(now),
            Phase::Linger(_) if !(self.args.stop || self.is_interrupted) => return Ok(true),
            Phase::Linger(until) if now >= until => self.stop(now)?,
            Phase::Stop if self.containers.iter().all(Supervised::is_over) => {
                self.phase = Phase::StopSidecar;
                self.sidecar.stop(now + SIDECAR_GRACE)?;
            }
            Phase::StopSidecar => return Ok(self.sidecar.is_over()),
            Phase::Boot | Phase::Run | Phase::Linger(_) | Phase::Stop => {}
        }
        Ok(false)
    }

    /// Returns true if nothing is left to see: all faults have occurred, and all containers are complete or over.
    fn is_settled(&self) -> bool {
        let has_crashed = |name: &str| {
            let own = self.containers.iter().find(|own| own.history.name == name);
            own.is_none_or(|own| own.history.runs.iter().any(|run| run.ended.is_some()))
        };
        let crashes =
            self.args.faults.iter().filter(|fault| !matches!(fault.kind, FaultKind::Never | FaultKind::Slow(_)));
        self.is_sidecar_ready
            && self.kills.is_empty()
            && crashes.filter(|fault| fault.container != SIDECAR).all(|fault| has_crashed(&fault.container))
            && self.containers.iter().all(|own| own.history.is_complete() || own.is_over())
    }

    /// Ends the start. Later events do not change the verdict.
    fn judge(&mut self, now: Instant) {
        if !matches!(self.phase, Phase::Boot | Phase::Run) {
            return;
        }
        (self.judged_at, self.stopped_at) = (now_ms(), now_ms());
        self.at_stop = self.containers.iter().map(|own| own.history.clone()).collect();
        let starts = self.at_stop.iter().filter_map(|own| own.runs.last()?.started);
        let age = self.judged_at - starts.max().unwrap_or_default();
        let rest = u64::try_from(LINGER_MS - age).unwrap_or_default();
        self.phase = Phase::Linger(now + Duration::from_millis(rest));
    }

    fn stop(&mut self, now: Instant) -> Result<(), String> {
        self.stopped_at = now_ms();
        self.phase = Phase::Stop;
        if self.args.stop || self.is_interrupted {
            self.screen.event(self.stopped_at, "", "the Pod stops");
        }
        let kill_at = now + self.script.grace;
        for own in &mut self.containers {
            own.stop(kill_at)?;
        }
        if self.script.is_sidecar_regular || !self.containers.iter().any(Supervised::is_running) {
            self.sidecar.stop(kill_at + SIDECAR_GRACE)?;
        }
        Ok(())
    }

    /// Prints the chart and the verdict. Returns the exit code.
    fn finish(self) -> Result<ExitCode, Refusal> {
        let outcome = outcome(&self.at_stop);
        let mut notes = sentences(&self.at_stop);
        notes.extend(restarts(&self.sidecar.history));
        let after: Vec<History> = self.containers.iter().map(|own| own.history.clone()).collect();
        if self.args.stop {
            notes.extend(stop_sentences(&after, self.stopped_at));
        }
        let took = format_seconds(self.judged_at - self.zero);
        let title = &self.script.title;
        let summary = match outcome {
            Outcome::InOrder => format!("The order was kept: {title} started in {took}."),
            Outcome::Broken => format!("The order was broken: a container of {title} started too early."),
            Outcome::Incomplete => format!("Not all containers of {title} were Ready after {took}."),
        };
        let (shown, to) = if self.args.stop { (&after, now_ms()) } else { (&self.at_stop, self.judged_at) };
        let frame = Frame {
            title: title.clone(),
            summary,
            notes,
            is_complete: outcome == Outcome::InOrder,
            from: self.zero,
            to: to + ((to - self.zero) / 24).max(100),
        };
        let timeline = timeline(frame, &self.sidecar.history, shown);
        let text = match self.args.output {
            Output::Text => {
                let columns = terminal::size().map_or(DEFAULT_COLUMNS, |(columns, _)| columns);
                format!("\n{}", render_text(&timeline, columns))
            }
            Output::Json => to_json(&Report { outcome, timeline: &timeline })?,
            Output::Svg => svg::render(&timeline),
        };
        write_stdout(&text)?;
        Ok(match outcome {
            Outcome::InOrder => ExitCode::SUCCESS,
            Outcome::Broken => EXIT_BROKEN.into(),
            Outcome::Incomplete => EXIT_INCOMPLETE.into(),
        })
    }
}

/// Returns true for a log line of podgate with level INFO. The events show the same.
fn is_podgate_info(line: &str) -> bool {
    let mut words = line.split(' ');
    words.next().is_some_and(|time| humantime::parse_rfc3339(time).is_ok()) && words.next() == Some("INFO")
}

/// The JSON output.
#[derive(Serialize)]
struct Report<'a> {
    outcome: Outcome,
    #[serde(flatten)]
    timeline: &'a Timeline,
}

fn describe_end(change: Change) -> String {
    let Change::Ended { code, restart_in } = change else { return String::new() };
    let end = describe_exit(code);
    match restart_in {
        Some(delay) => format!("ended ({end}); restarts in {}", humantime::format_duration(delay)),
        None => format!("ended ({end})"),
    }
}

fn render_text(timeline: &Timeline, columns: usize) -> String {
    let colors = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    text::render(timeline, columns, colors)
}
