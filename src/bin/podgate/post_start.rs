//! `podgate post-start`: a container's postStart hook, which returns when the container is Ready.

use crate::args::{Messages, PostStart};
use crate::check::Checks;
use crate::clock::now;
use crate::failed::Failed;
use crate::gate::place::Place;
use crate::gate::report::Reporter;
use crate::gate::then;
use crate::gate::voice::Voice;
use crate::gate::wait::Wait;
use crate::tether_process;
use podgate::core::gate::{Kind, Terms};
use podgate::core::sources::View;
use podgate::core::until::{Until, Want};
use std::process::ExitCode;
use tracing::warn;

pub(crate) fn run(args: PostStart) -> ExitCode {
    let Messages { logs, termination_log } = &args.messages;
    let voice = Voice::new("post-start", Some(&args.container), logs, Some(termination_log.clone()), None);
    match hook(args, &voice) {
        Ok(()) => {
            voice.is_done();
            ExitCode::SUCCESS
        }
        Err(failed) => voice.fails(failed),
    }
}

fn hook(args: PostStart, voice: &Voice) -> Result<(), Failed> {
    let PostStart { container, waits, fallback_check, then, tether, messages: _ } = args;
    let since = now();
    let place = Place::new(waits.board, Some(waits.podinfo), waits.poll_interval);
    // By default the container itself, unless checks alone are to decide.
    let untils = match waits.until {
        given if given.is_empty() && (waits.check.is_empty() || place.has_source()) => {
            vec![Until { container: container.clone(), want: Want::Ready }]
        }
        given => given,
    };
    place.must_serve_conditions(&untils)?;
    for other in untils.iter().filter(|until| until.container != container) {
        warn!(until = %other, "waits for another container, though this one runs already: its hook holds back only what comes after it");
    }
    if tether && let Err(error) = tether_process::leave_behind(&waits.own) {
        // The sidecar then goes by what the kubelet says, as without.
        warn!(%error, "can't leave a tether behind");
    }

    let mut reporter = Reporter::of_hook(waits.own, &container, place.sandbox.clone(), &untils);
    if let Some(command) = &then {
        // The container runs, whatever time its own command takes.
        if let View::Word(snapshot, _) = place.view() {
            reporter.tell(&snapshot, false);
        }
        then::run("postStart", command, since + waits.timeout)?;
    }
    let wait = Wait {
        terms: Terms { kind: Kind::Hook(&container), untils: &untils, fail_fast: waits.fail_fast },
        place: &place,
        signals: None,
        since,
        timeout: waits.timeout,
        on_timeout: waits.on_timeout,
    };
    let checks = Checks::new(waits.check, waits.check_timeout, since);
    let fallback = Checks::new(fallback_check, waits.check_timeout, since);
    wait.run(checks, fallback, &mut reporter, voice)
}
