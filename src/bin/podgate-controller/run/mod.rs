//! The controller's life: reset, raise the board, then learn and publish until told to end.

mod events;
mod idle;

use crate::api::task::ApiTask;
use crate::args::RunArgs;
use crate::clock::{now, wall_clock};
use crate::input::folders::Folders;
use crate::input::pod_facts::PodFacts;
use crate::model::milestones::MilestoneRecorder;
use crate::model::pod::{PodModel, Urgency};
use crate::model::ready_filter::ReadyFilter;
use crate::model::shutdown::Shutdown;
use crate::output::board::Board;
use crate::output::metrics::{self, Metrics};
use crate::probe::prober::Prober;
use crate::setup::{default_agent_path, pod_identity};
use futures::FutureExt;
use podgate::core::annotations::Annotations;
use podgate::core::container::Container;
use podgate::core::exit::Exit;
use podgate::core::state::{Phase, State};
use podgate::core::{container_list, names};
use podgate::edge::install;
use podgate::edge::log::{self, Target};
use podgate::edge::process::random_id;
use podgate::edge::sandbox::sandbox_id;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tracing::{debug, error, info};

/// How long to wait after a fault of our own.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// How long to wait for the API to say which containers there are, where no `--containers` does.
const FIRST_POD_TIMEOUT: Duration = Duration::from_secs(3);
/// The kubelet gives start times in whole seconds.
const START_TIME_RESOLUTION: Duration = Duration::from_secs(2);

pub(crate) fn main(args: RunArgs) -> ExitCode {
    let started_at = wall_clock();
    log::init(args.log_format, args.log_level, Target::Stderr);
    // A neighbour that shares the process namespace must not reach through /proc to the token.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            error!(%error, "can't start");
            return Exit::BadSetup.into();
        }
    };
    loop {
        let life = LocalSet::new();
        let lived = AssertUnwindSafe(run_controller(&args, started_at)).catch_unwind();
        match life.block_on(&runtime, lived) {
            Ok(Ok(exit)) => return exit.into(),
            Ok(Err(why)) => {
                error!("{why}");
                return Exit::BadSetup.into();
            }
            // The waiting hooks under a freeze have nobody else: begin anew, as after a restart, and believe nothing.
            Err(_) => {
                error!("a fault in the controller; begins anew");
                std::thread::sleep(RETRY_DELAY);
            }
        }
    }
}

async fn run_controller(args: &RunArgs, started_at: SystemTime) -> Result<Exit, String> {
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(mut term), Ok(mut interrupt)] = signals else { return Err("can't handle signals".to_owned()) };
    let mut controller = Controller::start(args, started_at).await?;
    if let Some(address) = args.metrics_addr {
        let listener = TcpListener::bind(address).await.map_err(|e| format!("--metrics-addr {address}: {e}"))?;
        tokio::task::spawn_local(metrics::serve(Rc::clone(&controller.metrics), listener));
    }
    Ok(controller.run_loop(&mut term, &mut interrupt).await)
}

struct Controller {
    declared_containers: Vec<Container>,
    podinfo: PathBuf,
    started_at: SystemTime,
    pod: PodModel,
    board: Board,
    folders: Folders,
    prober: Prober,
    ready_filters: BTreeMap<String, ReadyFilter>,
    published_states: BTreeMap<String, State>,
    milestones: MilestoneRecorder,
    phase: Option<Phase>,
    /// What the API was told last, but for what changes each time.
    sent_annotations: Annotations,
    metrics: Rc<Metrics>,
    api: Option<ApiTask>,
    pod_updates: mpsc::Receiver<PodFacts>,
    is_idle: bool,
    /// When it last looked again after it had settled, how long to rest after that, and when the next look is due.
    last_wake_up: Option<Instant>,
    wake_up_interval: Duration,
    wake_up_at: Option<Instant>,
    /// Until when the API's answer is waited for before it settles again.
    api_wait_until: Option<Instant>,
    /// It has been told to end, and stays for others.
    shutdown: Option<Shutdown>,
    /// The others can all end for good, and then so must we.
    must_end_with_others: bool,
    /// They have.
    have_others_ended: bool,
}

