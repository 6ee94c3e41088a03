//! `--breakpoint`: keeps a failed container running, so that a user can inspect it.

use crate::clock::now;
use crate::signals;
use podgate::core::probe::interval;
use podgate::edge::sys::SignalFd;
use podgate::edge::watch::wait_until_ready;
use rustix::event::PollFlags;
use rustix::process::{WaitOptions, wait};
use std::path::Path;
use std::time::Duration;
use tracing::{info, warn};

/// Maximum interval between two checks for the file.
const POLL_PERIOD_MAX: Duration = Duration::from_secs(1);

/// Waits until `file` exists or a stop signal arrives.
pub(super) fn wait_for_release(file: &Path, code: u8, signals: &SignalFd) {
    let shown = file.display();
    warn!(code, "the command failed; keeping the container until this file exists: touch {shown}");
    let since = now();
    while std::fs::symlink_metadata(file).is_err() {
        let pause = interval(now().saturating_duration_since(since), POLL_PERIOD_MAX, Duration::ZERO);
        wait_until_ready(signals, PollFlags::IN, pause);
        while let Some(signal) = signals.next_signal() {
            match signal {
                libc::SIGCHLD => while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {},
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
