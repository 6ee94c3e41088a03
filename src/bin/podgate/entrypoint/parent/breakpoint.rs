//! `--breakpoint`: a container that has failed is held, for somebody to look into it.

use super::child::is_stop_signal;
use crate::clock::now;
use podgate::core::probe::interval;
use podgate::edge::sys::SignalFd;
use podgate::edge::watch::wait_until_ready;
use rustix::event::PollFlags;
use rustix::process::{WaitOptions, wait};
use std::path::Path;
use std::time::Duration;
use tracing::{info, warn};

/// Looks are never further apart than this.
const POLL_PERIOD_MAX: Duration = Duration::from_secs(1);

/// Returns when `file` is there, or when the container is told to end.
pub(super) fn wait_for_release(file: &Path, code: u8, signals: &SignalFd) {
    let shown = file.display();
    warn!(code, "the command has failed; the container is held until this file is there: touch {shown}");
    let since = now();
    while std::fs::symlink_metadata(file).is_err() {
        let pause = interval(now().saturating_duration_since(since), POLL_PERIOD_MAX, Duration::ZERO);
        wait_until_ready(signals, PollFlags::IN, pause);
        while let Some(signal) = signals.next_signal() {
            match signal {
                libc::SIGCHLD => while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {},
                signal if is_stop_signal(signal) => {
                    info!("told to end while held by --breakpoint");
                    return;
                }
                _ => {}
            }
        }
    }
    info!("let go by {shown}");
}
