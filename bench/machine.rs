//! What a virtual machine does to whoever measures milliseconds in it.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Keeps all processors from sleeping, until it is dropped: to wake one up again can take the hypervisor many milliseconds, while it
/// has others to serve. Whatever else wants to run goes before these threads (`SCHED_IDLE`, sched(7)), and what shares a core with
/// them has nearly all of it (`PAUSE`).
pub(crate) struct Awake {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    pub(crate) fn begin() -> Awake {
        let over = Arc::new(AtomicBool::new(false));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = |_| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                let own = std::fs::read_link("/proc/thread-self").expect("/proc");
                let id = own.file_name().expect("a thread's number").to_owned();
                let done = Command::new("chrt").args(["--idle", "--pid", "0"]).arg(id).status();
                assert!(done.is_ok_and(|status| status.success()), "chrt of util-linux");
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..processors).map(spin).collect();
        Awake { over, threads }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// How the time of all processors went: what the hypervisor has given to other machines is `steal` in `/proc/stat`
/// (proc_stat(5)).
pub(crate) struct Time {
    stolen: u64,
    all: u64,
}

impl Time {
    pub(crate) fn now() -> Time {
        let stat = std::fs::read_to_string("/proc/stat").expect("/proc/stat");
        let line = stat.lines().next().expect("all processors");
        // user nice system idle iowait irq softirq steal; guest time is in user's.
        let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        Time { stolen: ticks.get(7).copied().unwrap_or(0), all: ticks.iter().sum() }
    }

    /// The share that was stolen since then, from 0 to 1.
    pub(crate) fn stolen_since(&self) -> f64 {
        let now = Time::now();
        (now.stolen - self.stolen) as f64 / (now.all - self.all).max(1) as f64
    }
}
