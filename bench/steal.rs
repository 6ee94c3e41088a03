//! Measures the processor time that the hypervisor gave to other machines: `steal` in `/proc/stat` (proc_stat(5)). If
//! the hypervisor takes a processor away for a tenth of a second, measurements in milliseconds are invalid.

/// The time of all processors since boot, in ticks.
pub(crate) struct Time {
    stolen: u64,
    all: u64,
}

impl Time {
    pub(crate) fn now() -> Time {
        let stat = std::fs::read_to_string("/proc/stat").expect("/proc/stat");
        let line = stat.lines().next().expect("a line for all processors");
        // The fields are: user nice system idle iowait irq softirq steal. The field user includes guest time.
        let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        Time { stolen: ticks.get(7).copied().unwrap_or(0), all: ticks.iter().sum() }
    }

    /// Returns the share of processor time that was stolen since `self`, from 0 to 1.
    pub(crate) fn stolen_since(&self) -> f64 {
        let now = Time::now();
        // Use saturating subtraction, because the kernel may decrease these counters.
        now.stolen.saturating_sub(self.stolen) as f64 / now.all.saturating_sub(self.all).max(1) as f64
    }
}
