//! Tests of `--stdout` and `--stderr`, which copy the command's output to a file.

use crate::parent::parent;
use crate::support::{Scene, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn output_is_copied_completely_and_in_order() {
    let scene = Scene::new();
    let (out, err) = (scene.root.join("out"), scene.root.join("err"));
    let flags = ["--stdout", out.to_str().unwrap(), "--stderr", err.to_str().unwrap()];
    fs::write(&out, "left by an earlier run").unwrap();
    let run = parent(&scene, &flags, "seq 1 200000; echo bad >&2; echo the end; exit 4").run();
    assert_eq!((run.code, run.stderr.as_str()), (4, "bad\n"));
    assert!(run.stdout.starts_with("1\n2\n") && run.stdout.ends_with("200000\nthe end\n"));
    assert_eq!(fs::read_to_string(&out).unwrap(), run.stdout);
    assert_eq!(fs::read_to_string(&err).unwrap(), "bad\n");
    // Both streams go to the same file.
    let flags = ["--stdout", out.to_str().unwrap(), "--stderr", out.to_str().unwrap()];
    parent(&scene, &flags, "echo a; sleep 0.1; echo b >&2; sleep 0.1; echo c").run();
    assert_eq!(fs::read_to_string(&out).unwrap(), "a\nb\nc\n");
    // The command closes a stream before it ends.
    let flags = ["--stdout", out.to_str().unwrap()];
    parent(&scene, &flags, "seq 1 20000; exec >&-; sleep 0.2").run();
    assert!(fs::read_to_string(&out).unwrap().ends_with("\n20000\n"));
    assert!(!scene.log_text().contains("WARN"), "{}", scene.log_text());
}

#[test]
fn grandchild_with_an_open_pipe_delays_no_exit() {
    let scene = Scene::new();
    let out = scene.root.join("out");
    let pid = scene.root.join("pid");
    let flags = ["--stdout", out.to_str().unwrap()];
    for grandchild in ["sleep 600", "yes"] {
        let script =
            format!("setsid {grandchild} 2>/dev/null & echo $! > {}; echo done; sleep 0.2; exit 0", pid.display());
        let run = parent(&scene, &flags, &script).run();
        assert_eq!(run.code, 0);
        assert!(run.stdout.contains("done\n"));
        let _ = Command::new("kill").arg("-9").arg(fs::read_to_string(&pid).unwrap().trim()).status();
    }
}

#[test]
fn a_full_disk_ends_only_the_copy() {
    let scene = Scene::new();
    let run = parent(&scene, &["--stdout", "/dev/full"], "seq 1 50000; exit 4").run();
    assert_eq!(run.code, 4);
    assert!(run.stdout.ends_with("50000\n") && run.stdout.starts_with("1\n"));
    let warnings = scene.log_text().matches("cannot copy the command's output any more").count();
    assert_eq!(warnings, 1, "{}", scene.log_text());
}

#[test]
fn a_killed_child_ends_only_the_copy() {
    let scene = Scene::new();
    let out = scene.root.join("out");
    let kill = "kill -9 $(cat /proc/$PPID/task/$PPID/children | tr ' ' '\n' | grep -vx $$)";
    for script in [format!("{kill}; seq 1 50000; exit 4"), format!("echo; {kill}; exit 4")] {
        let run = parent(&scene, &["--stdout", out.to_str().unwrap()], &script).run();
        assert_eq!(run.code, 4);
        let log = scene.log_text();
        assert_eq!(log.matches("its process was killed").count(), 1, "{log}");
        scene.log.clear();
    }
}

#[test]
fn a_copy_that_cannot_be_opened_is_a_setup_error() {
    let scene = Scene::new();
    let fifo = scene.root.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let touched = scene.root.join("touched");
    for path in ["/nonexistent/out", "/", "/dev/stdin", fifo.to_str().unwrap()] {
        let run = parent(&scene, &["--stdout", path], &format!("touch {}", touched.display())).run();
        run.assert_failed(78, &format!("cannot copy the command's output to {path}: "));
        assert!(!touched.exists());
    }
}

/// Another container can create a link in a shared directory.
#[test]
fn output_never_goes_through_a_link() {
    for flag in ["--stdout", "--stderr", "--termination-log"] {
        let scene = Scene::new();
        let (victim, link) = (scene.root.join("victim"), scene.root.join("link"));
        fs::write(&victim, "podgate: content").unwrap();
        for target in [&victim, &scene.root.join("missing")] {
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(target, &link).unwrap();
            let agent = scene.gate().without_flag(&flag[2..]).arg(flag).arg(&link);
            let run = agent.with_command(&["sh", "-c", "echo out; echo err >&2"]).run();
            assert_eq!(fs::read_to_string(&victim).unwrap(), "podgate: content", "{flag}");
            assert!(!scene.root.join("missing").exists(), "{flag}");
            if flag.starts_with("--std") {
                assert_eq!(run.code, 78, "{run:?}");
                assert!(run.stderr.contains("podgate does not follow this link"), "{run:?}");
            } else {
                assert_eq!(run.code, 0, "{run:?}");
            }
        }
    }
}

#[test]
fn output_may_go_to_the_links_of_the_container_runtime() {
    let scene = Scene::new();
    for path in ["/dev/stderr", "/proc/self/fd/2", "/dev/null"] {
        let run = parent(&scene, &["--stdout", path], "echo out").run();
        let errors = if path == "/dev/null" { "" } else { "out\n" };
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "out\n", errors), "{path}");
    }
}

