//! `podgate entrypoint` as the command's parent: how the command is started, told, copied, ended and waited for.

use crate::support::{Agent, AgentOutput, RunningAgent, Scene, Shell, wait_until};
use podgate::core::report::GateState;
use podgate::core::state::State;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A gate that opens at once and stays as the parent of `sh -c SCRIPT`.
pub(crate) fn parent(scene: &Scene, flags: &[&str], script: &str) -> Agent {
    let gate = flags.iter().fold(scene.gate().flag("tether", "parent"), |gate, flag| gate.arg(flag));
    gate.arg("--").arg("sh").arg("-c").arg(script)
}

fn run(flags: &[&str], script: &str) -> AgentOutput {
    parent(&Scene::new(), flags, script).run()
}

/// Returns when the command has written the file `name`.
fn until_written(scene: &Scene, name: &str) -> String {
    let path = scene.root.join(name);
    wait_until(name, || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
    fs::read_to_string(path).unwrap().trim().to_owned()
}

fn lives(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

fn kill(pid: &str) {
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

fn send(agent: &RunningAgent, signal: i32) {
    let sent = Command::new("kill").arg(format!("-{signal}")).arg(agent.id().to_string()).status();
    assert!(sent.unwrap().success());
}

#[test]
fn it_ends_as_the_command_ends_and_reports_that() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
        let scene = Scene::with_controller();
        let run = parent(&scene, &[], script).run();
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (code, "", ""), "{script}");
        let report = scene.report().unwrap();
        assert_eq!((report.exit_code, report.gate), (Some(code), Some(GateState::Opened)), "{script}");
        assert!(report.started && scene.is_current(&report));
        assert_eq!(scene.termination_message(), "");
    }
}

#[test]
fn what_cannot_be_started_is_said() {
    let scene = Scene::new();
    let run = |command: &str| scene.gate().flag("tether", "parent").arg("--").arg(command).run();
    run("/nonexistent").assert_failed(127, "/nonexistent: command not found");
    assert_eq!(scene.report().unwrap().exit_code, Some(127));
    run("/etc/passwd").assert_failed(126, "permission denied");
    run("/").assert_failed(126, "/ is a directory");
}

