//! The option `--awake` of the benchmarks, which keeps the processors from halting. A busy hypervisor gives a halted
//! virtual processor to another machine, and returns the processor some milliseconds too late. On hardware,
//! `/dev/cpu_dma_latency` prevents halts: cyclictest(8) uses this file. In a virtual machine, the file has no effect.
//! `--awake` is not the default, because it slows down programs that start processes, such as a container runtime.

use std::num::NonZero;
use std::os::unix::process::parent_id;
use std::process::{Child, Command};
use std::thread::available_parallelism;

/// The argument that makes a benchmark run as one of the spinning processes.
const SPIN: &str = "spin";
/// The option that starts the spinning processes.
const OPTION: &str = "--awake";

/// Spinning processes, one for each processor, which use only idle time (`SCHED_IDLE`). The list is empty without
/// `--awake`. The processes are killed on drop.
pub(crate) struct Awake(Vec<Child>);

impl Awake {
    /// Starts the processes. Call this first in `main`. Returns `None` in a spinning process whose parent has exited.
    pub(crate) fn keep() -> Option<Awake> {
        if std::env::args().nth(1).is_some_and(|word| word == SPIN) {
            spin();
            return None;
        }
        if !std::env::args().any(|word| word == OPTION) {
            return Some(Awake(Vec::new()));
        }
        let own = std::env::current_exe().expect("this program's path");
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
