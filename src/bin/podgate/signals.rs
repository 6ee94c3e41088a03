//! Signals that podgate receives on behalf of the container's command, and their names.

use std::io::{IsTerminal, stdin};

/// Names of the signals 1 to 31 (signal(7)).
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
    "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",
    "PWR", "SYS",
];
/// First and last real-time signals that programs may use. The C library uses the lower ones itself.
const RTMIN: i32 = 34;
const RTMAX: i32 = 64;

/// Parses the name of a signal in the syntax of `lifecycle.stopSignal`.
pub(crate) fn from_name(text: &str) -> Result<i32, &'static str> {
    let name = match text.strip_prefix("SIG").unwrap_or_default() {
        "IOT" => "ABRT",
        "CLD" => "CHLD",
        "POLL" => "IO",
        name => name,
    };
    let distance = |text: &str, sign| match text {
        "" => Some(0),
        text => text.strip_prefix(sign)?.parse().ok(),
    };
    let real_time = || match (name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
        (Some(after), _) => distance(after, '+').map(|distance: i32| RTMIN.saturating_add(distance)),
        (_, Some(before)) => distance(before, '-').map(|distance| RTMAX.saturating_sub(distance)),
        _ => None,
    };
    let named = (1..).zip(NAMES).find(|(_, known)| *known == name).map(|(number, _)| number);
    let number = named.or_else(|| real_time().filter(|number| (RTMIN..=RTMAX).contains(number)));
    number.ok_or("not a signal; write a name such as SIGTERM, SIGQUIT or SIGRTMIN+3")
}

/// Returns the name of a signal, such as `SIGTERM` or `SIGRTMIN+3`.
pub(crate) fn name(signal: i32) -> String {
    match usize::try_from(signal - 1).ok().and_then(|index| NAMES.get(index)) {
        Some(name) => format!("SIG{name}"),
        None => format!("SIGRTMIN+{}", signal - RTMIN),
    }
}

/// Returns `SIGCHLD` and all signals that podgate forwards to the command. Excludes signals that a fault in podgate
/// itself causes, including `SIGPIPE` after a failed write by podgate.
pub(crate) fn for_parent() -> Vec<i32> {
    use libc::{SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGPIPE, SIGSEGV, SIGSTOP, SIGTRAP};
    let excluded = [SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPIPE];
    (1..=RTMAX).filter(|signal| !excluded.contains(signal)).collect()
}

/// Returns the signals that end podgate before the command starts.
pub(crate) fn ending_before_start() -> Vec<i32> {
    for_parent().into_iter().filter(|signal| ends_before_start(*signal)).collect()
}

/// Returns true if `signal` ends podgate before the command starts. Such signals are `SIGWINCH` and all signals that
/// end a process by default. The image's `STOPSIGNAL` or the container's `lifecycle.stopSignal` may be any of them.
pub(crate) fn ends_before_start(signal: i32) -> bool {
    use libc::{SIGCHLD, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH};
    match signal {
        SIGCHLD | SIGCONT | SIGTSTP | SIGTTIN | SIGTTOU | SIGURG => false,
        // Ignore SIGWINCH on a terminal, which sends this signal whenever its size changes.
        SIGWINCH => !stdin().is_terminal(),
        _ => true,
    }
}

/// Returns true for signals that usually stop a running command. Many commands use other signals for other purposes,
/// such as SIGHUP to reload.
pub(crate) fn usually_stops_command(signal: i32) -> bool {
    matches!(signal, libc::SIGTERM | libc::SIGINT | libc::SIGQUIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_names_are_those_of_kubernetes() {
        for (text, number) in [
            ("SIGHUP", libc::SIGHUP),
            ("SIGUSR1", libc::SIGUSR1),
            ("SIGTERM", libc::SIGTERM),
            ("SIGIOT", libc::SIGABRT),
            ("SIGCLD", libc::SIGCHLD),
            ("SIGPOLL", libc::SIGIO),
            ("SIGWINCH", libc::SIGWINCH),
            ("SIGSYS", libc::SIGSYS),
            ("SIGRTMIN", 34),
            ("SIGRTMIN+3", 37),
            ("SIGRTMAX-14", 50),
            ("SIGRTMAX", 64),
        ] {
            assert_eq!(from_name(text), Ok(number), "{text}");
            assert_eq!(from_name(&name(number)), Ok(number), "{}", name(number));
        }
        for text in ["", "SIG", "TERM", "15", "sigterm", "SIGRTMIN-1", "SIGRTMIN+31", "SIGRTMAX-31", "SIGRTMIN3"] {
            assert!(from_name(text).is_err(), "{text:?}");
        }
    }
}
