//! Tests on a mount whose file system does not answer, such as NFS without its server. A process that touches the mount
//! cannot be killed.

use crate::needs::missing;
use crate::support::{Agent, Scene, Shell, wait_until};
use std::path::{Path, PathBuf};

/// Script that mounts a FUSE file system at `sys.argv[1]`. The script answers only the first request, with a flag that
/// permits several lookups at a time. With `not-found` in `sys.argv[4]`, it answers all later requests with an error.
/// The script ends after 30 s, which fails all requests, so that a test never hangs.
const SERVER: &str = "import ctypes, os, signal, struct, sys
signal.alarm(30)
device = os.open('/dev/fuse', os.O_RDWR)
options = f'fd={device},rootmode=40000,user_id=0,group_id=0'.encode()
mounted = ctypes.CDLL(None).mount(b'dead', sys.argv[1].encode(), b'fuse', 0, options)
request = os.read(device, 1 << 17)
init = struct.pack('IIIIHHIIHHI7I', 7, 31, 0, 1 << 18, 1, 1, 4096, 1, 1, 0, *[0] * 8)
def answer(error, text):
    os.write(device, struct.pack('IiQ', 16 + len(text), error, *struct.unpack('Q', request[8:16])) + text)
answer(0, init)
open(sys.argv[2], 'w').write('mounted')
while True:
    request = os.read(device, 1 << 17)
    open(sys.argv[3], 'a').write('.')
    if 'not-found' in sys.argv:
        answer(-2, b'')
";

/// A shell that sees the mount, and a scene for the agent's files.
struct DeadMount {
    shell: Shell,
    scene: Scene,
    directory: String,
}

impl DeadMount {
    /// Creates the mount. Returns `None` if the machine does not permit the mount and the test may be skipped.
    fn new() -> Option<DeadMount> {
        DeadMount::with_argument("")
    }

    fn with_argument(argument: &str) -> Option<DeadMount> {
        let mut shell = Shell::in_namespaces(&["--user", "--map-root-user", "--mount"])?;
        let mut scene = Scene::new();
        scene.log = shell.log.clone();
        let at = |name: &str| scene.root.join(name);
        std::fs::create_dir(at("data")).unwrap();
        std::fs::write(at("server.py"), SERVER).unwrap();
        let [script, directory, ready, requests] =
            ["server.py", "data", "mounted", "requests"].map(|name| at(name).display().to_string());
        let line = format!(
            "python3 {script} {directory} {ready} {requests} {argument} </dev/null >/dev/null 2>&1 & server=$!"
        );
        assert_eq!(shell.run(&line), 0);
        let mut is_running = true;
        wait_until("the server has started or failed", || {
            is_running = shell.run("kill -0 $server") == 0;
            at("mounted").exists() || !is_running
        });
        if !is_running {
            missing("fuse");
        }
        is_running.then_some(DeadMount { shell, scene, directory })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scene.root.join(name)
    }

    fn requests(&self) -> usize {
        std::fs::read_to_string(self.at("requests")).unwrap_or_default().len()
    }

    /// Starts the agent in the background. Returns once the agent or its child waits for the file system.
    fn start(&mut self, agent: &Agent) {
        let before = self.requests();
        self.shell.start_agent(agent, &self.at("errors"));
        wait_until("a process waits for the file system", || self.requests() > before);
    }

    /// Asserts that the agent exits with `code` while the file system does not answer. Returns the agent's standard
    /// error.
    #[track_caller]
    fn wait(&mut self, code: i32) -> String {
        let found = self.shell.wait_for_agent();
        let errors = std::fs::read_to_string(self.at("errors")).unwrap();
        assert_eq!(self.shell.run("kill -0 $server"), 0, "the agent waited for the file system: {errors}");
        assert_eq!(found, code, "{errors}");
        errors
    }

    #[track_caller]
    fn run(&mut self, agent: &Agent, code: i32) -> String {
        self.shell.start_agent(agent, &self.at("errors"));
        self.wait(code)
    }
}

/// Returns one check of each kind that touches the mount. A second lookup of a name would wait for the first one
/// instead of the file system, so `salt` makes the names unique.
fn checks(directory: &str, salt: &str) -> Vec<String> {
    let exec = |words: &[&str]| format!("exec:{}", serde_json::to_string(words).unwrap());
    vec![
        format!("file://{directory}/file-{salt}"),
        format!("file://{directory}/content-{salt}+content"),
        format!("file://{directory}"),
        format!("unix://{directory}/sock-{salt}"),
        format!("mount://{directory}"),
        exec(&[&format!("{directory}/program-{salt}")]),
        exec(&["cat", &format!("{directory}/argument-{salt}")]),
    ]
}

#[test]
fn check_ends_at_its_time_limit() {
    let Some(mut mount) = DeadMount::new() else { return };
    for check in checks(&mount.directory, "") {
        let agent = Agent::new(&["check", &check, "--check-timeout", "200ms"], Path::new("/nonexistent"));
        let errors = mount.run(&agent, 69);
        assert!(errors.ends_with("timed out\n"), "{check}: {errors}");
    }
}

