//! Processor time that the hypervisor has given to other machines than this: `steal` in `/proc/stat` (proc_stat(5)). Who measures
//! milliseconds has to know of it: a processor that is away for a tenth of a second takes everything with it.

/// How the time of all processors went so far, in ticks.
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
        // The kernel does not promise that no counter ever goes back.
        now.stolen.saturating_sub(self.stolen) as f64 / now.all.saturating_sub(self.all).max(1) as f64
    }
}
