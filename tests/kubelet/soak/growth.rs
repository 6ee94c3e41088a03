//! Memory and open descriptors of podgate's processes in the Pods that stay through the whole run.

use std::collections::BTreeMap;
use std::fs;

/// One process: its label, its pid, and its start time, so that a restart begins a new series.
type ProcessKey = (String, u32, u64);

/// Names of the measured values, each with the growth that is allowed in addition to a quarter of the value. A heap
/// reaches its full size only after some requests. A retried connection or an answered probe keeps a descriptor open
/// for a moment.
const VALUES: [(&str, u64); 2] = [("KiB of memory", 1024), ("descriptors", 4)];

/// The measurements of all processes so far.
#[derive(Debug, Default)]
pub(super) struct Growth {
    series: BTreeMap<ProcessKey, Vec<[u64; VALUES.len()]>>,
    rounds: usize,
}

impl Growth {
    /// Measures podgate's processes in the Pods of `pods`, which are pairs of a uid and a name.
    pub(super) fn sample(&mut self, pods: &BTreeMap<String, String>) {
        self.rounds += 1;
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            // A process may end at any moment: skip it then.
            if let Some((key, values)) = measure(pid, pods) {
                self.series.entry(key).or_default().push(values);
            }
        }
    }

    /// Returns two lists of lines. The first has a line for each process that lived for half of the run. The second has
    /// the lines of the processes that grew from the first third of their samples to the last third.
    pub(super) fn report(&self) -> (Vec<String>, Vec<String>) {
        let (mut lines, mut grown) = (Vec::new(), Vec::new());
        for ((label, pid, _), samples) in self.series.iter().filter(|(_, all)| all.len() * 2 >= self.rounds.max(12)) {
            let (mut line, mut has_grown) = (format!("{label} ({pid}), {} samples", samples.len()), false);
            for (index, (what, slack)) in VALUES.iter().enumerate() {
                let median = |part: &[[u64; VALUES.len()]]| {
                    let mut values: Vec<u64> = part.iter().map(|values| values[index]).collect();
                    values.sort_unstable();
                    values[values.len() / 2]
                };
                let third = samples.len() / 3;
                let (first, last) = (median(&samples[..third]), median(&samples[samples.len() - third..]));
                line.push_str(&format!(", {what} {first} -> {last}"));
                has_grown |= last > first + first / 4 + slack;
            }
            grown.extend(has_grown.then(|| line.clone()));
            lines.push(line);
        }
        (lines, grown)
    }
}

fn measure(pid: u32, pods: &BTreeMap<String, String>) -> Option<(ProcessKey, [u64; VALUES.len()])> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    if !read("comm")?.starts_with("podgate") {
        return None;
    }
    let cgroup = read("cgroup")?;
    let (_, pod) = pods.iter().find(|(uid, _)| cgroup.contains(uid.as_str()))?;
    let command = read("cmdline")?;
    let label = format!("{pod}: {}", command.split('\0').take(4).collect::<Vec<_>>().join(" ").trim_end());
    let start = read("stat")?.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    let status = read("status")?;
    let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let memory_kib = memory.split_whitespace().next()?.parse().ok()?;
    Some(((label, pid, start), [memory_kib, fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64]))
}
