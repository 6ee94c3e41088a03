//! Telling a process from others that had, or will have, its number, how one has ended, and random ids.

use crate::core::report::Process;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The exit code of a process that has ended: 128 + N for signal N, as a shell has it.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// A new id of this many random bytes, in hexadecimal digits.
///
/// # Errors
/// Without `/dev/urandom`.
pub fn random_id(bytes: usize) -> io::Result<String> {
    let mut random = vec![0; bytes];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// This process; `None` without `/proc`.
pub fn current_process() -> Option<Process> {
    let pid = std::process::id();
    Some(Process { pid, start_ticks: start_ticks(pid)? })
}

/// Whether `process` lives, as whatever program by now.
pub fn is_alive(process: Process) -> bool {
    start_ticks(process.pid) == Some(process.start_ticks)
}

/// Field 22 of `/proc/PID/stat` (proc(5)), unless the process is dead and only not waited for yet.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; the third field follows its last one.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!["Z", "X"].contains(&state)).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_ends_and_no_other_passes_for_it() {
        let own = current_process().unwrap();
        assert!(is_alive(own));
        assert!(!is_alive(Process { start_ticks: own.start_ticks + 1, ..own }));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let other = Process { pid: child.id(), start_ticks: start_ticks(child.id()).unwrap() };
        assert!(is_alive(other));
        child.kill().unwrap();
        while is_alive(other) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!is_alive(other));
    }
}