#[test]
fn the_command_is_started_as_if_podgate_were_not_there() {
    let scene = Scene::new();
    let script = "echo $FOO; pwd; grep SigBlk /proc/self/status; sed -n 's/SigIgn:.*\\(.......\\)$/\\1/p' /proc/self/status; ls /proc/self/fd; cat";
    let run = |mut command: Command| {
        let input = fs::File::open("/etc/hostname").unwrap();
        let output = command.current_dir("/usr").stdin(input).stderr(Stdio::inherit()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let mut alone = Command::new("sh");
    alone.args(["-c", script]).env_clear().env("PATH", "/usr/bin:/bin").env("FOO", "bar");
    let text = run(parent(&scene, &[], script).env("FOO", "bar").command());
    assert_eq!(text, run(alone));
    assert!(text.starts_with("bar\n/usr\nSigBlk:\t0000000000000000\n"), "{text}");
    // So it is where podgate becomes the command.
    let gate =
        scene.gate().env("FOO", "bar").arg("--").arg("sh").arg("-c").arg(script.replace("ls /proc/self/fd;", ""));
    assert!(run(gate.command()).starts_with("bar\n/usr\nSigBlk:\t0000000000000000\n"));
}

#[test]
fn every_signal_reaches_the_command_and_its_group() {
    let scene = Scene::new();
    let numbers: Vec<i32> = [1, 2, 3, 6, 10, 12, 14, 15, 16, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]
        .into_iter()
        .chain(35..=64)
        .collect();
    let out = scene.root.join("got");
    // In the command itself, so that nothing else of the group dies of them.
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
    until_written(&scene, "got");
    for (index, number) in numbers.iter().enumerate() {
        send(&agent, *number);
        wait_until("it has come", || fs::read_to_string(&out).unwrap().lines().count() == index + 2);
    }
    assert_eq!(agent.wait().code, 3);
    let got: Vec<String> = fs::read_to_string(&out).unwrap().lines().skip(1).map(str::to_owned).collect();
    assert_eq!(got, numbers.iter().map(i32::to_string).collect::<Vec<_>>());
}

#[test]
fn term_reaches_the_grandchildren_and_podgate_kills_nobody_by_itself() {
    let scene = Scene::new();
    let (pid, told) = (scene.root.join("pid"), scene.root.join("told"));
    let script = format!(
        "trap 'echo told >> {told}' TERM; sh -c 'echo $$ > {pid}; exec sleep 600' & wait; while [ ! -e {told}.2 ]; do sleep 0.01; done; exit 9",
        told = told.display(),
        pid = pid.display(),
    );
    let mut agent = parent(&scene, &["--grace", "1ms"], &script).spawn();
    let pid = until_written(&scene, "pid");
    agent.signal(Signal::TERM);
    until_written(&scene, "told");
    wait_until("the grandchild is gone", || !lives(&pid));
    std::thread::sleep(Duration::from_millis(100));
    assert!(agent.is_running(), "the kubelet has a grace period of its own");
    fs::write(scene.root.join("told.2"), "").unwrap();
    assert_eq!(agent.wait().code, 9);
}

#[test]
fn orphans_are_reaped_and_nothing_spins() {
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
    wait_until("they run", || {
        fs::read_to_string(scene.root.join("orphans")).is_ok_and(|text| text.lines().count() == 3)
            && scene.root.join("orphans.up").exists()
    });
    let orphans = fs::read_to_string(scene.root.join("orphans")).unwrap();
    wait_until("all are reaped", || orphans.lines().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
    assert_eq!(agent.thread_count(), 1);
    let before = agent.sleep_count();
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(agent.sleep_count(), before, "nothing is to be done");
    fs::write(scene.root.join("fifo"), "x\n").unwrap();
    assert_eq!(agent.wait().code, 0);
}

#[test]
fn it_works_as_the_first_process_of_a_container() {
    let scene = Scene::new();
    let Some(mut shell) = Shell::in_namespaces(&["--mount"]) else { return };
    let gate = |script: &str| {
        let agent = parent(&scene, &[], script);
        let words: Vec<String> = agent.arguments.iter().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
        format!("unshare --fork --pid --mount-proc {} {} 2>/dev/null", crate::support::PROGRAM, words.join(" "))
    };
    // Its orphans come to it, and are reaped: none is a zombie when the command looks.
    let orphans = "for i in 1 2 3 4 5; do (sleep 0.01 &); done; sleep 0.3; ! grep -l \") Z\" /proc/[0-9]*/stat";
    assert_eq!(shell.run(&gate(orphans)), 0);
    assert_eq!(shell.run(&gate("[ $(cat /proc/1/comm) = podgate ] && exit 6")), 6);
    // TERM, which the first process has to ask for, comes through.
    let pid = scene.root.join("pid");
    let line = gate(&format!("echo up > {}; sleep 600", pid.display()));
    assert_eq!(shell.run(&format!("{line} &")), 0);
    until_written(&scene, "pid");
    assert_eq!(shell.run("pkill -TERM -P $!; wait $!"), 143);
}

#[test]
fn the_tether_is_the_parents_own() {
    let scene = Scene::new();
    let held = || podgate::edge::tether::is_held(&scene.root, "self");
    let leave = format!("echo $$ > {}; exec sleep 600", scene.root.join("left").display());
    let script = format!("setsid sh -c '{leave}' >/dev/null 2>&1 & sleep 600");
    let agent = parent(&scene, &[], &script).spawn();
    let left = until_written(&scene, "left");
    assert!(held());
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
    assert!(lives(&left), "what left the group is not podgate's to end");
    assert!(!held(), "no child inherits it");
    kill(&left);
}

#[test]
fn the_command_does_not_outlive_a_parent_that_is_killed() {
    let scene = Scene::new();
    let script = format!("echo $$ > {}; exec sleep 600", scene.root.join("pid").display());
    let agent = parent(&scene, &[], &script).spawn();
    let pid = until_written(&scene, "pid");
    agent.signal(Signal::KILL);
    wait_until("it dies too", || !lives(&pid));
    assert_eq!(agent.wait().code, 137);
}

#[test]
fn a_terminal_is_the_commands() {
    // `script` gives it a terminal; a command in the background would be stopped as soon as it reads.
    let scene = Scene::new();
    let agent = parent(&scene, &[], "read line; echo got $line; cat /proc/$$/stat; stty -a >/dev/null && exit 5");
    let words: Vec<String> = agent.arguments.iter().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let line = format!("{} {} ; echo parent $?; cat", crate::support::PROGRAM, words.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = script.spawn() else {
        eprintln!("skipped: no script(1) here");
        return;
    };
    let mut input = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    });
    std::io::Write::write_all(&mut input, b"hello\n\x04\x04").unwrap();
    let start = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(input);
    let _ = child.kill();
    let text = reader.join().unwrap();
    let _ = child.wait();
    assert!(text.contains("got hello") && text.contains("parent 5"), "{text}");
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_its_group() {
    let scene = Scene::new();
    let pid = scene.root.join("pid");
    let polite = format!("sleep 600 & echo $! > {}; wait", pid.display());
    let run = parent(&scene, &["--command-timeout", "200ms"], &polite).run();
    run.assert_failed(75, "the command timed out after 200ms");
    assert!(scene.termination_message().ends_with("timed out after 200ms"), "{}", scene.termination_message());
    assert_eq!(scene.report().unwrap().exit_code, Some(75));
    assert!(!lives(fs::read_to_string(&pid).unwrap().trim()));
    // Itself polite, with a child that is not.
    let torn = format!("(trap '' TERM; exec sleep 600) & echo $! > {}; wait", pid.display());
    assert_eq!(parent(&scene, &["--command-timeout", "200ms"], &torn).run().code, 75);
    wait_until("what was left of the group is gone", || !lives(fs::read_to_string(&pid).unwrap().trim()));
    // Deaf to TERM, with a child that is deaf too.
    let deaf = format!("trap '' TERM; sleep 600 & echo $! > {}; wait", pid.display());
    let run = parent(&scene, &["--command-timeout", "100ms", "--grace", "200ms"], &deaf).run();
    assert_eq!(run.code, 75);
    assert!(run.took >= Duration::from_millis(300) && run.took < Duration::from_secs(10), "{run:?}");
    assert!(scene.log_text().contains("the command did not end after SIGTERM; sending SIGKILL"));
    assert!(!lives(fs::read_to_string(&pid).unwrap().trim()));
}

#[test]
fn on_error_continue_makes_every_end_a_good_one() {
    let go_on = |flags: &[&str], script| {
        let flags: Vec<&str> = ["--on-error", "continue"].iter().chain(flags).copied().collect();
        run(&flags, script)
    };
    go_on(&[], "exit 3").assert_released();
    go_on(&[], "kill -9 $$").assert_released();
    go_on(&["--command-timeout", "50ms"], "sleep 600").assert_released();
    // What never ran has not failed.
    let scene = Scene::new();
    let run = scene.gate().flag("on-error", "continue").arg("--").arg("/nonexistent").run();
    run.assert_failed(127, "not found");
}

#[test]
fn a_command_that_has_failed_is_held_until_it_is_let_go() {
    let mut scene = Scene::with_controller();
    scene.set_state("db", State::Ready);
    let (go, post) = (scene.root.join("go"), scene.root.join("post"));
    let flags = ["--breakpoint", go.to_str().unwrap(), "--post-file", post.to_str().unwrap()];
    let hold = |script: &str| {
        let agent = parent(&scene, &flags, script).spawn();
        wait_until("it is held", || scene.log_text().contains("keeping the container until this file exists: touch"));
        std::thread::sleep(Duration::from_millis(30));
        agent
    };
    let mut agent = hold("exit 6");
    assert!(agent.is_running() && !scene.root.join("post.err").exists());
    assert_eq!(scene.report().unwrap().exit_code, None);
    fs::write(&go, "").unwrap();
    assert_eq!(agent.wait().code, 6);
    assert_eq!(fs::read_to_string(scene.root.join("post.err")).unwrap(), "6\n");
    assert_eq!(scene.report().unwrap().exit_code, Some(6));
    // TERM lets go too; what has been told to end is not held at all, nor what is well.
    fs::remove_file(&go).unwrap();
    fs::remove_file(&scene.log).unwrap();
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let agent = hold("exit 6");
        agent.signal(signal);
        assert_eq!(agent.wait().code, 6);
        fs::remove_file(&scene.log).unwrap();
    }
    assert_eq!(parent(&scene, &flags, "exit 0").run().code, 0);
    let up = scene.root.join("up");
    let agent = parent(&scene, &flags, &format!("echo x > {}; exec sleep 600", up.display())).spawn();
    until_written(&scene, "up");
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
}
