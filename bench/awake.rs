//! With `--awake`, processors that never halt: a virtual one that does is given away by a busy hypervisor, and comes back some
//! milliseconds after it is needed. On hardware `/dev/cpu_dma_latency` is for that, as cyclictest(8) uses it; a guest has nothing
//! behind it. It is not the rule, since whatever starts processes, as a container runtime does, is slowed by it.

use std::num::NonZero;
use std::os::unix::process::parent_id;
use std::process::{Child, Command};
use std::thread::available_parallelism;

/// The word by which a benchmark runs itself as one of these processes.
const SPIN: &str = "spin";
/// The option that asks for them.
const WANTED: &str = "--awake";

/// None without the option; with it a process for each processor, which runs when nothing else wants to (`SCHED_IDLE`), and spins.
/// They end with this.
pub(crate) struct Awake(Vec<Child>);

impl Awake {
    /// To be called first. `None` says that this is one of those processes, and that its time is over.
    pub(crate) fn keep() -> Option<Awake> {
        if std::env::args().nth(1).is_some_and(|word| word == SPIN) {
            spin();
            return None;
        }
        if !std::env::args().any(|word| word == WANTED) {
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
