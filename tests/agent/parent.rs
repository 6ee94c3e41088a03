//! Tests of `podgate entrypoint` as the command's parent: start, signals, time limits and exit codes.

use crate::support::{Agent, AgentOutput, Scene, Shell, send, wait_until};
use podgate::core::report::GateState;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Returns a gate that opens immediately and keeps running as the parent of `sh -c SCRIPT`.
pub(crate) fn parent(scene: &Scene, flags: &[&str], script: &str) -> Agent {
    let gate = flags.iter().fold(scene.gate().flag("tether", "parent"), |gate, flag| gate.arg(flag));
    gate.arg("--").arg("sh").arg("-c").arg(script)
}

fn run(flags: &[&str], script: &str) -> AgentOutput {
    parent(&Scene::new(), flags, script).run()
}

/// Waits until the command has written a line to the file `name`, and returns the content.
fn wait_for_file(scene: &Scene, name: &str) -> String {
    let path = scene.root.join(name);
    wait_until(name, || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
    fs::read_to_string(path).unwrap().trim().to_owned()
}

fn is_alive(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

fn kill(pid: &str) {
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn parent_exits_like_the_command_and_reports_the_code() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
        let scene = Scene::with_sidecar();
        let run = parent(&scene, &[], script).run();
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (code, "", ""), "{script}");
        let report = scene.report().unwrap();
        assert_eq!((report.exit_code, report.gate), (Some(code), Some(GateState::Opened)), "{script}");
        assert!(report.started && scene.is_current(&report));
        assert_eq!(scene.termination_message(), "");
    }
}

#[test]
fn error_names_the_command_that_cannot_start() {
    let scene = Scene::new();
    let run = |command: &str| scene.gate().flag("tether", "parent").arg("--").arg(command).run();
    run("/nonexistent").assert_failed(127, "/nonexistent: command not found");
    assert_eq!(scene.report().unwrap().exit_code, Some(127));
    run("/etc/passwd").assert_failed(126, "permission denied");
    run("/").assert_failed(126, "/ is a directory");
}

