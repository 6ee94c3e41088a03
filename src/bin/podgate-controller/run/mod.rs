//! Main loop of the sidecar: sets up the board, then handles events and publishes states until the sidecar must exit.

mod events;
mod gates;
mod idle;
mod quits;

use crate::api::task::ApiTask;
use crate::args::RunArgs;
use crate::clock::{now, wall_clock};
use crate::failure::Result;
use crate::input::directories::ContainerDirectories;
use crate::input::pod_facts::PodFacts;
use crate::model::milestones::MilestoneRecorder;
use crate::model::pod::{Epoch, PodModel};
use crate::model::ready_filter::KubeletReadyFilter;
use crate::model::status_trust::StatusTrust;
use crate::output::board::{Board, exclude_other_sidecars};
use crate::output::hold_files::{self, HoldFiles};
use crate::output::metrics::{self, Metrics};
use crate::output::publisher::Publisher;
use crate::probe::prober::Prober;
use crate::rate_limit::panic_restart_delay;
use futures::FutureExt;
use idle::IdleState;
use podgate::core::container::{Container, Mode};
use podgate::core::exit::Exit;
use podgate::core::snapshot::Snapshot;
use podgate::core::{container_list, names};
use podgate::edge::listen;
use podgate::edge::log::{self, Target};
use podgate::edge::process::{self, random_id};
use podgate::edge::sandbox::sandbox_id;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::sleep_until;
use tracing::{error, info};

/// Time limit for reading the containers from the API, without `--containers`.
const FIRST_POD_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) fn main(args: RunArgs) -> ExitCode {
    log::init(args.log_format, args.log_level, Target::Stderr);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // Receive the signals as early as possible, and even after a panic. For process 1 of a container, the kernel drops
    // a signal that is not handled.
    let receive =
        async { Ok::<_, std::io::Error>([signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?]) };
    let set_up = runtime.and_then(|runtime| Ok((runtime.block_on(receive)?, runtime)));
    let (mut signals, runtime) = match set_up {
        Ok(set_up) => set_up,
        Err(error) => {
            error!(%error, "cannot start; check the limit of open files and the seccomp profile of this container");
            return Exit::BadSetup.into();
        }
    };
    let mut delay = Duration::ZERO;
    loop {
        let (tasks, since) = (LocalSet::new(), now());
        let result = AssertUnwindSafe(run_controller(&args, &mut signals)).catch_unwind();
        match tasks.block_on(&runtime, result) {
            Ok(Ok(exit)) => return exit.into(),
            Ok(Err(why)) => {
                error!("{why}");
                return Exit::BadSetup.into();
            }
            // Do not exit. While a postStart hook runs, the kubelet cannot restart the sidecar, and that hook waits for
            // the sidecar.
            Err(_) => {
                error!("internal error (panic), please report it; the sidecar restarts");
                delay = panic_restart_delay(delay, now() - since);
                std::thread::sleep(delay);
            }
        }
    }
}

/// Waits for the next signal and returns its name. Cancel-safe.
async fn next_signal([terminate, interrupt]: &mut [Signal; 2]) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "TERM",
        _ = interrupt.recv() => "INT",
    }
}

async fn run_controller(args: &RunArgs, signals: &mut [Signal; 2]) -> Result<Exit> {
    let mut controller = tokio::select! {
        started = Controller::start(args) => started?,
        signal = next_signal(signals) => {
            info!(signal, code = Exit::Terminated.code(), "exiting before the board is set up");
            return Ok(Exit::Terminated);
        }
    };
    if let Some(address) = args.metrics_addr {
        let metrics = Rc::clone(&controller.publisher.metrics);
        let listener = TcpListener::bind(&listen::candidates(address)[..]).await;
        let listener = listener.map_err(|error| format!("--metrics-addr {address}: {error}"))?;
        tokio::task::spawn_local(metrics::serve(listener, metrics));
    }
    Ok(controller.run_loop(signals).await)
}

