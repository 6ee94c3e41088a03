//! Tests with a hostile container that keeps locks, leases or open descriptors on the sidecar's files. Such a container
//! has a read-only mount. It may have the sidecar's user id, as on OpenShift.

use super::*;
use podgate::core::report::GateState;
use podgate::edge::lock;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;

/// Process in another container. Opens a file read-only, and keeps a lock, a lease or a descriptor on the file.
struct Neighbor(Child);

impl Neighbor {
    /// Runs `attack` until it succeeds, and then keeps the result. `attack` is Python code on the descriptor `f`.
    fn spawn(path: &Path, attack: &str) -> Neighbor {
        let script = format!(
            "import fcntl, os, signal, struct, sys, time\n\
             signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
             f = os.open(sys.argv[1], os.O_RDONLY)\n\
             def take_again(*_):\n\
             \x20 fcntl.fcntl(f, 1024, fcntl.F_UNLCK)\n\
             \x20 while True:\n\
             \x20   try:\n\
             \x20     return fcntl.fcntl(f, 1024, fcntl.F_WRLCK)\n\
             \x20   except OSError:\n\
             \x20     time.sleep(0.001)\n\
             print('open', flush=True)\n\
             while True:\n\
             \x20 try:\n\
             \x20   {attack}\n\
             \x20   break\n\
             \x20 except OSError:\n\
             \x20   time.sleep(0.001)\n\
             print('held', flush=True)\n\
             time.sleep(600)"
        );
        let mut command = Command::new("python3");
        Neighbor(command.args(["-c", &script]).arg(path).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn wait_for(&mut self, lines: usize) {
        let output = BufReader::new(self.0.stdout.as_mut().unwrap());
        assert_eq!(output.lines().take(lines).filter(|line| line.is_ok()).count(), lines);
    }
}

impl Drop for Neighbor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Names and Python code of the attacks. Each attack needs only a descriptor for reading. `F_OFD_SETLK` is 37,
/// `F_SETLEASE` is 1024.
const ATTACKS: [(&str, &str); 5] = [
    ("a read lock", "fcntl.fcntl(f, 37, struct.pack('hhlli4x', fcntl.F_RDLCK, 0, 0, 0, 0))"),
    ("a lock of flock", "fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"),
    ("a read lease", "fcntl.fcntl(f, 1024, fcntl.F_RDLCK)"),
    ("a write lease", "fcntl.fcntl(f, 1024, fcntl.F_WRLCK)"),
    ("an open descriptor", "pass"),
];

const DB: &str = r#"[{"name":"db","mode":"post-start"}]"#;

#[test]
fn nothing_that_a_neighbor_keeps_on_a_file_stops_a_restarted_sidecar() {
    for file in [names::CONTROLLER_LOCK_FILE, names::ANNOTATIONS_FILE, names::SIDECAR_HOOK_SUCCESS_FILE, "bin/podgate"]
    {
        for (what, attack) in ATTACKS {
            if (file, what) == (names::ANNOTATIONS_FILE, "a write lease") {
                continue;
            }
            let pod = Pod::new();
            let first = pod.sidecar(DB, &[]);
            let revision = pod.board().revision;
            let mut neighbor = Neighbor::spawn(&pod.path("board").join(file), attack);
            first.end(Signal::KILL);
            neighbor.wait_for(2);
            let is_alive = lock::is_taken(&pod.path("board").join(names::CONTROLLER_LOCK_FILE)).unwrap();
            assert!(!is_alive, "{what} on {file}: agents believe that the sidecar runs");
            // This call fails if the sidecar does not start.
            let _second = pod.sidecar(DB, &[]);
            assert!(pod.board().revision > revision, "{what} on {file}: the revision has decreased");
            pod.report("db", Report::default());
            until(&format!("db is Ready, {what} on {file}"), || pod.state("db") == State::Ready);
        }
    }
}

/// Starts a sidecar that has to wait. Returns the sidecar when its log shows `reason`.
fn waiting_sidecar(pod: &Pod, reason: &str) -> Sidecar {
    let mut command = pod.command(&["--publish", "none", "--containers", DB]);
    command.stderr(File::create(pod.path("log")).unwrap());
    let sidecar = Sidecar { child: Some(command.spawn().unwrap()) };
    let log = || std::fs::read_to_string(pod.path("log")).unwrap();
    until(reason, || log().lines().any(|line| line.contains("WARN") && line.contains(reason)));
    sidecar
}

/// The restarted sidecar needs the old revision, and the old start time of the sandbox.
#[test]
fn restarted_sidecar_waits_for_the_end_of_a_lease_on_the_old_board() {
    let pod = Pod::new();
    let first = pod.sidecar(DB, &[]);
    let revision = pod.board().revision;
    let mut neighbor = Neighbor::spawn(&pod.path("board/annotations"), "fcntl.fcntl(f, 1024, fcntl.F_WRLCK)");
    first.end(Signal::KILL);
    neighbor.wait_for(2);
    let _second = waiting_sidecar(&pod, "waiting: another container has a lease on this file");
    drop(neighbor);
    until("the second sidecar runs", || lock::is_taken(&pod.path("board/controller")).unwrap());
    assert!(pod.board().revision > revision);
}

/// With SIGIO, the kernel asks the holder to release the lease. This holder then takes a new lease at once.
#[test]
fn lease_that_is_taken_again_delays_no_restarted_sidecar() {
    let pod = Pod::new();
    let first = pod.sidecar(DB, &[]);
    let revision = pod.board().revision;
    let attack = "fcntl.fcntl(f, 1024, fcntl.F_WRLCK); signal.signal(signal.SIGIO, take_again)";
    let mut neighbor = Neighbor::spawn(&pod.path("board/annotations"), attack);
    first.end(Signal::KILL);
    neighbor.wait_for(2);
    let _second = pod.sidecar(DB, &[]);
    assert!(pod.board().revision > revision);
}

#[test]
fn only_one_sidecar_of_a_pod_runs() {
    let pod = Pod::new();
    let first = pod.sidecar(DB, &[]);
    let epoch = pod.board().epoch;
    let inode = || std::fs::metadata(pod.path("board/controller")).unwrap().ino();
    let before = inode();
    let second = waiting_sidecar(&pod, "waiting for a lock: another sidecar of this Pod runs");
    assert_eq!((pod.board().epoch, inode()), (epoch.clone(), before), "the waiting sidecar has changed the board");
    first.end(Signal::KILL);
    until("the second sidecar runs", || pod.board().epoch != epoch && inode() != before);
    until("it holds the lock", || lock::is_taken(&pod.path("board/controller")).unwrap());
    assert_eq!(second.end(Signal::TERM).status.code(), Some(143));
}

/// The volume of the board is small. Each container that runs the agent keeps the agent's file on the volume, even
/// after the file is deleted.
#[test]
fn restarts_do_not_fill_the_board_with_open_agents() {
    let pod = Pod::new();
    let agent = pod.path("board/bin/podgate");
    let inode = || std::fs::metadata(&agent).unwrap().ino();
    pod.sidecar(DB, &[]).end(Signal::KILL);
    let (first, _open) = (inode(), File::open(&agent).unwrap());
    pod.sidecar(DB, &[]).end(Signal::KILL);
    assert_eq!(inode(), first, "the same agent was installed again");
    std::fs::remove_file(&agent).unwrap();
    std::fs::write(&agent, "an agent of another version").unwrap();
    let _sidecar = pod.sidecar(DB, &[]);
    assert_eq!(std::fs::read(&agent).unwrap(), std::fs::read(AGENT).unwrap());
}

#[test]
fn lease_on_a_file_of_a_running_sidecar_is_denied() {
    let pod = Pod::new();
    let _sidecar = pod.sidecar(DB, &[]);
    for file in [names::CONTROLLER_LOCK_FILE, names::ANNOTATIONS_FILE, "bin/podgate"] {
        let mut neighbor = Neighbor::spawn(&pod.path("board").join(file), "fcntl.fcntl(f, 1024, fcntl.F_WRLCK)");
        neighbor.wait_for(1);
        std::thread::sleep(Duration::from_millis(300));
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
        let opened = rustix::fs::open(pod.path("board").join(file), flags, rustix::fs::Mode::empty());
        assert!(opened.is_ok(), "{file}: {opened:?}");
    }
}

/// A deleted file uses the memory of the volume as long as a container has it open.
#[test]
fn board_is_written_although_its_old_files_fill_the_volume() {
    let pod = Pod::new();
    let board = pod.path("board").display().to_string();
    let containers = r#"[{"name":"db","mode":"entrypoint"},{"name":"web","mode":"entrypoint"}]"#;
    let mut command = pod.command(&["--publish", "none", "--containers", containers]);
    command.env("PODGATE_AGENT", "agent");
    std::fs::write(pod.path("agent"), "a small agent").unwrap();
    let setup = format!("mount -t tmpfs -o size=64k none {board}");
    let Some(mut command) = api::in_namespaces(&command, &setup) else { return };
    command.stderr(Stdio::null());
    let sidecar = Sidecar { child: Some(command.spawn().unwrap()) };
    let board = PathBuf::from(format!("/proc/{}/root{board}", sidecar.child.as_ref().unwrap().id()));
    let read = || source::read_board(&board).ok();
    until("the board is set up", || {
        read().is_some() && lock::is_taken(&board.join(names::CONTROLLER_LOCK_FILE)).unwrap()
    });
    let report = |container: &str, round: usize| {
        let gate = Some(if round == 0 { GateState::Waiting } else { GateState::Opened });
        let board = read().unwrap();
        let report = Report { gate, ticket: Some(format!("t{round}")), ..Report::default() };
        let report = Report { sandbox: Some(board.sandbox), epoch: board.epoch, started: round > 0, ..report };
        files::replace(&pod.path("self").join(container), names::REPORT_FILE, report.to_text().as_bytes(), 0o644)
            .unwrap();
    };
    let mut open = Vec::new();
    for round in 0..24 {
        open.push(File::open(board.join(names::ANNOTATIONS_FILE)).unwrap());
        let before = read().unwrap().revision;
        report("db", round);
        until("the board shows the change", || read().is_some_and(|board| board.revision > before));
    }
    let inodes: std::collections::BTreeSet<u64> = open.iter().map(|file| file.metadata().unwrap().ino()).collect();
    assert!(inodes.len() < open.len(), "the volume is not full");
    report("web", 1);
    until("web is Ready", || read().is_some_and(|board| board.states["web"] == State::Ready));
}

#[test]
fn open_ends_of_the_bell_do_not_block_the_sidecar() {
    let pod = Pod::new();
    let _sidecar = pod.sidecar(DB, &[]);
    let bell = pod.path("board").join(names::BELL_FILE);
    let open = |flags| rustix::fs::open(&bell, flags | rustix::fs::OFlags::NONBLOCK, rustix::fs::Mode::empty());
    // No process ever reads from these descriptors. Root can also open the bell for writing.
    let mut held: Vec<_> = (0..64).map(|_| open(rustix::fs::OFlags::RDONLY).unwrap()).collect();
    held.extend(open(rustix::fs::OFlags::RDWR));
    pod.report("db", Report::default());
    until("db is Ready", || pod.state("db") == State::Ready);
}

/// A container owns the files in its own directory, so it can take leases on them.
#[test]
fn lease_in_a_directory_does_not_delay_the_reports_of_others() {
    let pod = Pod::new();
    let _sidecar = pod.sidecar(r#"[{"name":"evil","mode":"post-start"},{"name":"db","mode":"post-start"}]"#, &[]);
    let mut neighbors = [names::REPORT_FILE, names::TETHER_FILE]
        .map(|file| Neighbor::spawn(&pod.path("self/evil").join(file), "fcntl.fcntl(f, 1024, fcntl.F_WRLCK)"));
    neighbors.iter_mut().for_each(|neighbor| neighbor.wait_for(2));
    pod.report("db", Report::default());
    until("db is Ready", || pod.state("db") == State::Ready);
}
