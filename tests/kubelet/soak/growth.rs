//! Memory and open descriptors of podgate's processes in the Pods that stay through the whole run.

use std::collections::{BTreeMap, BTreeSet};
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
    /// For each process, the round of its first sample, and its samples.
    series: BTreeMap<ProcessKey, (usize, Vec<[u64; VALUES.len()]>)>,
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
                self.series.entry(key).or_insert_with(|| (self.rounds, Vec::new())).1.push(values);
            }
        }
    }

    /// Returns two lists of lines. The first has a line for each process that lived for half of the run. The second has
    /// the lines of the processes that grew from the first third of their samples to the last third.
    pub(super) fn report(&self) -> (Vec<String>, Vec<String>) {
        let (mut lines, mut grown) = (Vec::new(), Vec::new());
        let long = self.series.iter().filter(|(_, (_, samples))| samples.len() * 2 >= self.rounds.max(12));
        for ((label, pid, _), (_, samples)) in long {
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

    /// Draws the samples of all processes over time as an SVG picture: one field for each value, one color for each
    /// Pod. A process that ends leaves its line, and the next one of its Pod begins a new line in the same color.
    pub(super) fn picture(&self) -> String {
        const WIDTH: f64 = 720.0;
        const HEIGHT: f64 = 240.0;
        let pods: BTreeSet<&str> = self.series.keys().map(|(label, ..)| pod_of(label)).collect();
        let color = |pod: &str| {
            let index = pods.iter().position(|other| *other == pod).unwrap_or_default();
            format!("hsl({}, 70%, 40%)", 360 * index / pods.len().max(1))
        };
        let mut svg = String::new();
        for (index, (what, _)) in VALUES.iter().enumerate() {
            let top = 20.0 + index as f64 * (HEIGHT + 40.0);
            let samples = || self.series.values().flat_map(|(_, samples)| samples);
            let max = samples().map(|values| values[index]).max().unwrap_or(0).max(1);
            svg += &format!(
                "<text x='10' y='{}'>{what}, at most {max}; {} rounds of 5 s</text>\n",
                top - 6.0,
                self.rounds
            );
            svg += &format!("<rect x='10' y='{top}' width='{WIDTH}' height='{HEIGHT}' fill='none' stroke='gray'/>\n");
            for ((label, ..), (from, samples)) in &self.series {
                let point = |(at, values): (usize, &[u64; VALUES.len()])| {
                    let x = 10.0 + WIDTH * (from + at) as f64 / self.rounds.max(1) as f64;
                    format!("{x:.1},{:.1}", top + HEIGHT * (1.0 - values[index] as f64 / max as f64))
                };
                let points: Vec<String> = samples.iter().enumerate().map(point).collect();
                let (points, color) = (points.join(" "), color(pod_of(label)));
                svg += &format!(
                    "<polyline points='{points}' fill='none' stroke='{color}'><title>{}</title></polyline>\n",
                    label.replace(['<', '&'], "_")
                );
            }
        }
        for (index, pod) in pods.iter().enumerate() {
            svg += &format!("<text x='740' y='{}' fill='{}'>{pod}</text>\n", 36 + 18 * index, color(pod));
        }
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' width='920' height='580' font-family='sans-serif' font-size='13'>\n<rect width='920' height='580' fill='white'/>\n{svg}</svg>\n"
        )
    }
}

/// Returns the name of the Pod in a process's label.
fn pod_of(label: &str) -> &str {
    label.split(": ").next().unwrap_or_default()
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
