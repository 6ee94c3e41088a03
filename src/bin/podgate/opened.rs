//! `podgate opened`: a startupProbe that passes once this container's gate has opened.

use crate::args::OpenedArgs;
use crate::check::{self, Checks};
use crate::clock::now;
use crate::common::report;
use crate::failure::Failure;
use crate::pod_sources::PodSources;
use podgate::core::exit::Exit;
use podgate::core::names;
use podgate::core::report::{GateState, Report};
use podgate::core::snapshot::Snapshot;
use podgate::core::sources::{PodView, Source};
use podgate::core::state::State;
use podgate::core::until::WaitCondition;
use podgate::edge::process;
use podgate::edge::watch::{WakeReason, Watch};
use rustix::event::{PollFd, PollFlags};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// Time limit for the first report of a container's gate.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of the reads of `/proc/1/cmdline` if there is no pipe.
const EXECUTION_POLL: Duration = Duration::from_millis(50);
/// Number of descriptors of process 1 among which the gate's pipe is searched.
const FDS_MAX: u32 = 16;

enum Gate {
    Open(Report),
    /// The gate waits for the conditions in this text.
    Waiting(String),
    /// The gate's process has exited. The text is the error message.
    Exited(String),
}

pub(crate) fn run(args: OpenedArgs) -> Result<(), Failure> {
    if args.wait {
        return wait(args);
    }
    match read_gate(&args)? {
        Gate::Open(_) => {}
        Gate::Waiting(_) if args.or_waiting => return Ok(()),
        Gate::Waiting(why) | Gate::Exited(why) => return Err(Failure::new(Exit::NeverMet, why)),
    }
    let view = || view(&PodSources::new(args.volumes.board.clone(), None), args.pod_ip.as_deref());
    for check in &args.check {
        check::run_once(check, args.check_timeout, false, &view)
            .map_err(|why| Failure::new(Exit::NeverMet, format!("{check} {why}")))?;
    }
    Ok(())
}

/// Waits until the gate has opened and the checks have passed. The wait for the gate has no limit here: at the gate's
/// own time limit, the gate ends the container.
fn wait(args: OpenedArgs) -> Result<(), Failure> {
    let since = now();
    // Only this container's gate writes into the directory, so the watch needs no bell.
    let mut watch =
        if args.pod_ip.is_some() { Watch::of_nothing() } else { Watch::new(args.volumes.self_dir.clone(), None) };
    let mut pipe = args.pod_ip.as_ref().and_then(|_| gate_pipe());
    let mut poll_interval = args.pod_ip.as_ref().map_or(Duration::MAX, |_| EXECUTION_POLL);
    let report = loop {
        watch.arm();
        match read_gate(&args) {
            Ok(Gate::Open(report)) => break report,
            Err(failure) if since.elapsed() > REPORT_TIMEOUT => return Err(failure),
            Ok(Gate::Waiting(_) | Gate::Exited(_)) | Err(_) => {}
        }
        let limit = if pipe.is_some() { Duration::MAX } else { poll_interval };
        let fds = pipe.iter().map(|pipe| PollFd::new(pipe, PollFlags::empty())).collect();
        if watch.wait(limit, fds).map_err(Failure::setup_error("cannot wait"))? == WakeReason::Other {
            // The gate has closed the pipe, so it executes the command now.
            (pipe, poll_interval) = (None, Duration::from_millis(1));
        }
    };
    // Count the delays from the gate's opening, because an earlier run of this probe can have used a part of them.
    let opened_at = report.opened_at.map_or_else(process::time_since_boot, Duration::from_millis);
    let elapsed = process::time_since_boot().saturating_sub(opened_at);
    let held_until = now() + args.initial_delay.saturating_sub(elapsed);
    let start = now() + args.check_delay.saturating_sub(elapsed);
    let checks = Checks::new(args.check, args.check_timeout, now());
    // If this process fails or is killed, the kubelet runs the probe again, and that process continues the count.
    let (count_file, ticket) =
        (args.volumes.self_dir.join(names::STARTUP_FAILURES_FILE), report.ticket.clone().unwrap_or_default());
    let counted = fs::read_to_string(&count_file).unwrap_or_default();
    let mut counted = counted.strip_prefix(&ticket).and_then(|count| count.trim().parse().ok()).unwrap_or(0);
    let mut checks = checks.like_startup_probe(start, args.check_period, args.failure_threshold, counted);
    let sources = PodSources::new(args.volumes.board, None);
    if args.sidecar_check || !args.initial_delay.is_zero() {
        watch = sources.watch();
    }
    loop {
        let view = watch.read(|| view(&sources, args.pod_ip.as_deref()));
        let startup = if args.sidecar_check { startup_result(&view, &report) } else { Some(true) };
        let at = now();
        checks.run_due(at, &|| view.pod_ip());
        if checks.max_failures() > counted {
            counted = checks.max_failures();
            let _ = fs::write(&count_file, format!("{ticket} {counted}"));
        }
        let refused = || "the startupProbe has failed too often; see the log of podgate's sidecar".to_owned();
        if let Some(why) = checks.failed_for_good().or_else(|| (startup == Some(false)).then(refused)) {
            return Err(Failure::new(Exit::NeverMet, why));
        }
        let mut due = checks.next_due();
        if due.is_none() && startup == Some(true) {
            let state = view.chosen_snapshot().and_then(|snapshot| snapshot.states.get(args.container.as_ref()?));
            if at >= held_until || state == Some(&State::Ready) {
                return Ok(());
            }
            due = Some(held_until);
        }
        let pause = due.map_or(Duration::MAX, |due| due.saturating_duration_since(now()));
        watch.wait(pause, checks.poll_fds().collect()).map_err(Failure::setup_error("cannot wait"))?;
    }
}