#[test]
fn command_starts_with_an_unchanged_environment() {
    let scene = Scene::new();
    let script = "echo $FOO; pwd; grep SigBlk /proc/self/status; sed -n 's/SigIgn:.*\\(.......\\)$/\\1/p' /proc/self/status; ls /proc/self/fd; cat";
    let run = |mut command: Command| {
        let input = fs::File::open("/etc/hostname").unwrap();
        let output = command.current_dir("/usr").stdin(input).stderr(Stdio::inherit()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let mut without_podgate = Command::new("sh");
    without_podgate.args(["-c", script]).env_clear().env("PATH", "/usr/bin:/bin").env("FOO", "bar");
    let text = run(parent(&scene, &[], script).env("FOO", "bar").command());
    assert_eq!(text, run(without_podgate));
    assert!(text.starts_with("bar\n/usr\nSigBlk:\t0000000000000000\n"), "{text}");
    // The result is the same without `--tether parent`, when podgate replaces itself with the command.
    let gate =
        scene.gate().env("FOO", "bar").arg("--").arg("sh").arg("-c").arg(script.replace("ls /proc/self/fd;", ""));
    assert!(run(gate.command()).starts_with("bar\n/usr\nSigBlk:\t0000000000000000\n"));
}

#[test]
fn parent_forwards_every_signal_to_the_command() {
    let scene = Scene::new();
    let numbers: Vec<i32> = [1, 2, 3, 6, 10, 12, 14, 15, 16, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]
        .into_iter()
        .chain(35..=64)
        .collect();
    let out = scene.root.join("got");
    // The command itself handles the signals. Its process group has no other process that the signals could kill.
    let script = format!(
        "import signal, os, sys\n\
         out = os.open('{}', os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n\
         for n in {numbers:?}: signal.signal(n, lambda n, _: os.write(out, b'%d\\n' % n) and (n == 64 and os._exit(3)))\n\
         os.write(out, b'up\\n')\n\
         while True: signal.pause()",
        out.display()
    );
    let gate = scene.gate().flag("tether", "parent").arg("--").arg("python3").arg("-c").arg(script);
    let agent = gate.spawn();
    wait_for_file(&scene, "got");
    for (index, number) in numbers.iter().enumerate() {
        send(agent.id(), *number);
        wait_until("the signal has arrived", || fs::read_to_string(&out).unwrap().lines().count() == index + 2);
    }
    assert_eq!(agent.wait().code, 3);
    let received: Vec<String> = fs::read_to_string(&out).unwrap().lines().skip(1).map(str::to_owned).collect();
    assert_eq!(received, numbers.iter().map(i32::to_string).collect::<Vec<_>>());
}

#[test]
fn podgate_never_sends_kill_after_a_signal_from_outside() {
    let scene = Scene::new();
    let (pid, received) = (scene.root.join("pid"), scene.root.join("received"));
    // The shell has no handler, so the whole group receives SIGTERM.
    let script = format!(
        "sh -c 'trap \"echo term >> {received}\" TERM; echo $$ > {pid}; while [ ! -e {received}.2 ]; do sleep 0.01; done' & wait",
        received = received.display(),
        pid = pid.display(),
    );
    let mut agent = parent(&scene, &["--grace", "1ms"], &script).spawn();
    let pid = wait_for_file(&scene, "pid");
    agent.signal(Signal::TERM);
    wait_for_file(&scene, "received");
    std::thread::sleep(Duration::from_millis(100));
    assert!(agent.is_running() && is_alive(&pid), "podgate must leave SIGKILL to the kubelet");
    fs::write(scene.root.join("received.2"), "").unwrap();
    assert_eq!(agent.wait().code, 143);
}

#[test]
fn parent_reaps_orphans_and_stays_idle() {
    let scene = Scene::new();
    let script = format!(
        "for i in 1 2 3; do (sh -c 'sleep 0.1 & echo $! >> {0}' &) ; done; sleep 0.05; exec 3<>{1}; touch {0}.up; read x <&3",
        scene.root.join("orphans").display(),
        {
            let fifo = scene.root.join("fifo");
            rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
            fifo.display().to_string()
        }
    );
    let agent = parent(&scene, &[], &script).spawn();
    wait_until("the orphans run", || {
        fs::read_to_string(scene.root.join("orphans")).is_ok_and(|text| text.lines().count() == 3)
            && scene.root.join("orphans.up").exists()
    });
    let orphans = fs::read_to_string(scene.root.join("orphans")).unwrap();
    wait_until("all orphans are reaped", || orphans.lines().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
    assert_eq!(agent.thread_count(), 1);
    let before = agent.sleep_count();
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(agent.sleep_count(), before, "the parent woke up without an event");
    fs::write(scene.root.join("fifo"), "x\n").unwrap();
    assert_eq!(agent.wait().code, 0);
}

#[test]
fn parent_works_with_pid_1() {
    let scene = Scene::new();
    let Some(mut shell) = Shell::in_namespaces(&["--user", "--map-root-user", "--mount"]) else { return };
    let gate = |script: &str| {
        let agent = parent(&scene, &[], script);
        let words: Vec<String> = agent.arguments.iter().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
        format!("unshare --fork --pid --mount-proc {} {} 2>/dev/null", crate::support::PROGRAM, words.join(" "))
    };
    // Process 1 adopts the orphans and must reap all orphans. The command must find no zombie.
    let orphans = "for i in 1 2 3 4 5; do (sleep 0.01 &); done; sleep 0.3; ! grep -l \") Z\" /proc/[0-9]*/stat";
    assert_eq!(shell.run(&gate(orphans)), 0);
    assert_eq!(shell.run(&gate("[ $(cat /proc/1/comm) = podgate ] && exit 6")), 6);
    // The kernel delivers SIGTERM to process 1 only if process 1 has a handler.
    let pid = scene.root.join("pid");
    let line = gate(&format!("echo up > {}; sleep 600", pid.display()));
    assert_eq!(shell.run(&format!("{line} &")), 0);
    wait_for_file(&scene, "pid");
    assert_eq!(shell.run("pkill -TERM -P $!; wait $!"), 143);
}

#[test]
fn only_the_parent_holds_the_tether() {
    let scene = Scene::new();
    let detached = format!("echo $$ > {}; exec sleep 600", scene.root.join("detached").display());
    let script = format!("setsid sh -c '{detached}' >/dev/null 2>&1 & sleep 600");
    let agent = parent(&scene, &[], &script).spawn();
    let detached = wait_for_file(&scene, "detached");
    assert!(scene.is_tethered());
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
    assert!(is_alive(&detached), "podgate must not kill a process that left the group");
    assert!(!scene.is_tethered(), "a child has inherited the tether");
    kill(&detached);
}

#[test]
fn command_dies_with_a_killed_parent() {
    let scene = Scene::new();
    let script = format!("echo $$ > {}; exec sleep 600", scene.root.join("pid").display());
    let agent = parent(&scene, &[], &script).spawn();
    let pid = wait_for_file(&scene, "pid");
    agent.signal(Signal::KILL);
    wait_until("the command is killed", || !is_alive(&pid));
    assert_eq!(agent.wait().code, 137);
}

#[test]
fn command_runs_in_the_terminals_foreground() {
    // The kernel would stop a background command as soon as the command reads from the terminal.
    let scene = Scene::new();
    let agent = parent(&scene, &[], "read line; echo got $line; cat /proc/$$/stat; stty -a >/dev/null && exit 5");
    let words: Vec<String> = agent.arguments.iter().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let line = format!("{} {} ; echo parent $?; cat", crate::support::PROGRAM, words.join(" "));
    let mut terminal = Command::new("python3");
    terminal.args(["-c", "import pty, sys; pty.spawn(['sh', '-c', sys.argv[1]])", &line]);
    let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    });
    std::io::Write::write_all(&mut input, b"hello\n\x04\x04").unwrap();
    wait_until("the terminal's command exits", || child.try_wait().unwrap().is_some());
    drop(input);
    let text = reader.join().unwrap();
    assert!(text.contains("got hello") && text.contains("parent 5"), "{text}");
}

#[test]
fn command_timeout_ends_the_whole_process_group() {
    let scene = Scene::new();
    let pid = scene.root.join("pid");
    let ends_on_term = format!("sleep 600 & echo $! > {}; wait", pid.display());
    let run = parent(&scene, &["--command-timeout", "200ms"], &ends_on_term).run();
    run.assert_failed(75, "--command-timeout: the command timed out after 200ms");
    assert!(scene.termination_message().ends_with("timed out after 200ms"), "{}", scene.termination_message());
    assert_eq!(scene.report().unwrap().exit_code, Some(75));
    wait_until("the command's child has ended", || !is_alive(fs::read_to_string(&pid).unwrap().trim()));
    // The command ends on SIGTERM, but the command's child ignores SIGTERM.
    let child_ignores_term = format!("(trap '' TERM; exec sleep 600) & echo $! > {}; wait", pid.display());
    let flags = ["--command-timeout", "200ms", "--grace", "200ms"];
    let run = parent(&scene, &flags, &child_ignores_term).run();
    assert!(run.code == 75 && run.took >= Duration::from_millis(400), "{run:?}");
    wait_until("the rest of the group is killed", || !is_alive(fs::read_to_string(&pid).unwrap().trim()));
    // The command and its child ignore SIGTERM.
    let both_ignore_term = format!("trap '' TERM; sleep 600 & echo $! > {}; wait", pid.display());
    let run = parent(&scene, &["--command-timeout", "100ms", "--grace", "200ms"], &both_ignore_term).run();
    assert_eq!(run.code, 75);
    assert!(run.took >= Duration::from_millis(300), "{run:?}");
    assert!(scene.log_text().contains("the command did not end after SIGTERM; sending SIGKILL"));
    assert!(!is_alive(fs::read_to_string(&pid).unwrap().trim()));
}

#[test]
fn on_error_continue_turns_each_failure_into_success() {
    let run_and_continue = |flags: &[&str], script| {
        let flags: Vec<&str> = ["--on-error", "continue"].iter().chain(flags).copied().collect();
        run(&flags, script)
    };
    run_and_continue(&[], "exit 3").assert_released();
    run_and_continue(&[], "kill -9 $$").assert_released();
    run_and_continue(&["--command-timeout", "50ms"], "sleep 600").assert_released();
    // `--on-error` does not apply to a command that could not start.
    let scene = Scene::new();
    let run = scene.gate().flag("on-error", "continue").arg("--").arg("/nonexistent").run();
    run.assert_failed(127, "not found");
}
