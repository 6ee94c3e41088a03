//! `--breakpoint`: keeps a failed container running, so that a user can inspect it.

use crate::check::Checks;
use crate::clock::now;
use crate::signals;
use podgate::core::argv::Check;
use podgate::edge::sys::SignalFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, wait};
use std::path::Path;
use std::time::Duration;
use tracing::{info, warn};

const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until `file` exists or a stop signal arrives.
pub(super) fn wait_for_release(file: &Path, code: u8, signals: &SignalFd) {
    let shown = file.display();
    warn!(code, "the command failed; keeping the container until this file exists: touch {shown}");
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).display().to_string();
    let mut checks = Checks::new([Check::File { path, needs_content: false }], CHECK_TIMEOUT, now()).with_command();
    loop {
        checks.run_due(now(), now());
        let Some(due) = checks.next_due() else { break };
        let pause = Timespec::try_from(due.saturating_duration_since(now())).ok();
        let mut set: Vec<PollFd<'_>> = checks.poll_fd().into_iter().collect();
        set.push(PollFd::new(signals, PollFlags::IN));
        let _ = poll(&mut set, pause.as_ref());
        while let Some(signal) = signals.next_signal() {
            match signal {
                libc::SIGCHLD => {
                    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                        checks.on_reaped(pid, status);
                    }
                }
                signal if signals::is_end(signal) => {
                    info!("received a stop signal while waiting at --breakpoint");
                    return;
                }
                _ => {}
            }
        }
    }
    info!("{shown} exists; continuing");
}