impl Controller {
    /// Resets what it finds, installs the agent, raises the board, makes the folders, and then takes the lock.
    async fn start(args: &RunArgs, started_at: SystemTime) -> Result<Controller, String> {
        let identity = pod_identity(args)?;
        let declared = args.containers.clone().unwrap_or_default();
        for (folder, flag) in [(&args.board, "--board"), (&args.self_dir, "--self")] {
            if !folder.is_dir() {
                return Err(format!("{flag} {}: no such folder; mount a volume there", folder.display()));
            }
        }
        let sandbox = sandbox_id();
        let board = Board::new(&args.board);
        let found = board.previous_snapshot();
        let resumed = found.as_ref().is_some_and(|found| found.sandbox.matches(&sandbox));
        let revision = found.as_ref().map_or(0, |found| found.revision);
        let times = match found {
            Some(found) if resumed => MilestoneRecorder::resume(board.previous_times(), found.states),
            _ => MilestoneRecorder::default(),
        };
        let epoch = random_id(8).map_err(|e| format!("no randomness: {e}"))?;
        let mut world = PodModel::new(sandbox.clone(), epoch, revision, resumed);
        world.sandbox_started_at = board.sandbox_started_at().filter(|_| resumed);
        world.set_containers(declared.clone());
        info!(version = env!("CARGO_PKG_VERSION"), %sandbox, epoch = world.epoch, resumed, "starts");

        let agent = args.agent.clone().map_or_else(default_agent_path, Ok).map_err(|e| format!("no agent: {e}"))?;
        let bin = args.board.join(names::BIN_DIR);
        install::install(&agent, &bin, names::AGENT_FILE)
            .map_err(|e| format!("can't install {} into {}: {e}", agent.display(), bin.display()))?;

        let metrics = Rc::new(Metrics::default());
        let (tell, heard) = mpsc::channel(4);
        let api = identity.map(|identity| ApiTask::spawn(identity, Rc::clone(&metrics), tell));
        let ip = args.pod_ips.flatten().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let mut controller = Controller {
            declared_containers: declared,
            podinfo: args.podinfo.clone(),
            started_at,
            pod: world,
            board,
            folders: Folders::new(&args.self_dir, &args.podinfo),
            prober: Prober::new(ip, args.probe_floor),
            ready_filters: BTreeMap::new(),
            published_states: BTreeMap::new(),
            milestones: times,
            phase: None,
            sent_annotations: Annotations::new(),
            metrics,
            api,
            pod_updates: heard,
            is_idle: false,
            last_wake_up: None,
            wake_up_interval: idle::MIN_WAKE_UP_INTERVAL,
            wake_up_at: None,
            api_wait_until: None,
            shutdown: None,
            must_end_with_others: false,
            have_others_ended: false,
        };
        controller.create_folders();
        controller.update();
        while let Some(at) = controller.board.retry_at() {
            tokio::time::sleep_until(at.into()).await;
            controller.board.retry();
        }
        if let Some(api) = &mut controller.api {
            api.watch();
        }
        if controller.declared_containers.is_empty() {
            // Nothing else says which folders to make, and they must be there before anybody can fill the volume.
            if let Ok(Some(facts)) = tokio::time::timeout(FIRST_POD_TIMEOUT, controller.pod_updates.recv()).await {
                controller.on_pod_update(&facts);
                container_list::check_order(&facts.containers).map_err(|broken| broken.to_string())?;
                controller.update();
            }
        }
        while !controller.board.try_lock().map_err(|e| format!("can't lock the board: {e}"))? {
            debug!("an earlier controller still holds the board");
            tokio::time::sleep(RETRY_DELAY / 10).await;
        }
        // Reports may lie there from before; the current ones count.
        controller.on_reports();
        controller.update();
        Ok(controller)
    }

    async fn run_loop(&mut self, term: &mut Signal, interrupt: &mut Signal) -> Exit {
        loop {
            if let Some(staying) = self.shutdown
                && !staying.must_wait(&self.pod, now())
            {
                return self.finish(staying.signal);
            }
            let timer = self.next_timer();
            tokio::select! {
                Some(facts) = self.pod_updates.recv() => self.on_pod_update(&facts),
                found = self.prober.next_event() => self.on_probe_event(found),
                () = self.folders.changed() => self.on_reports(),
                () = sleep_until(timer) => self.tick(),
                _ = term.recv() => self.on_signal("TERM"),
                _ = interrupt.recv() => self.on_signal("INT"),
            }
            if self.have_others_ended {
                info!("all other containers have ended; ends too");
                return Exit::Released;
            }
            self.update();
        }
    }

