//! `podgate-controller ready`: the sidecar's postStart hook. The hook waits for the lock that the sidecar takes after
//! setting up the board. A plain file cannot replace the lock, because files survive a restart of the sidecar.

use crate::args::ReadyArgs;
use crate::clock::now;
use podgate::core::exit::Exit;
use podgate::core::names;
use podgate::edge::{files, lock, source};
use std::time::Duration;

const MIN_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn wait(args: &ReadyArgs) -> Exit {
    let since = now();
    let path = args.board.join(names::CONTROLLER_LOCK_FILE);
    let mut cause = String::new();
    loop {
        match lock::is_taken(&path) {
            Ok(true) => break,
            Ok(false) => {}
            Err(error) => cause = format!(" ({}: {error})", path.display()),
        }
        let waited = now() - since;
        if waited >= args.timeout {
            let limit = humantime::format_duration(args.timeout);
            eprintln!(
                "podgate-controller ready: the sidecar was not ready within {limit}{cause}; see kubectl logs POD -c podgate"
            );
            return Exit::TimedOut;
        }
        std::thread::sleep((waited / 50).clamp(MIN_PAUSE, MAX_PAUSE).min(args.timeout - waited));
    }
    // The file `SIDECAR_HOOK_SUCCESS_FILE` tells the exiting sidecar that its hook has succeeded. Without the file, the
    // sidecar exits with 143 instead of 0, which does no harm.
    if let Ok(snapshot) = source::read_board(&args.board) {
        let _ = files::replace(&args.board, names::SIDECAR_HOOK_SUCCESS_FILE, snapshot.epoch.as_bytes(), 0o644);
    }
    Exit::Released
}