#[test]
fn gate_ends_at_its_time_limit_and_by_a_signal() {
    let Some(mut mount) = DeadMount::new() else { return };
    let gate = |mount: &DeadMount, check: &str, timeout: &str| {
        let gate = mount.scene.gate().flag("check", check).flag("check-timeout", "200ms");
        gate.flag("timeout", timeout).with_command(&["true"])
    };
    for check in checks(&mount.directory, "short") {
        mount.run(&gate(&mount, &check, "1s"), 75);
    }
    for check in checks(&mount.directory, "long") {
        mount.start(&gate(&mount, &check, "10m"));
        assert_eq!(mount.shell.run("kill -TERM $!"), 0);
        mount.wait(143);
    }
}

#[test]
fn parent_forwards_signals_and_reports_the_end() {
    let Some(mut mount) = DeadMount::new() else { return };
    for check in checks(&mount.directory, "") {
        let script = format!("trap 'exit 3' TERM; touch {}; while :; do sleep 0.01; done", mount.at("up").display());
        let parent = mount.scene.gate().flag("ready-check", &check).with_command(&["sh", "-c", &script]);
        mount.start(&parent);
        wait_until("the command runs", || mount.at("up").exists());
        assert_eq!(mount.shell.run("kill -TERM $!"), 0);
        mount.wait(3);
        assert_eq!(mount.scene.report().unwrap().exit_code, Some(3), "{check}");
        std::fs::remove_file(mount.at("up")).unwrap();
    }
}

#[test]
fn post_file_delays_no_end() {
    let Some(mut mount) = DeadMount::new() else { return };
    let post_file = format!("{}/2", mount.directory);
    let gate = |check: &str| mount.scene.gate().flag("post-file", &post_file).flag("check", check);
    let waiting = gate(&format!("file://{}/1", mount.directory)).flag("timeout", "1s").with_command(&["true"]);
    let passing = gate("file:///").with_command(&["true"]);
    mount.run(&waiting, 75);
    mount.run(&passing, 78);
    let message = mount.scene.termination_message();
    assert!(message.contains("cannot write the post file") && message.contains("timed out"), "{message}");
}

#[test]
fn command_of_a_hook_ends_at_the_time_limit() {
    let Some(mut mount) = DeadMount::new() else { return };
    let then = |mount: &DeadMount, words: [&str; 2]| {
        let path = format!("{}/{}", mount.directory, words[1]);
        serde_json::to_string(&[words[0], &path][usize::from(words[0].is_empty())..]).unwrap()
    };
    for (program, name) in [("", "one"), ("cat", "two")] {
        let command = then(&mount, [program, name]);
        let hook = mount.scene.hook().flag("then", command).flag("timeout", "1s").flag("check", "file:///");
        let errors = mount.run(&hook, 75);
        assert!(errors.contains("was still running at the time limit"), "{errors}");
        let command = then(&mount, [program, &format!("stop-{name}")]);
        let errors = mount.run(&mount.scene.pre_stop().flag("then", command).flag("grace", "1s"), 75);
        assert!(errors.contains("was still running at the time limit"), "{errors}");
    }
}

#[test]
fn command_on_the_mount_ends_at_its_time_limit() {
    let Some(mut mount) = DeadMount::new() else { return };
    let limits = |gate: Agent| gate.flag("command-timeout", "500ms").flag("grace", "100ms");
    for words in
        [vec![format!("{}/program", mount.directory)], vec!["cat".to_owned(), format!("{}/file", mount.directory)]]
    {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let parent = limits(mount.scene.gate()).with_command(&words);
        let errors = mount.run(&parent, 75);
        assert!(errors.contains("the command timed out"), "{errors}");
        assert_eq!(mount.scene.report().unwrap().exit_code, Some(75), "{words:?}");
    }
}

/// The agent sleeps a millisecond between two attempts to reap a process, so the number of sleeps shows a long wait.
#[test]
fn agent_does_not_wait_for_a_child_that_cannot_end() {
    let Some(mut mount) = DeadMount::new() else { return };
    let gate = mount.scene.gate().flag("check", format!("mount://{}", mount.directory)).flag("check-timeout", "200ms");
    mount.start(&gate.flag("timeout", "10m").with_command(&["true"]));
    let pid_file = mount.at("pid");
    mount.shell.run(&format!("echo $! >{}", pid_file.display()));
    wait_until("the check times out", || mount.scene.termination_message().ends_with("(timed out)"));
    let pid = std::fs::read_to_string(pid_file).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap();
    let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    assert!(sleeps.trim().parse::<u32>().unwrap() < 400, "{sleeps} sleeps");
    assert_eq!(mount.shell.run("kill -TERM $!"), 0);
    mount.wait(143);
}

/// Only child processes send requests to the server, because the agent itself reads only the kernel's cache.
#[test]
fn waiting_for_a_missing_file_starts_few_processes() {
    let Some(mut mount) = DeadMount::with_argument("not-found") else { return };
    let gate = mount.scene.gate().flag("check", format!("file://{}/ready", mount.directory)).flag("timeout", "3s");
    mount.run(&gate.with_command(&["true"]), 75);
    let message = mount.scene.termination_message();
    assert!(message.contains("(not found)"), "{message}");
    let requests = mount.requests();
    assert!((2..=12).contains(&requests), "{requests} requests in 3 s");
}
