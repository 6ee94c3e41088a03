//! `post-start --tether`: a tiny process that stays in the container, and holds its tether.

use podgate::edge::sys::{SignalFd, inherit_only};
use podgate::edge::tether::Tether;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Starts it, with the tether in the folder `own`. It outlives the hook, and ends with the container: with its first process all
/// others of its PID namespace end, and where that is shared the runtime ends them.
pub(crate) fn spawn(own: &Path) -> io::Result<()> {
    let tether = Tether::take(own)?;
    let inherited = tether.inheritable_copy()?;
    // Whoever started the hook may wait for its other descriptors to be closed, too.
    inherit_only(inherited.as_fd());
    // A hook is over when nobody holds its output any more.
    let mut command = Command::new("/proc/self/exe");
    command.arg("hold").env_clear().current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop)
}

/// What that process does.
pub(crate) fn run() -> ExitCode {
    // TERM to a whole group or session is for the program; the container's end comes by itself.
    let _signals = SignalFd::block(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT]);
    loop {
        let _ = rustix::event::poll(&mut [], None);
    }
}
