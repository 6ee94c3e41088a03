//! System calls without a safe wrapper. This is the only `unsafe` code of the project.
#![expect(unsafe_code, reason = "std and rustix have no safe function for these calls")]

use rustix::process::Pid;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Socket option `SO_NETNS_COOKIE` of `<asm-generic/socket.h>`; Linux 5.14 and later.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// Returns the cookie of the socket's network namespace. Cookies are not reused until the node reboots. Fails on a
/// kernel before 5.14.
pub fn netns_cookie(socket: impl AsFd) -> io::Result<u64> {
    let mut cookie = 0u64;
    let mut length = libc::socklen_t::try_from(size_of::<u64>()).unwrap_or_default();
    // SAFETY: rustix has no SO_NETNS_COOKIE. The kernel writes at most `length` bytes, the size of `cookie`, which
    // outlives the call.
    let result = unsafe {
        let value = (&raw mut cookie).cast();
        libc::getsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, value, &raw mut length)
    };
    if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

/// Takes the write lock of an open file description on the whole of `file` (`fcntl(2)`, Linux 3.15 and later), without
/// waiting. Returns false if another open file description has a lock. The lock survives `execve` and ends when the
/// last copy of the descriptor is closed.
pub fn take_write_lock(file: BorrowedFd<'_>) -> io::Result<bool> {
    match ofd_lock(file, libc::F_OFD_SETLK, libc::F_WRLCK) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        taken => taken.map(|_| true),
    }
}

/// Returns true if another open file description has the write lock on `file`.
pub fn is_write_locked(file: BorrowedFd<'_>) -> io::Result<bool> {
    // Query with a read lock, which only conflicts with a write lock. Other containers can take read locks, which this
    // query must ignore.
    Ok(ofd_lock(file, libc::F_OFD_GETLK, libc::F_RDLCK)? == libc::F_WRLCK)
}

/// Calls `fcntl` with a lock of this kind on the whole file. Returns the kind of lock in the result.
fn ofd_lock(file: BorrowedFd<'_>, command: libc::c_int, kind: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: all zeros are a valid `flock`, which is plain old data. The zeros select the whole file, and OFD locks
    // require l_pid 0. rustix and std offer only process-owned locks. The kernel accesses only this struct, which
    // outlives the call.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::c_short::try_from(kind).unwrap_or_default();
        match libc::fcntl(file.as_raw_fd(), command, &raw mut lock) {
            0 => Ok(lock.l_type.into()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Signals that this process reads from a descriptor (`signalfd(2)`). New programs would inherit the blocked signals,
/// so call [`unblock_signals`] before `execve`, and [`die_with_parent`] for a child.
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Blocks `signals` in this thread, which must be the only one, and makes the signals readable. For the first
    /// process of a PID namespace, the kernel drops each signal that is neither blocked nor handled.
    pub fn block(signals: &[i32]) -> io::Result<SignalFd> {
        // SAFETY: rustix and std offer neither signal masks nor signalfd. `set` is plain old data that sigemptyset
        // initializes. All pointers outlive the calls. The descriptor is new and has no other owner.
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
                descriptor => Ok(SignalFd(OwnedFd::from_raw_fd(descriptor))),
            }
        }
    }

    /// Returns the number of the next pending signal, if any.
    pub fn next_signal(&self) -> Option<i32> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.0, &mut info) {
            // The number is the first field, ssi_signo.
            Ok(read) if read == info.len() => i32::from_ne_bytes([info[0], info[1], info[2], info[3]]).into(),
            _ => None,
        }
    }
}

impl AsFd for SignalFd {
    /// Returns a descriptor that is readable when a signal is pending.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Unblocks all signals.
pub fn unblock_signals() {
    // SAFETY: as in `SignalFd::block`. Both calls are async-signal-safe.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Makes new programs inherit only standard input, output, error and `kept` (`close_range(2)`). All other descriptors
/// are closed at `execve`, even those that this process has inherited. Has no effect on kernels before 5.11.
pub fn inherit_only(kept: BorrowedFd<'_>) {
    let kept = kept.as_raw_fd().unsigned_abs();
    let others = [(libc::STDERR_FILENO.unsigned_abs() + 1, kept.saturating_sub(1)), (kept.saturating_add(1), u32::MAX)];
    for (first, last) in others.into_iter().filter(|(first, last)| first <= last) {
        // SAFETY: no memory is involved. The kernel closes the descriptors only at `execve`, so their owners in this
        // process are not affected. rustix and std offer no such call for descriptors of other owners.
        unsafe {
            libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC);
        }
    }
}

/// Takes the descriptor `number`, which this process has inherited for its own use. New programs do not inherit the
/// descriptor. Returns `None` if the descriptor is not open.
pub fn take_inherited(number: i32) -> Option<OwnedFd> {
    // SAFETY: `fcntl` fails if the descriptor is not open. The parent has passed the descriptor to this process, and no
    // code here has opened it, so the descriptor has no other owner. std and rustix cannot take a descriptor by its
    // number.
    unsafe {
        let is_open = number > libc::STDERR_FILENO && libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) == 0;
        is_open.then(|| OwnedFd::from_raw_fd(number))
    }
}

/// Makes `command` end with this process and start without blocked signals. A restart of the kubelet kills a hook's
/// process, but not the children of that process. The kernel kills `command` when the *thread* that forked ends, so
/// spawn `command` from the main thread.
pub fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: these calls are async-signal-safe, as required between fork and exec.
    unsafe {
        command.pre_exec(move || {
            unblock_signals();
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The kernel sends no signal for a parent that ended before the call above.
            if libc::getppid().unsigned_abs() == parent { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
        });
    }
}

/// Puts the process group of `command` into the foreground, if standard input is the controlling terminal. `command` must
/// have its own process group.
pub fn start_in_foreground(command: &mut Command) {
    // SAFETY: these calls are async-signal-safe, as required between fork and exec. `set` is plain old data that
    // sigemptyset initializes. SIGTTOU would stop a background process that takes the terminal.
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

/// Sends `signal`, which may be a real-time signal, to `process`, or to the process group `process` if `with_group`. If
/// the group does not exist, signals the process. The process must not have been reaped, as its pid could be reused.
pub fn send_signal(process: Pid, signal: i32, with_group: bool) {
    let process = process.as_raw_nonzero().get();
    // SAFETY: no memory is involved. rustix supports only signals with a name.
    unsafe {
        if !with_group || libc::kill(-process, signal) != 0 {
            libc::kill(process, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_whose_parent_has_already_ended_does_not_start() {
        let mut command = Command::new("/bin/true");
        // SAFETY: these calls are async-signal-safe. The child exits at once. The grandchild continues after its parent
        // has ended.
        unsafe {
            command.pre_exec(|| {
                let parent = libc::getpid();
                if libc::fork() != 0 {
                    libc::_exit(0);
                }
                while libc::getppid() == parent {
                    libc::sched_yield();
                }
                Ok(())
            });
        }
        die_with_parent(&mut command);
        assert_eq!(command.spawn().unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
