//! The system calls that no safe wrapper offers. The only `unsafe` of the project, each block with its reason.
#![allow(unsafe_code)]

use rustix::process::Pid;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// `SO_NETNS_COOKIE` of `<asm-generic/socket.h>`; Linux 5.14 and later.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// The cookie of the network namespace that `socket` lives in: never reused while the node is up.
///
/// # Errors
/// `ENOPROTOOPT` on a kernel before 5.14.
pub fn netns_cookie(socket: impl AsFd) -> io::Result<u64> {
    let mut cookie = 0u64;
    let mut length = libc::socklen_t::try_from(size_of::<u64>()).unwrap_or_default();
    // SAFETY: rustix has no SO_NETNS_COOKIE. The kernel writes at most `length` bytes, the size of `cookie`, which outlives
    // the call.
    let result = unsafe {
        let value = (&raw mut cookie).cast();
        libc::getsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, value, &raw mut length)
    };
    if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

/// What an open-file-description lock is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfdLock {
    /// Take the write lock of the whole file, without waiting.
    TakeWrite,
    /// Ask whether somebody else holds the write lock.
    QueryWrite,
}

/// An open-file-description lock on the whole of `file` (`fcntl(2)`, Linux 3.15 and later). It lives until the last copy of the
/// descriptor is closed, across `execve`.
///
/// Returns whether the lock was taken, or whether another holds it.
///
/// # Errors
/// Whatever the kernel says, `EAGAIN` aside.
pub fn ofd_lock(file: BorrowedFd<'_>, what: OfdLock) -> io::Result<bool> {
    let (command, kind) = match what {
        OfdLock::TakeWrite => (libc::F_OFD_SETLK, libc::F_WRLCK),
        // A read lock is asked for, since only a write lock of another stands in its way: a neighbour can take a read lock.
        OfdLock::QueryWrite => (libc::F_OFD_GETLK, libc::F_RDLCK),
    };
    // SAFETY: `flock` is plain old data, for which all zeros is valid (whole file, l_pid 0 as OFD locks demand); rustix and std
    // offer process-owned locks alone. The kernel reads and writes the one struct, which outlives the call.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::c_short::try_from(kind).unwrap_or_default();
        lock.l_whence = 0;
        if libc::fcntl(file.as_raw_fd(), command, &raw mut lock) == 0 {
            return Ok(what == OfdLock::TakeWrite || i32::from(lock.l_type) == libc::F_WRLCK);
        }
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) if what == OfdLock::TakeWrite => Ok(false),
        _ => Err(error),
    }
}

/// Signals that this process takes off a descriptor instead of being interrupted by them. A program that it becomes inherits that
/// they are blocked, unless they are [let go](SignalFd::unblock) before; one that it starts, unless [`die_with_parent`] prepares it.
#[derive(Debug)]
pub struct SignalFd {
    descriptor: OwnedFd,
}

impl SignalFd {
    /// Blocks `signals` in this, the only, thread, and takes them off the returned descriptor from now on. The first process of a
    /// PID namespace gets none of those that it has not asked for.
    ///
    /// # Errors
    /// When no descriptor is to be had.
    pub fn block(signals: &[i32]) -> io::Result<SignalFd> {
        // SAFETY: rustix and std offer neither signal masks nor signalfd. `set` is plain old data that sigemptyset initializes;
        // all pointers outlive the calls; the descriptor is new and nobody else's.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::sigaddset(&raw mut set, *signal);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                descriptor => Ok(SignalFd { descriptor: OwnedFd::from_raw_fd(descriptor) }),
            }
        }
    }

    /// Blocks no signal any more.
    pub fn unblock(&self) {
        unblock_all();
    }

    /// The next signal that has come, by its number; `None` if none has.
    pub fn next_signal(&self) -> Option<i32> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.descriptor, &mut info) {
            // The number is the first field, ssi_signo.
            Ok(read) if read == info.len() => i32::from_ne_bytes([info[0], info[1], info[2], info[3]]).into(),
            _ => None,
        }
    }
}

impl AsFd for SignalFd {
    /// Readable when a signal has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn unblock_all() {
    // SAFETY: as in `SignalFd::block`; both calls are async-signal-safe.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// What this process starts from now on inherits standard input, output and error, `kept`, and nothing else, not even what this
/// process was given by others (`close_range(2)`). On a kernel before 5.11 nothing changes.
pub fn inherit_only(kept: BorrowedFd<'_>) {
    let kept = kept.as_raw_fd().unsigned_abs();
    let others = [(libc::STDERR_FILENO.unsigned_abs() + 1, kept.saturating_sub(1)), (kept.saturating_add(1), u32::MAX)];
    for (first, last) in others.into_iter().filter(|(first, last)| first <= last) {
        // SAFETY: no memory is involved, and no descriptor is closed under its owner: the kernel closes them at `execve`. Neither
        // rustix nor std offers it for descriptors that they do not own.
        unsafe {
            libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC);
        }
    }
}

/// Makes `command` die with this process, and begin with no signal blocked: the kubelet kills a hook's process at its own restart,
/// and never its children.
pub fn die_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; these are, and nothing else is done.
    unsafe {
        command.pre_exec(|| {
            unblock_all();
            match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
}

/// Gives `command`, which must be started in a process group of its own, the terminal on its standard input before it can read
/// from there. Where that is no terminal of ours, nothing changes.
pub fn start_in_foreground(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; all of these are. `set` is plain old data that
    // sigemptyset initializes. Who takes the terminal from the background is stopped by TTOU unless that is blocked.
    unsafe {
        command.pre_exec(|| {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGTTOU);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            libc::tcsetpgrp(libc::STDIN_FILENO, libc::getpid());
            libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
            Ok(())
        });
    }
}

/// Sends `signal`, a real-time one too, to all of the process group `group`, or to that process alone where it has left its group.
/// It must not have been waited for, so that the number is still its own.
pub fn signal_group(group: Pid, signal: i32) {
    let group = group.as_raw_nonzero().get();
    // SAFETY: no memory is involved. rustix knows only signals with a name.
    unsafe {
        if libc::kill(-group, signal) != 0 {
            libc::kill(group, signal);
        }
    }
}
