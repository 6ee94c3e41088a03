//! Reads the logs of all incarnations of a Pod's containers from the node. Works without the API server, and keeps the
//! logs that the kubelet deletes.

use crate::cluster::{incarnations, run_script};
use crate::incarnation_log::IncarnationLog;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// A container's name and the number of its incarnation.
type IncarnationKey = (String, u32);

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
        files
            .iter()
            .map(|((name, attempt), log)| IncarnationLog::parse(name, *attempt, &json_lines(&log.text)))
            .collect()
    }

    /// Returns the logs of all incarnations, like [`incarnation_logs`](Self::incarnation_logs). Adds the end times of
    /// killed incarnations if containerd still reports them.
    pub(crate) fn logs_with_ends(&self) -> Vec<IncarnationLog> {
        let known = incarnations(&self.namespace, &self.pod);
        let mut lives = self.incarnation_logs();
        for life in &mut lives {
            let end = known.iter().find(|i| i.container == life.name && i.attempt == life.attempt);
            life.end = life.end.or(end.and_then(|found| found.finished));
        }
        lives
    }

    /// Returns everything that one container has written, with the runtime's prefix on each line.
    pub(crate) fn text_of(&self, container: &str) -> String {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = files.iter().filter(|((name, _), _)| name == container).map(|(_, log)| &log.text[..]);
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
                let key = (container.clone(), attempt);
                if !files.contains_key(&key)
                    && let Ok(file) = File::open(directory.join(log))
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
