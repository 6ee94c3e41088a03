//! `--breakpoint`: a container that has failed is held, for somebody to look into it.

use super::child::tells_to_end;
use crate::clock::now;
use podgate::core::probe::interval;
use podgate::edge::sys::Signals;
use podgate::edge::watch::ready;
use rustix::event::PollFlags;
use rustix::process::{WaitOptions, wait};
use std::path::Path;
use std::time::Duration;
use tracing::{info, warn};

/// Looks are never further apart than this.
const PERIOD: Duration = Duration::from_secs(1);

/// Returns when `file` is there, or when the container is told to end.
pub(super) fn hold(file: &Path, code: u8, signals: &Signals) {
    let shown = file.display();
    warn!(code, "the command has failed; the container is held until this file is there: touch {shown}");
    let since = now();
    while std::fs::symlink_metadata(file).is_err() {
        let pause = interval(now().saturating_duration_since(since), PERIOD, Duration::ZERO);
        ready(signals, PollFlags::IN, pause);
        while let Some(signal) = signals.next() {
            match signal {
                libc::SIGCHLD => while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {},
                signal if tells_to_end(signal) => {
                    info!("told to end while held by --breakpoint");
                    return;
                }
                _ => {}
            }
        }
    }
    info!("let go by {shown}");
}
