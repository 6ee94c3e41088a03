//! `podgate post-start`: a container's postStart hook, which returns when the container is Ready.

use crate::args::{MessageArgs, PostStartArgs};
use crate::check::Checks;
use crate::clock::now;
use crate::common::hook_command;
use crate::common::messenger::Messenger;
use crate::common::report::{Reporter, base_report};
use crate::common::wait::Wait;
use crate::failure::Failure;
use crate::pod_sources::PodSources;
use crate::tether_process;
use podgate::core::gate::GateKind;
use podgate::core::report::Report;
use podgate::core::until::{WaitCondition, WantedState};
use std::process::ExitCode;
use tracing::warn;

pub(crate) fn run(args: PostStartArgs) -> ExitCode {
    let MessageArgs { logs, termination_log } = &args.messages;
    let messenger = Messenger::new("post-start", Some(&args.container), logs, Some(termination_log.clone()), None);
    match run_hook(args, &messenger) {
        Ok(()) => {
            messenger.clear_message();
            ExitCode::SUCCESS
        }
        Err(failed) => messenger.print_failure(failed),
    }
}

fn run_hook(args: PostStartArgs, messenger: &Messenger) -> Result<(), Failure> {
    let PostStartArgs { container, mut waits, podinfo, times, fallback_check, then, tether, messages: _ } = args;
    let since = now();
    let sources = PodSources::new(waits.volumes.board.clone(), Some(podinfo));
    // By default, wait for this container, unless only checks are set and no source exists.
    let conditions = match std::mem::take(&mut waits.until) {
        given if given.is_empty() && (waits.check.is_empty() || sources.has_source()) => {
            vec![WaitCondition { container: container.clone(), want: WantedState::Ready }]
        }
        given => given,
    };
    sources.require_source("the hook", !conditions.is_empty())?;
    for other in conditions.iter().filter(|until| until.container != container) {
        warn!(until = %other, "this container already runs, so the hook only delays the containers after it");
    }
    if tether {
        tether_process::spawn_or_warn(&waits.volumes.self_dir);
    }

    let report = Report { started: true, ..base_report(sources.sandbox.clone(), &conditions) };
    let mut reporter = Reporter::new(waits.volumes.self_dir.clone(), Some(container.clone()), report);
    // With the tether, the sidecar sees that the container runs even if it does not read this report.
    let own_start = WaitCondition { container: container.clone(), want: WantedState::Started };
    let only_reports = tether && waits.check.is_empty() && conditions == [own_start];
    if then.is_some() || only_reports {
        // The container's own postStart command may take long. Report first that the container runs.
        let view = sources.view();
        if view.chosen_snapshot().is_some() {
            reporter.refresh(&view, false);
        }
    }
    if let Some(command) = &then {
        hook_command::run("postStart", command, since + waits.timeout)?;
    }
    if only_reports {
        return Ok(());
    }
    let checks =
        Checks::new(std::mem::take(&mut waits.check), waits.check_timeout, since).like_probe_sequence(&times, since);
    let fallback = Checks::new(fallback_check, waits.check_timeout, since);
    let (kind, conditions) = (GateKind::PostStart(&container), conditions.as_slice());
    let wait = Wait { kind, conditions, args: &waits, sources: &sources, signals: None, since };
    wait.run(None, checks, fallback, &mut reporter, messenger)
}