    /// Those who stay until others are gone need the board for that: as a regular container, told to end with all others, it stays
    /// as long as they do. The kubelet's KILL is the limit.
    fn on_signal(&mut self, signal: &'static str) {
        self.shutdown = Some(Shutdown { signal, signaled_at: self.shutdown.is_none().then(now) });
    }

    fn finish(&self, signal: &str) -> Exit {
        // With code 0 a sidecar whose hook never succeeded would look as if all were well.
        let exit = if self.board.has_hook_succeeded(&self.pod.epoch) { Exit::Released } else { Exit::Terminated };
        info!(signal, code = exit.code(), "ends");
        exit
    }

    fn next_timer(&self) -> Option<Instant> {
        let vets = self.ready_filters.values().filter_map(ReadyFilter::due);
        vets.chain(self.board.retry_at())
            .chain(self.wake_up_at)
            .chain(self.api_wait_until)
            .chain(self.pod.due())
            .chain(self.shutdown.as_ref().and_then(|staying| staying.due(now())))
            .min()
    }

    fn tick(&mut self) {
        if self.wake_up_at.is_some_and(|at| at <= now()) {
            self.wake_up_at = None;
            self.wake_up(Urgency::Soon);
        }
        if self.board.retry_at().is_some_and(|at| at <= now()) {
            self.board.retry();
        }
        self.api_wait_until = self.api_wait_until.filter(|until| *until > now());
        self.pod.tick(now());
        let seen = self.config_seen();
        for (name, vet) in &mut self.ready_filters {
            vet.recheck(seen.as_deref(), now());
            self.pod.on_kubelet_ready(name, vet.trusted_ready());
        }
    }

    /// Judges, publishes what has changed, and sees to it that the right containers are probed.
    fn update(&mut self) {
        let snapshot = self.pod.update_snapshot().cloned();
        self.milestones.record(self.pod.tracks(), wall_clock());
        if let Some(snapshot) = snapshot {
            let mut annotations = snapshot.to_annotations();
            if let Some(times) = self.milestones.annotation_value() {
                annotations.insert(names::SANDBOX_TIMES.to_owned(), times);
            }
            if let Some(since) = self.pod.sandbox_started_at {
                annotations
                    .insert(names::SANDBOX_SINCE.to_owned(), humantime::format_rfc3339_seconds(since).to_string());
            }
            annotations
                .insert(names::SANDBOX_SEEN.to_owned(), humantime::format_rfc3339_seconds(wall_clock()).to_string());
            // The board first: a slow API delays annotations, never a start. A failure is logged and retried by the board.
            self.board.publish(annotations.clone());
            // What is of the board alone is no reason for a request.
            annotations.remove(names::SANDBOX_HEARD);
            annotations.remove(names::SANDBOX_SINCE);
            let passing = [names::SANDBOX_REVISION, names::SANDBOX_SEEN, names::SANDBOX_TIMES];
            let lasting = annotations.iter().filter(|(key, _)| !passing.contains(&key.as_str()));
            let lasting: Annotations = lasting.map(|(key, value)| (key.clone(), value.clone())).collect();
            if let Some(api) = self.api.as_ref().filter(|_| self.sent_annotations != lasting) {
                self.sent_annotations = lasting;
                api.publish(annotations);
            }
            for (name, state) in &snapshot.states {
                let before = self.published_states.insert(name.clone(), *state);
                if before == Some(*state) {
                    continue;
                }
                self.metrics.record_transition(name, before, *state);
                if let Some(before) = before {
                    info!(container = %name, was = %before, state = %state, revision = snapshot.revision, "state changed");
                }
            }
            if self.phase.replace(snapshot.phase) != Some(snapshot.phase) {
                info!(phase = %snapshot.phase, revision = snapshot.revision, "phase");
            }
        }
        if self.pod.may_idle() && self.api_wait_until.is_none() {
            self.go_idle();
        }
        if self.is_idle {
            return;
        }
        for name in self.pod.take_stale_probes() {
            self.prober.stop(&name);
        }
        for track in self.pod.tracks() {
            if track.has_ended() {
                self.prober.stop(&track.spec.name);
            } else if self.pod.may_run(track) {
                self.prober.start(&track.spec, track.has_passed_probes());
            }
        }
        for name in self.pod.unconfirmed() {
            self.prober.confirm(&name);
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
