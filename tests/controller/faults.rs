//! Tests of the sidecar with a faulty kernel, sandbox or volume.

use super::*;
use crate::clock_step::library;
use podgate::edge::lock;
use std::fs;

#[test]
fn signal_ends_the_sidecar_before_it_has_set_up_the_board() {
    for fault in ["unwritable", "locked"] {
        let pod = Pod::new();
        let board = pod.path("board");
        let _held = lock::take(&board.join(names::CONTROLLER_FILE)).unwrap().filter(|_| fault == "locked");
        if fault == "unwritable" {
            fs::create_dir_all(board.join(names::ANNOTATIONS_FILE).join("file")).unwrap();
        }
        let mut command = pod.command(&["--publish", "board", "--containers", "[]"]);
        let sidecar = Sidecar { child: Some(command.spawn().unwrap()) };
        until("the sidecar has created its agent", || board.join("bin/podgate").exists());
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(sidecar.end(Signal::TERM).status.code(), Some(143), "{fault}");
    }
}

#[test]
fn states_are_published_without_a_bell() {
    let pod = Pod::new();
    // The sidecar can't remove this folder, so it can't create the FIFO.
    fs::create_dir_all(pod.path("board/.bell.tmp/file")).unwrap();
    let sidecar = pod.sidecar(r#"[{"name":"db","mode":"post-start"}]"#, &[]);
    pod.report("db", Report::default());
    until("db is Ready", || pod.state("db") == State::Ready);
    let log = stderr(&sidecar.end(Signal::TERM));
    assert_eq!((log.matches("WARN").count(), log.matches("can't create the bell").count()), (1, 1), "{log}");
}

#[test]
fn refused_lock_has_an_error_message() {
    let pod = Pod::new();
    let mut command = pod.command(&["--publish", "board", "--containers", "[]"]);
    let output = command.env("LD_PRELOAD", library(&pod, "no_ofd_locks")).output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("open-file-description locks"), "{}", stderr(&output));
}