#[test]
fn a_slow_reader_loses_no_output_and_delays_no_signal() {
    let scene = Scene::new();
    let out = scene.root.join("out");
    let script = "trap 'echo term; exit 3' TERM; (trap '' TERM; exec seq 1 100000); while :; do sleep 0.01; done";
    let mut command = parent(&scene, &["--stdout", out.to_str().unwrap()], script).command();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut reader = child.stdout.take().unwrap();
    // Nothing reads the output, so the pipes fill up. podgate must still handle signals.
    let pending = || rustix::io::ioctl_fionread(reader.as_fd()).unwrap();
    wait_until("the pipe is full", || pending() >= 60_000);
    std::thread::sleep(Duration::from_millis(50));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(text.ends_with("100000\nterm\n"), "{}", &text[text.len() - 50..]);
    assert_eq!(text.lines().count(), 100_001);
    assert_eq!(fs::read_to_string(&out).unwrap(), text);
}

#[test]
fn output_to_a_file_or_a_socket_is_copied_too() {
    let scene = Scene::new();
    let out = scene.root.join("out");
    let command = || parent(&scene, &["--stdout", out.to_str().unwrap()], "seq 1 100000; exit 4").command();
    // A file in append mode keeps its content.
    let path = scene.root.join("file");
    fs::write(&path, "before\n").unwrap();
    let file = fs::File::options().append(true).open(&path).unwrap();
    assert_eq!(command().stdout(file).stderr(Stdio::null()).status().unwrap().code(), Some(4));
    let copied = fs::read_to_string(&out).unwrap();
    assert!(copied.starts_with("1\n") && copied.ends_with("100000\n"));
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("before\n{copied}"));
    // Use a socket that the test reads only after a pause, when the socket is full.
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut child = command().stdout(std::os::fd::OwnedFd::from(theirs)).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let mut text = String::new();
    ours.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert_eq!(text, copied);
}

#[test]
fn a_closed_output_pipe_does_not_end_the_command() {
    let scene = Scene::new();
    let out = scene.root.join("out");
    let mut command = parent(&scene, &["--stdout", out.to_str().unwrap()], "seq 1 50000; exit 4").command();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert!(fs::read_to_string(&out).unwrap().ends_with("50000\n"));
}
