//! Tests random Pods under random faults, for a long time. The seed decides which Pods come and which faults strike.
//!
//! ```text
//! make soak TIME=40m SEED=1
//! ```

mod faults;
mod growth;
mod judge;
mod live;
mod plan;
mod summary;

use crate::admission::install::{self, InstalledWebhook};
use crate::clock::wall_ms;
use crate::cluster::{kubectl_json, try_kubectl, try_script};
use crate::scene::{Scene, print_line};
use crate::watch::ObservedPod;
use faults::{Shared, lock};
use growth::Growth;
use judge::Judge;
use live::LivePod;
use plan::{Goal, Plan, Random};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;
use summary::Summary;

/// Number of Pods that come and go at the same time.
const PASSING: usize = 6;
/// Longest time from the last fault until a Pod has reached its goal, in milliseconds. The kubelet's back-off for a
/// container that was killed often is up to 5 min.
const GOAL_LIMIT: f64 = 420_000.0;
/// Longest time from the last fault until a deleted Pod is gone, in milliseconds. The grace period is up to 30 s.
const DELETION_LIMIT: f64 = 150_000.0;
/// Shortest time without faults after each storm, in milliseconds.
const QUIET: f64 = 20_000.0;

struct Soak<'a> {
    shared: &'a Shared,
    seed: u64,
    directory: PathBuf,
    random: Random,
    waiting: VecDeque<Plan>,
    pods: Vec<LivePod>,
    /// Pods whose processes are measured: uid and name.
    measured: BTreeMap<String, String>,
    growth: Growth,
    summary: Summary,
    /// During a storm, the time at which it ends. Otherwise, the time at which the last storm ended.
    phase_at: f64,
    next_creation: f64,
    next_sample: f64,
}

/// Guard that ends the fault threads, also after a panic.
struct EndFaults<'a>(&'a Shared);

impl Drop for EndFaults<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