struct Controller {
    declared_containers: Vec<Container>,
    podinfo: PathBuf,
    status_trust: StatusTrust,
    pod: PodModel,
    publisher: Publisher,
    /// Task that publishes to the API; `None` with `--publish none`.
    api: Option<ApiTask>,
    /// Lock that keeps other sidecars of the Pod waiting.
    _only_sidecar: File,
    /// Gate files; `None` if no container is held.
    hold_files: Option<HoldFiles>,
    directories: ContainerDirectories,
    prober: Prober,
    ready_filters: BTreeMap<String, KubeletReadyFilter>,
    pod_updates: mpsc::Receiver<PodFacts>,
    idle_state: IdleState,
    /// Ids of the containers that the sidecar has asked to exit.
    asked_to_quit: BTreeSet<Option<String>>,
}

/// Time at which a timer is due, and its action.
type Timer = (Option<Instant>, fn(&mut Controller));

impl Controller {
    /// Waits until no other sidecar runs, installs the agent, creates the directories, publishes the first snapshot,
    /// and then marks the board as set up.
    async fn start(args: &RunArgs) -> Result<Controller> {
        let identity = args.api_identity()?;
        let declared = args.containers.clone().unwrap_or_default();
        for (directory, flag) in [(&args.board, "--board"), (&args.self_dir, "--self")] {
            if !directory.is_dir() {
                return Err(format!("{flag} {}: no such directory; mount a volume there", directory.display()).into());
            }
        }
        let only_sidecar = exclude_other_sidecars(&args.self_dir).await?;
        let holds = declared.iter().any(|container| container.mode == Mode::Hold);
        let (hold, canary) = (Path::new(names::HOLD_DIR), Path::new(names::HOLD_CANARY_DIR));
        let hold_files = holds.then(|| HoldFiles::new_closed(hold, canary)).transpose()?;
        let sandbox = sandbox_id();
        let mut board = Board::new(&args.board);
        let previous = board.previous_annotations().await;
        let found = Snapshot::from_annotations(&previous).ok();
        let resumed = found.as_ref().is_some_and(|found| found.sandbox.matches(&sandbox));
        let revision = found.as_ref().map_or(0, |found| found.revision);
        let previous = |key: &str| previous.get(key).filter(|_| resumed).map(String::as_str);
        let states = found.filter(|_| resumed).map(|found| found.states).unwrap_or_default();
        let milestones = MilestoneRecorder::resume(previous(names::MILESTONE_TIMES_KEY).unwrap_or_default(), states);
        let epoch = random_id(8).map_err(|e| format!("cannot get random bytes: {e}"))?;
        let mut pod = PodModel::new(sandbox.clone(), Epoch { id: epoch, is_resumed: resumed }, revision);
        pod.sandbox_started_at =
            previous(names::SANDBOX_SINCE_KEY).and_then(|since| humantime::parse_rfc3339(since).ok());
        pod.set_containers(declared.clone());
        info!(version = env!("CARGO_PKG_VERSION"), %sandbox, epoch = pod.epoch.id, resumed, "starting");

        let beside = || std::fs::read_link("/proc/self/exe").map(|own| own.with_file_name(names::AGENT_FILE));
        let agent = args.agent.clone().map_or_else(beside, Ok);
        let agent = agent.map_err(|e| format!("cannot find the agent: {e}; pass its path with --agent"))?;
        let installed = board.install_agent(&agent);
        installed.map_err(|e| format!("cannot install {} into {}: {e}", agent.display(), args.board.display()))?;

        let metrics = Rc::new(Metrics::default());
        let (sender, pod_updates) = mpsc::channel(4);
        let api = identity.map(|identity| ApiTask::spawn(identity, Rc::clone(&metrics), sender));
        pod.pod_ip = args.pod_ips.flatten();
        let ip = pod.pod_ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let age = process::identify(std::process::id()).map(process::age).unwrap_or_default();
        let mut controller = Controller {
            declared_containers: declared,
            podinfo: args.podinfo.clone(),
            status_trust: StatusTrust::new(wall_clock() - age),
            pod,
            publisher: Publisher::new(board, metrics, milestones),
            api,
            _only_sidecar: only_sidecar,
            hold_files,
            directories: ContainerDirectories::new(&args.self_dir),
            prober: Prober::new(ip, args.probe_floor),
            ready_filters: BTreeMap::new(),
            pod_updates,
            idle_state: IdleState::default(),
            asked_to_quit: BTreeSet::new(),
        };
        controller.directories.create(controller.pod.tracks.iter().map(|track| &track.spec));
        controller.update();
        while let Some(at) = controller.publisher.board.retry_at {
            sleep_until(at.into()).await;
            controller.publisher.write_board(&controller.pod);
        }
        if let Some(api) = &mut controller.api {
            api.start_watching();
        }
        if controller.declared_containers.is_empty() {
            // Wait for the list of containers, so that their directories exist before a container can fill the volume.
            if let Ok(Some(facts)) = tokio::time::timeout(FIRST_POD_TIMEOUT, controller.pod_updates.recv()).await {
                controller.on_pod_update(&facts);
                container_list::check_can_start(&facts.containers).map_err(|broken| broken.to_string())?;
                controller.update();
            }
        }
        controller.publisher.board.mark_set_up().await?;
        // The directories may already contain reports.
        controller.on_reports();
        controller.update();
        Ok(controller)
    }

