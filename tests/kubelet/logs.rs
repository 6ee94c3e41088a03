//! The containers' logs as they lie on the node: those of all incarnations, known without the API server, and kept when the
//! kubelet takes them away.

use crate::cluster::{cluster, incarnations};
use crate::timeline::Life;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// A container's name, and which of its incarnations.
type Key = (String, u32);

#[derive(Debug)]
struct Followed {
    file: File,
    text: Vec<u8>,
}

type Files = BTreeMap<Key, Followed>;

/// Follows the logs of one pod until it is dropped.
#[derive(Debug)]
pub(crate) struct NodeLogs {
    namespace: String,
    pod: String,
    files: Arc<Mutex<Files>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NodeLogs {
    pub(crate) fn follow(namespace: &str, pod: &str) -> NodeLogs {
        let root = PathBuf::from(cluster(&["pod-logs"]).trim());
        let (files, stop) = (Arc::<Mutex<Files>>::default(), Arc::<AtomicBool>::default());
        let thread = {
            let (files, stop, prefix) = (Arc::clone(&files), Arc::clone(&stop), format!("{namespace}_{pod}_"));
            spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    look(&root, &prefix, &mut files.lock().unwrap_or_else(PoisonError::into_inner));
                    sleep(Duration::from_millis(25));
                }
            })
        };
        NodeLogs { namespace: namespace.to_owned(), pod: pod.to_owned(), files, stop, thread: Some(thread) }
    }

    /// All incarnations of all containers, as far as they have said anything, each container's in their order.
    pub(crate) fn lives(&self) -> Vec<Life> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().map(|((name, attempt), log)| Life::parse(name, *attempt, &said(&log.text))).collect()
    }

    /// The same, with the ends of those that were killed, as far as containerd still knows them.
    pub(crate) fn lives_and_ends(&self) -> Vec<Life> {
        let known = incarnations(&self.namespace, &self.pod);
        let mut lives = self.lives();
        for life in &mut lives {
            let end = known.iter().find(|i| i.container == life.name && i.attempt == life.attempt);
            life.end = life.end.or(end.and_then(|found| found.finished));
        }
        lives
    }

    /// Those of one container.
    pub(crate) fn of(&self, container: &str) -> Vec<Life> {
        self.lives().into_iter().filter(|life| life.name == container).collect()
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

fn names(folder: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok())
}

/// Reads what is new. A file that was opened once is read to its end even if it is gone from its folder.
fn look(root: &Path, prefix: &str, files: &mut Files) {
    for pod in names(root).filter(|name| name.starts_with(prefix)) {
        for container in names(&root.join(&pod)) {
            let folder = root.join(&pod).join(&container);
            for log in names(&folder) {
                let Some(attempt) = log.strip_suffix(".log").and_then(|number| number.parse().ok()) else { continue };
                let key = (container.clone(), attempt);
                if !files.contains_key(&key)
                    && let Ok(file) = File::open(folder.join(log))
                {
                    files.insert(key, Followed { file, text: Vec::new() });
                }
            }
        }
    }
    for log in files.values_mut() {
        let _ = log.file.read_to_end(&mut log.text);
    }
}

/// The JSON among the lines; each has its time, its stream and a flag before it.
fn said(text: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(text);
    text.lines().filter_map(|line| serde_json::from_str(line.splitn(4, ' ').nth(3)?).ok()).collect()
}
