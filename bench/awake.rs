//! `--awake` keeps all processors from halting. A busy hypervisor takes a halted virtual processor away, and returns it
//! some milliseconds after it is needed. On hardware `/dev/cpu_dma_latency` does this, as in cyclictest(8); in a guest
//! it has no effect. The option is off by default, because it slows whatever starts processes, such as a container
//! runtime.

use std::num::NonZero;
use std::os::unix::process::parent_id;
use std::process::{Child, Command};
use std::thread::available_parallelism;

/// Argument with which a benchmark starts itself as a spinning process.
const SPIN: &str = "spin";
/// Command line option that enables the spinning processes.
const WANTED: &str = "--awake";

/// Spinning processes, one for each processor; none without `--awake`. They run only when nothing else does
/// (`SCHED_IDLE`), and end when this is dropped.
pub(crate) struct Awake(Vec<Child>);

impl Awake {
    /// Starts the processes. Must be called first in `main`. Returns `None` in a spinning process that should exit.
    pub(crate) fn keep() -> Option<Awake> {
        if std::env::args().nth(1).is_some_and(|word| word == SPIN) {
            spin();
            return None;
        }
        if !std::env::args().any(|word| word == WANTED) {
            return Some(Awake(Vec::new()));
        }
        let own = std::env::current_exe().expect("path of this program");
        let processors = available_parallelism().map_or(1, NonZero::get);
        let start = |processor: usize| {
            let mut command = Command::new("taskset");
            command.arg("--cpu-list").arg(processor.to_string()).args(["chrt", "--idle", "0"]).arg(&own).arg(SPIN);
            command.spawn().expect("taskset and chrt, of util-linux")
        };
        Some(Awake((0..processors).map(start).collect()))
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn spin() {
    let parent = parent_id();
    while parent_id() == parent {
        for _ in 0..10_000 {
            std::hint::spin_loop();
        }
    }
}