    async fn run_loop(&mut self, signals: &mut [Signal; 2]) -> Exit {
        loop {
            let timer = self.timers().into_iter().filter_map(|(due, _)| due).min();
            tokio::select! {
                Some(facts) = self.pod_updates.recv() => self.on_pod_update(&facts),
                event = self.prober.next_event() => self.on_probe_event(event),
                () = self.directories.changed() => self.on_reports(),
                () = sleep_until(timer.unwrap_or_else(now).into()), if timer.is_some() => self.tick(),
                // The kubelet stops a native sidecar after all regular containers.
                signal = next_signal(signals) => {
                    if let Err(error) = hold_files::close_all(Path::new(names::HOLD_DIR)) {
                        error!(%error, "cannot close the gates");
                    }
                    // Exit code 0 would hide that the hook never succeeded.
                    let is_hooked = self.publisher.board.has_hook_succeeded(&self.pod.epoch.id);
                    let exit = if is_hooked { Exit::Released } else { Exit::Terminated };
                    info!(signal, code = exit.code(), "exiting");
                    return exit;
                }
            }
            self.update();
        }
    }

    fn timers(&self) -> [Timer; 6] {
        [
            (self.idle_state.delayed.as_ref().map(|(at, _)| *at), Controller::retry_wake_up),
            (self.publisher.board.retry_at, |this| this.publisher.write_board(&this.pod)),
            (self.status_trust.due(), Controller::recheck_outdated_facts),
            (self.ready_filters.values().filter_map(KubeletReadyFilter::due).min(), Controller::recheck_ready_filters),
            (self.idle_state.api_wait_until, |this| this.idle_state.api_wait_until = None),
            (self.pod.due(), |this| this.pod.apply_time_limits(now())),
        ]
    }

    fn tick(&mut self) {
        for (due, action) in self.timers() {
            if due.is_some_and(|at| at <= now()) {
                action(self);
            }
        }
    }

    /// Determines all states, publishes changes, and starts and stops probing.
    fn update(&mut self) {
        self.pod.is_blind |= self.api.as_ref().is_none_or(ApiTask::is_watch_failing);
        let has_changed = self.pod.update_snapshot(now()).is_some();
        self.publisher.milestones.record(&self.pod.tracks, wall_clock());
        // Write the board first, so that a slow API never delays a start.
        if has_changed {
            self.publisher.publish_new_snapshot(&self.pod);
        }
        self.update_gates();
        let needs_sync = self.take_sync_request();
        if let Some(api) = self.api.as_ref().filter(|_| has_changed || needs_sync)
            && let Some(annotations) = self.publisher.take_api_annotations(&self.pod)
        {
            api.publish(annotations, self.pod.may_have_held_container());
        }
        self.ask_to_quit();
        // Handle a waiting update first. After `go_idle`, its old status would count as the state after the idle time.
        if self.pod.may_idle() && self.idle_state.api_wait_until.is_none() && self.pod_updates.is_empty() {
            self.go_idle();
        }
        if self.idle_state.is_idle {
            return;
        }
        for track in &self.pod.tracks {
            match self.pod.may_be_running(track) {
                true => self.prober.start(&track.spec, track.probing_run, track.passes_all_probes()),
                false => self.prober.stop(&track.spec.name),
            }
        }
        for name in self.pod.containers_to_confirm() {
            self.prober.confirm(&name);
        }
    }
}
