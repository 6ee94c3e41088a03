//! Reads the logs of all incarnations of a Pod's containers from the node. Works without the API server, and keeps the
//! logs that the kubelet deletes.

use crate::cluster::{incarnations, run_script};
use crate::incarnation_log::IncarnationLog;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// A container's name, the number of its incarnation, and the inode of the file. After a new sandbox, the kubelet can
/// count a native sidecar's incarnations from 0 again.
type IncarnationKey = (String, u32, u64);

#[derive(Debug)]
struct LogFile {
    file: File,
    text: Vec<u8>,
}

type LogFiles = BTreeMap<IncarnationKey, LogFile>;

/// Follows the logs of one Pod in a thread, which ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct NodeLogs {
    namespace: String,
    pod: String,
    files: Arc<Mutex<LogFiles>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NodeLogs {
    pub(crate) fn follow(namespace: &str, pod: &str) -> NodeLogs {
        let root = PathBuf::from(run_script(&["pod-logs"]).trim());
        let (files, stop) = (Arc::<Mutex<LogFiles>>::default(), Arc::<AtomicBool>::default());
        let thread = {
            let (files, stop, prefix) = (Arc::clone(&files), Arc::clone(&stop), format!("{namespace}_{pod}_"));
            spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    read_new_text(&root, &prefix, &mut files.lock().unwrap_or_else(PoisonError::into_inner));
                    sleep(Duration::from_millis(25));
                }
            })
        };
        NodeLogs { namespace: namespace.to_owned(), pod: pod.to_owned(), files, stop, thread: Some(thread) }
    }

    /// Returns the logs of all incarnations that have logged something, sorted by container and incarnation.
    pub(crate) fn incarnation_logs(&self) -> Vec<IncarnationLog> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lives: Vec<IncarnationLog> = Vec::new();
        for ((name, attempt, _), log) in files.iter() {
            let lines = json_lines(&log.text);
            // A file has more than one incarnation if the kubelet has used its number twice.
            let starts = lines.iter().enumerate().filter(|(_, line)| line["event"] == "start").skip(1);
            let ends = starts.map(|(at, _)| at).chain([lines.len()]);
            let mut begin = 0;
            lives.extend(ends.map(|end| {
                let life = IncarnationLog::parse(name, *attempt, &lines[begin..end]);
                begin = end;
                life
            }));
        }
        let first = |life: &IncarnationLog| life.events.first().map_or(f64::MAX, |event| event.ms);
        lives.sort_by(|a, b| (&a.name, a.attempt).cmp(&(&b.name, b.attempt)).then(first(a).total_cmp(&first(b))));
        for at in 1..lives.len() {
            let (before, here) = lives.split_at_mut(at);
            if here[0].name == before[at - 1].name {
                here[0].attempt = here[0].attempt.max(before[at - 1].attempt + 1);
            }
        }
        lives
    }

    /// Returns the logs of all incarnations, like [`incarnation_logs`](Self::incarnation_logs). Adds the end times of
    /// killed incarnations: from containerd's records, or the next start at the latest.
    pub(crate) fn logs_with_ends(&self) -> Vec<IncarnationLog> {
        let known = incarnations(&self.namespace, &self.pod);
        let mut lives = self.incarnation_logs();
        for life in &mut lives {
            let end = known.iter().find(|i| i.container == life.name && i.attempt == life.attempt);
            life.end = life.end.or(end.and_then(|found| found.finished));
        }
        for at in 1..lives.len() {
            let (before, here) = lives.split_at_mut(at);
            if let Some(start) = here[0].time_of("start").filter(|_| here[0].name == before[at - 1].name) {
                before[at - 1].end = Some(before[at - 1].end.map_or(start, |end| end.min(start)));
            }
        }
        lives
    }

    /// Returns everything that one container has written, with the runtime's prefix on each line.
    pub(crate) fn text_of(&self, container: &str) -> String {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = files.iter().filter(|((name, ..), _)| name == container).map(|(_, log)| &log.text[..]);
        String::from_utf8_lossy(&texts.collect::<Vec<_>>().concat()).into_owned()
    }

    /// Returns the logs of one container.
    pub(crate) fn of_container(&self, container: &str) -> Vec<IncarnationLog> {
        self.incarnation_logs().into_iter().filter(|life| life.name == container).collect()
    }
}

impl Drop for NodeLogs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn file_names(directory: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(directory).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok())
}

/// Reads the text that was appended to the log files since the last call. Reads an open file to the end even after its
/// deletion.
fn read_new_text(root: &Path, prefix: &str, files: &mut LogFiles) {
    for pod in file_names(root).filter(|name| name.starts_with(prefix)) {
        for container in file_names(&root.join(&pod)) {
            let directory = root.join(&pod).join(&container);
            for log in file_names(&directory) {
                let Some(attempt) = log.strip_suffix(".log").and_then(|number| number.parse().ok()) else { continue };
                let path = directory.join(log);
                let Ok(found) = fs::metadata(&path) else { continue };
                let key = (container.clone(), attempt, found.ino());
                if !files.contains_key(&key)
                    && let Ok(file) = File::open(path)
                {
                    files.insert(key, LogFile { file, text: Vec::new() });
                }
            }
        }
    }
    for log in files.values_mut() {
        let _ = log.file.read_to_end(&mut log.text);
    }
}

/// Returns the log messages that are JSON. In the file, a time, the stream and a flag precede each message.
fn json_lines(text: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(text);
    text.lines().filter_map(|line| serde_json::from_str(line.splitn(4, ' ').nth(3)?).ok()).collect()
}