#[allow(clippy::disallowed_methods, reason = "the Makefile passes the time and the seed")]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[test]
#[ignore = "needs a cluster: make soak"]
fn alone() {
    let time = setting("PODGATE_SOAK_TIME").unwrap_or("5m".to_owned());
    let time = humantime::parse_duration(&time).unwrap_or_else(|error| panic!("TIME={time}: {error}"));
    let seed =
        setting("PODGATE_SOAK_SEED").map_or(wall_ms() as u64 % 100_000, |seed| seed.parse().expect("SEED: a number"));
    let Some(scene) = Scene::exclusive("soak") else { return };
    print_line(&format!("soak: seed {seed}, {}", humantime::format_duration(time)));
    scene.grant_pod_access();
    let _lock = install::install_lock();
    let webhook = InstalledWebhook::by_kustomize(&scene.namespace, &[]);
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("soak/{seed}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let shared = Shared { namespace: scene.namespace.clone(), ..Shared::default() };
    let mut soak = Soak::new(&shared, seed, directory);
    let end = wall_ms() + time.as_millis() as f64;
    std::thread::scope(|threads| {
        let _end = EndFaults(&shared);
        threads.spawn(|| faults::run(&shared, Random::new(seed, 1), 16, faults::strike_node));
        threads.spawn(|| faults::run(&shared, Random::new(seed, 2), 8, faults::strike_pod));
        while wall_ms() < end {
            soak.switch_phase();
            soak.create_next();
            soak.step();
        }
    });
    soak.finish();
    let history: String = lock(&shared.strikes).iter().map(|strike| format!("{strike:?}\n")).collect();
    fs::write(soak.directory.join("faults.txt"), history).expect("the directory exists");
    fs::write(soak.directory.join("growth.svg"), soak.growth.picture()).expect("the directory exists");
    let Soak { summary, growth, directory, .. } = soak;
    webhook.uninstall();
    drop(scene);
    let violations = summary.print(&growth, &shared);
    assert!(violations == 0, "{violations} violations with seed {seed}; files in {}", directory.display());
}

impl<'a> Soak<'a> {
    fn new(shared: &'a Shared, seed: u64, directory: PathBuf) -> Soak<'a> {
        let list = kubectl_json(&["-n", install::NAMESPACE, "get", "pods"]);
        let uid = |pod: &Value| Some((pod["metadata"]["uid"].as_str()?.to_owned(), "webhook".to_owned()));
        Soak {
            shared,
            seed,
            directory,
            random: Random::new(seed, 3),
            waiting: plan::staying(seed).into(),
            pods: Vec::new(),
            measured: list["items"].as_array().into_iter().flatten().filter_map(uid).collect(),
            growth: Growth::default(),
            summary: Summary::default(),
            phase_at: 0.0,
            next_creation: 0.0,
            next_sample: 0.0,
        }
    }

    /// Ends the storm of faults when its time is over, or starts the next one when all Pods have recovered.
    fn switch_phase(&mut self) {
        let now = wall_ms();
        if self.shared.storm.load(Ordering::Relaxed) {
            if now > self.phase_at {
                self.shared.storm.store(false, Ordering::Relaxed);
                self.phase_at = now;
            }
            return;
        }
        let since = self.phase_at.max(self.shared.last_end());
        let recovered = |pod: &LivePod| pod.created > since || pod.has_recovered();
        // The first storm starts only after all staying Pods were created.
        if now >= since + QUIET && self.waiting.is_empty() && self.pods.iter().all(recovered) {
            self.summary.count("storms");
            self.phase_at = now + self.random.time(40, 80).as_millis() as f64;
            self.shared.storm.store(true, Ordering::Relaxed);
        }
    }

    /// Creates the next Pod if there is room. An error of the API delays the creation.
    fn create_next(&mut self) {
        if wall_ms() < self.next_creation {
            return;
        }
        let passing = self.pods.iter().filter(|pod| !pod.plan.stays && pod.deleted_at.is_none()).count();
        let plan = match self.waiting.pop_front() {
            Some(plan) => plan,
            None if passing < PASSING => {
                plan::passing(self.seed, self.summary.counts.get("Pods").copied().unwrap_or(0))
            }
            None => return,
        };
        self.next_creation = wall_ms() + self.random.time(1, 4).as_millis() as f64;
        let created = wall_ms();
        let create = ["kubectl", "-n", &self.shared.namespace, "create", "-f", "-"];
        match try_script(&create, &plan.manifest.to_string()) {
            // The API server may have stopped after an earlier attempt has created the object.
            Err(error) if !error.contains("AlreadyExists") => {
                assert!(!error.contains("denied the request"), "{error}\n{:#}", plan.manifest);
                self.waiting.push_front(plan);
            }
            _ => {
                self.summary.count("Pods");
                self.summary.count(plan.kind());
                self.pods.push(LivePod::new(plan, created));
            }
        }
    }

    /// Reads the state of all Pods, deletes those whose time is over, and judges those that are gone.
    fn step(&mut self) {
        sleep(Duration::from_millis(500));
        let now = wall_ms();
        if now >= self.next_sample {
            self.next_sample = now + 5000.0;
            self.growth.sample(&self.measured);
        }
        self.observe();
        let is_done = |pod: &LivePod| pod.seen.as_ref().is_none_or(|seen| seen.pod["status"]["phase"] == "Succeeded");
        let running = self.pods.iter().filter(|pod| pod.deleted_at.is_none() && !is_done(pod));
        *lock(&self.shared.targets) = running.map(|pod| (pod.pod.clone(), pod.plan.clone())).collect();
        for index in 0..self.pods.len() {
            let pod = &self.pods[index];
            if pod.deleted_at.is_none() && !pod.plan.stays && now > pod.created + pod.plan.lifetime.as_millis() as f64 {
                self.delete(index);
            }
        }
        let gone: Vec<LivePod> = self.pods.extract_if(.., |pod| pod.gone_at.is_some()).collect();
        for pod in gone {
            let judge = Judge::new(&pod, self.shared);
            let findings = [judge.early_starts(&mut self.summary), judge.early_stops(&mut self.summary)].concat();
            for finding in findings {
                self.violation(&pod, &finding);
            }
        }
        self.find_hung();
    }

    fn observe(&mut self) {
        let Ok(text) = try_kubectl(&["-n", &self.shared.namespace, "get", "pods", "-o", "json"]) else { return };
        let Ok(list) = serde_json::from_str::<Value>(&text) else { return };
        let at = wall_ms();
        let found = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        for pod in &mut self.pods {
            let own = found.iter().find(|item| item["metadata"]["labels"]["soak"] == pod.plan.name.as_str());
            let was_up = pod.reached.is_some();
            pod.observe(own.map(|item| ObservedPod { at, pod: item.clone() }), &self.shared.namespace);
            if !was_up && pod.reached.is_some() {
                let (last, name) = (self.shared.last_end(), &pod.plan.name);
                if self.shared.strikes_between(&pod.pod, pod.created, at).is_empty() {
                    self.summary.add_time("from creation to the goal, without a fault", at - pod.created, name);
                } else if last.is_finite() {
                    self.summary.add_time("from the last fault to the goal", at - last.max(pod.created), name);
                }
            }
            if pod.plan.stays && !pod.uid().is_empty() {
                self.measured.insert(pod.uid().to_owned(), pod.plan.name.clone());
            }
        }
    }

    fn delete(&mut self, index: usize) {
        let pod = &mut self.pods[index];
        pod.read_records(&self.shared.namespace);
        let at = wall_ms();
        let resource = if pod.plan.goal == Goal::Succeeded { "job" } else { "pod" };
        let name = format!("{resource}/{}", pod.plan.name);
        if try_kubectl(&["-n", &self.shared.namespace, "delete", &name, "--wait=false", "--ignore-not-found"]).is_ok() {
            (pod.deleted_at, pod.was_up, pod.hung) = (Some(at), pod.reached.is_some(), false);
        }
    }

    /// Reports Pods that hang: long after the last fault, a Pod has not reached its goal, or a deleted Pod still
    /// exists.
    fn find_hung(&mut self) {
        let (now, last) = (wall_ms(), self.shared.last_end());
        for index in 0..self.pods.len() {
            let pod = &self.pods[index];
            let (since, limit, what) = match pod.deleted_at {
                Some(at) => (at, DELETION_LIMIT, "is not gone"),
                None if pod.reached.is_none() => (pod.created, GOAL_LIMIT, "has not reached its goal"),
                None => continue,
            };
            let took = now - since.max(last);
            if !pod.hung && took > limit {
                let mut pod = self.pods.swap_remove(index);
                pod.hung = true;
                pod.read_records(&self.shared.namespace);
                self.violation(&pod, &format!("{what} {:.0} s after the last fault", took / 1000.0));
                self.pods.push(pod);
                return;
            }
        }
    }

    /// Waits until all Pods have reached their goals, and deletes them.
    fn finish(&mut self) {
        while !self.pods.iter().all(|pod| pod.reached.is_some() || pod.hung || pod.deleted_at.is_some()) {
            self.step();
        }
        while self.pods.iter().any(|pod| !pod.hung || pod.deleted_at.is_none()) {
            for index in 0..self.pods.len() {
                if self.pods[index].deleted_at.is_none() {
                    self.delete(index);
                }
            }
            self.step();
        }
    }

    /// Prints a violation, and saves the data that explains the violation.
    fn violation(&mut self, pod: &LivePod, text: &str) {
        let number = self.summary.violations.len() + 1;
        let (seed, name) = (self.seed, &pod.plan.name);
        let headline = format!("violation {number}, seed {seed}, at {:.0}: {name}: {text}", wall_ms());
        let report = format!("{headline}\n{}", pod.report(self.shared));
        print_line(&report);
        fs::write(self.directory.join(format!("violation-{number}.txt")), report).expect("the directory exists");
        self.summary.violations.push(headline);
    }
}