/// Returns true if the board shows that the startupProbe has passed since this start of the gate, false if it has
/// failed too often, and `None` before.
fn startup_result(view: &PodView, report: &Report) -> Option<bool> {
    let own = report.ticket.as_ref()?;
    let (_, has_passed) = view.chosen_snapshot()?.startup.values().find(|(ticket, _)| ticket == own)?;
    Some(*has_passed)
}

/// Returns the board, or only the Pod's IP in a Pod without a sidecar.
fn view(sources: &PodSources, pod_ip: Option<&str>) -> PodView {
    let pod_ip = pod_ip.map(|ip| Snapshot { pod_ip: Some(ip.into()), ..Snapshot::default() });
    pod_ip.map_or_else(|| sources.view(), |alone| PodView::Snapshot(alone, Source::Board))
}

/// Returns the pipe that a gate without a report holds until it executes the command. `None` if process 1 has no such
/// pipe, or runs as another user.
fn gate_pipe() -> Option<File> {
    let is_pipe = |path: &PathBuf| fs::read_link(path).is_ok_and(|to| to.as_os_str().as_bytes().starts_with(b"pipe:"));
    let mut pipes = (3..FDS_MAX).map(|fd| PathBuf::from(format!("/proc/1/fd/{fd}"))).filter(is_pipe);
    // Without the flag, this call could wait for a writer if the gate closes the pipe now.
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(pipes.next()?).ok()
}

/// Returns true if process 1 has not yet executed the container's command: it is the gate, or the container runtime
/// before the gate. Every user can read the command line of process 1, even after a change of its user.
fn is_gate(command_line: &[u8]) -> bool {
    let mut words = command_line.split(|byte| *byte == 0).map(|word| word.rsplit(|byte| *byte == b'/').next());
    match words.next().flatten() {
        Some(b"podgate") => words.next().flatten() == Some(b"entrypoint"),
        // A process without a command line has ended, or runs execve.
        program => matches!(program, None | Some(b"" | b"runc" | b"crun" | b"youki")),
    }
}

fn read_gate(args: &OpenedArgs) -> Result<Gate, Failure> {
    if args.pod_ip.is_some() {
        let is_closed = is_gate(&fs::read("/proc/1/cmdline").unwrap_or_default());
        let waiting = || Gate::Waiting("the gate is still waiting".to_owned());
        return Ok(if is_closed { waiting() } else { Gate::Open(Report::default()) });
    }
    let own = args.volumes.self_dir.display();
    let missing = |fix| Failure::new(Exit::BadSetup, format!("no gate has reported in {own}; {fix}"));
    let report = report::read_report(&args.volumes.self_dir).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            missing("mount this container's own directory there, or set --self")
        }
        _ => Failure::new(Exit::NeverMet, format!("the report in {own} cannot be read: {error}")),
    })?;
    let gate = report.gate.ok_or_else(|| missing("run podgate entrypoint as this container's command"))?;
    let process = report.process.ok_or_else(|| {
        let why = format!("the report in {own} has no process id; use the same podgate version for gate and probe");
        Failure::new(Exit::NeverMet, why)
    })?;
    Ok(match gate {
        // The report is from an earlier incarnation of the container.
        _ if !process::is_alive(process) => {
            Gate::Exited(format!("the gate's process, pid {}, has exited", process.pid))
        }
        GateState::Waiting if report.waiting_for.is_empty() => Gate::Waiting("the gate is still waiting".to_owned()),
        GateState::Waiting => {
            let list: Vec<String> = report.waiting_for.iter().map(WaitCondition::to_string).collect();
            Gate::Waiting(format!("the gate is waiting for {}", list.join(", ")))
        }
        GateState::Opened => Gate::Open(report),
    })
}

#[cfg(test)]
mod tests {
    use super::is_gate;

    #[test]
    fn only_the_gate_and_the_runtime_before_it_are_closed() {
        for (command_line, expected) in [
            (&b"/podgate/bin/podgate\0entrypoint\0--ask\0db tcp://:1\0"[..], true),
            (b"/usr/bin/runc\0init\0", true),
            (b"runc\0init\0", true),
            (b"", true),
            (b"/podgate/bin/podgate\0sleep\x005s\0", false),
            (b"postgres: checkpointer \0\0\0", false),
            (b"/bin/sh\0/podgate\0entrypoint\0", false),
            (b"podgated\0entrypoint\0", false),
        ] {
            assert_eq!(is_gate(command_line), expected, "{}", String::from_utf8_lossy(command_line));
        }
    }
}
