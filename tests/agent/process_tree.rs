//! Tests of the signals to a command with several processes. Each command runs as process 1 of a PID namespace, like a
//! container's command, and under podgate as process 1.

use crate::support::{Agent, Scene, Shell, send, wait_until};
use std::fs;

/// A server whose shutdown takes a while. `LOG` is replaced with the path of the log, and `SERVER` with this script.
const SERVER: &str = "trap 'echo server got TERM >>LOG; sleep 0.3; echo server saved >>LOG; exit 0' TERM; \
    echo up >>LOG; while :; do sleep 0.02; done";

/// A master with one worker. The worker ends on SIGHUP, and at the end of its pipe after its task.
const PREFORK: &str = r#"exec python3 -c '
import os, signal, time
log = lambda line: os.write(os.open("LOG", os.O_WRONLY | os.O_APPEND | os.O_CREAT), line.encode() + b"\n")
reader, writer = os.pipe()
worker = os.fork()
if worker == 0:
    os.close(writer)
    signal.signal(signal.SIGTERM, lambda *_: (log("worker got TERM"), os._exit(1)))
    os.read(reader, 1)
    time.sleep(0.3)
    log("worker has finished its task")
    os._exit(0)
def shut_down(*_):
    log("master shuts down")
    os.close(writer)
    log("worker: " + str(os.waitpid(worker, 0)[1]))
    os._exit(0)
signal.signal(signal.SIGTERM, shut_down)
signal.signal(signal.SIGHUP, lambda *_: log("master reloads"))
log("up")
while True: signal.pause()
'"#;

/// A program that blocks SIGTERM and reads it, as programs with signalfd do. A handler would be visible in SigCgt. While
/// a program sleeps in sigwait, the kernel shows the signal as not blocked, so this one polls.
const SIGNALFD: &str = r#"exec python3 -c '
import os, signal, subprocess, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
unblock = lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
server = subprocess.Popen(["sh", "-c", """SERVER"""], preexec_fn=unblock)
while signal.SIGTERM not in signal.sigpending(): time.sleep(0.02)
os.write(os.open("LOG", os.O_WRONLY | os.O_APPEND), b"supervisor got TERM\n")
server.terminate()
server.wait()
'"#;

/// Log and exit code of a command that SIGTERM did not reach.
const KILLED: (&str, i32) = ("", 137);

/// Runs `agent`, sends `signals` to its process 1 when the log contains `up`, and SIGKILL if `is_killed`. Returns the
/// log and the exit code.
fn run(scene: &Scene, agent: Agent, signals: &[i32], is_killed: bool) -> (String, i32) {
    let log = scene.root.join("log");
    let read = || fs::read_to_string(&log).unwrap_or_default();
    let mut agent = agent.spawn();
    wait_until("the command is up", || read().contains("up\n"));
    fs::write(&log, "").unwrap();
    for (index, signal) in signals.iter().enumerate() {
        send(agent.child(), *signal);
        // Each signal but the last causes one line.
        wait_until("the signal has arrived", || index + 1 == signals.len() || read().lines().count() > index);
    }
    if is_killed {
        assert!(agent.is_running());
        send(agent.child(), libc::SIGKILL);
    }
    // `unshare` has an exit code of its own if SIGKILL has ended its child.
    let code = agent.wait().code;
    let code = if is_killed { KILLED.1 } else { code };
    (read().lines().collect::<Vec<_>>().join(", "), code)
}

#[test]
fn signals_have_the_same_effect_as_without_podgate() {
    if Shell::in_namespaces(&["--user", "--map-root-user", "--fork", "--pid", "--mount-proc"]).is_none() {
        return;
    }
    const STOPS: &str = "server got TERM, server saved";
    let term: &[i32] = &[libc::SIGTERM];
    // Columns: the command, the signals, and the log and exit code as process 1, and under podgate if different.
    let table = [
        ("server", "exec sh -c 'SERVER'", term, (STOPS, 0), None),
        // The kernel drops SIGTERM for a process 1 without a handler. Under podgate, the server can shut down.
        ("shell", "sh -c 'SERVER' & wait", term, KILLED, Some((STOPS, 143))),
        (
            "drain",
            "trap 'echo drains >>LOG; sleep 0.3; echo drained >>LOG; kill -TERM $!; wait $!' TERM; sh -c 'SERVER' & wait; wait",
            term,
            ("drains, drained, server got TERM, server saved", 0),
            None,
        ),
        // The end of process 1 kills its background processes.
        ("exits in its trap", "trap 'exit 4' TERM; sh -c 'SERVER' & wait", term, ("", 4), None),
        (
            "gunicorn, HUP",
            PREFORK,
            &[libc::SIGHUP, libc::SIGTERM],
            ("master reloads, master shuts down, worker has finished its task, worker: 0", 0),
            None,
        ),
        ("celery", PREFORK, term, ("master shuts down, worker has finished its task, worker: 0", 0), None),
        ("signalfd", SIGNALFD, term, ("supervisor got TERM, server got TERM, server saved", 0), None),
        // A process in a session of its own gets no signal.
        ("setsid", "setsid sh -c 'SERVER' & wait", term, KILLED, Some(("", 143))),
        (
            "setsid with trap",
            "trap 'kill -TERM $!; wait $!' TERM; setsid sh -c 'SERVER' & wait; wait",
            term,
            (STOPS, 0),
            None,
        ),
        (
            "ignores TERM",
            "trap '' TERM; exec sh -c 'echo up >>LOG; while :; do sleep 0.02; done'",
            term,
            KILLED,
            Some(KILLED),
        ),
    ];
    for (name, script, signals, alone, under_podgate) in table {
        let fill = |scene: &Scene| {
            let script =
                script.replace("SERVER", &SERVER.replace('\'', if script.contains("\"\"\"") { "'\\''" } else { "\"" }));
            script.replace("LOG", scene.root.join("log").to_str().unwrap())
        };
        let scene = Scene::new();
        let mut agent = scene.gate().in_a_pid_namespace();
        agent.arguments.truncate(5);
        let agent = agent.arg("sh").arg("-c").arg(fill(&scene));
        let outcome = run(&scene, agent, signals, alone == KILLED);
        assert_eq!((outcome.0.as_str(), outcome.1), alone, "{name}, as process 1");
        let scene = Scene::new();
        let agent =
            scene.gate().flag("tether", "parent").with_command(&["sh", "-c", &fill(&scene)]).in_a_pid_namespace();
        let expected = under_podgate.unwrap_or(alone);
        let outcome = run(&scene, agent, signals, expected == KILLED);
        assert_eq!((outcome.0.as_str(), outcome.1), expected, "{name}, under podgate");
    }
}

/// Without a stop signal, podgate exits with the command, as the end of process 1 ends a container.
#[test]
fn ordinary_end_waits_for_no_background_process() {
    if Shell::in_namespaces(&["--user", "--map-root-user", "--fork", "--pid", "--mount-proc"]).is_none() {
        return;
    }
    let scene = Scene::new();
    let command = ["sh", "-c", "sleep 600 >/dev/null 2>&1 & exit 3"];
    let agent = scene.gate().flag("tether", "parent").with_command(&command).in_a_pid_namespace();
    assert_eq!(agent.run().code, 3);
}
