//! `--tether` of `post-start` and `pre-stop`: a small process that keeps running in the container and holds its tether.

use podgate::edge::lock::Tether;
use podgate::edge::sys::{SignalFd, inherit_only};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use tracing::warn;

/// Starts the process that holds the tether in `tether_dir`. It outlives the hook and ends with the container. When the
/// first process of a PID namespace ends, the kernel kills the others. In a shared PID namespace, the container runtime
/// kills this process. A failure is not fatal: the sidecar then relies on the kubelet's status.
pub(crate) fn spawn_or_warn(tether_dir: &Path) {
    let spawn = || -> io::Result<()> {
        let tether = Tether::take_over(tether_dir)?;
        let inherited = tether.inheritable_copy()?;
        // Inherit no other descriptors: the hook's caller may wait until all copies of them are closed.
        inherit_only(inherited.as_fd());
        // The kubelet waits until the hook's output is closed, so the process must not inherit that output.
        let mut command = Command::new(crate::OWN_PROGRAM);
        command.arg("tether").env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
    };
    if let Err(error) = spawn() {
        warn!(%error, "cannot start the tether process");
    }
}

/// Keeps the inherited tether until the container ends.
pub(crate) fn keep_inherited_tether() -> ! {
    // Ignore signals to the whole group or session: the process must run as long as the container.
    let _signals = SignalFd::block(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT]);
    loop {
        let _ = rustix::event::poll(&mut [], None);
    }
}
