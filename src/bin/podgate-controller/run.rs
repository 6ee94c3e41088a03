//! The controller's life: reset, raise the board, then learn and publish until told to end.

use crate::args::Run;
use crate::board::Board;
use crate::clock::{now, wall};
use crate::folders::Folders;
use crate::guest::Guest;
use crate::metrics::{self, Metrics};
use crate::observe::Facts;
use crate::probing::{Found, Probing};
use crate::setup::{Unable, beside_us, epoch, identity, merge};
use crate::vet::Vet;
use crate::world::World;
use futures::FutureExt;
use podgate::core::container::Container;
use podgate::core::exit::Exit;
use podgate::core::names;
use podgate::core::state::{Phase, State};
use podgate::edge::log::{self, Target};
use podgate::edge::sandbox::sandbox_id;
use podgate::edge::{install, source};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tracing::{debug, error, info, warn};

/// How long to wait after a fault of our own.
const RETRY: Duration = Duration::from_millis(100);
/// How long to rest between two looks after having settled, at first and at most.
const FIRST_REST: Duration = Duration::from_secs(2);
const LONGEST_REST: Duration = Duration::from_secs(60);
/// How long to wait for the API to say which containers there are, where no `--containers` does.
const FIRST_LOOK: Duration = Duration::from_secs(3);
/// The kubelet gives start times in whole seconds.
const RESOLUTION: Duration = Duration::from_secs(2);

pub(crate) fn main(args: Run) -> ExitCode {
    let started_at = wall();
    log::init(args.log_format, args.log_level, Target::Stderr);
    // A neighbour that shares the process namespace must not reach through /proc to the token.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            error!(%error, "can't start");
            return Exit::SetUp.into();
        }
    };
    loop {
        let life = LocalSet::new();
        let lived = AssertUnwindSafe(live(&args, started_at)).catch_unwind();
        match life.block_on(&runtime, lived) {
            Ok(Ok(exit)) => return exit.into(),
            Ok(Err(Unable(why))) => {
                error!("{why}");
                return Exit::SetUp.into();
            }
            // The waiting hooks under a freeze have nobody else: begin anew, as after a restart, and believe nothing.
            Err(_) => {
                error!("a fault in the controller; begins anew");
                std::thread::sleep(RETRY);
            }
        }
    }
}

async fn live(args: &Run, started_at: SystemTime) -> Result<Exit, Unable> {
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(mut term), Ok(mut interrupt)] = signals else { return Err(Unable("can't handle signals".to_owned())) };
    let mut controller = Controller::begin(args, started_at).await?;
    let serving = match args.metrics_addr {
        None => None,
        Some(address) => {
            let listener =
                metrics::bind(address).await.map_err(|e| Unable(format!("--metrics-addr {address}: {e}")))?;
            Some(tokio::task::spawn_local(metrics::serve(Rc::clone(&controller.metrics), listener)))
        }
    };
    let exit = controller.work(&mut term, &mut interrupt).await;
    if let Some(serving) = serving {
        serving.abort();
    }
    Ok(exit)
}

struct Controller {
    declared: Vec<Container>,
    podinfo: PathBuf,
    started_at: SystemTime,
    world: World,
    board: Board,
    folders: Folders,
    probing: Probing,
    vets: BTreeMap<String, Vet>,
    shown: BTreeMap<String, State>,
    phase: Option<Phase>,
    metrics: Rc<Metrics>,
    api: Option<Guest>,
    heard: mpsc::Receiver<Facts>,
    settled: bool,
    /// When it last looked again after it had settled, how long to rest after that, and when the next look is due.
    stirred: Option<Instant>,
    rest: Duration,
    stir_at: Option<Instant>,
    /// The others can all end for good, and then so must we.
    ends_with_others: bool,
    /// They have.
    is_over: bool,
}

impl Controller {
    /// Resets what it finds, installs the agent, raises the board, makes the folders, and then takes the lock.
    async fn begin(args: &Run, started_at: SystemTime) -> Result<Controller, Unable> {
        let identity = identity(args)?;
        let declared = args.containers.clone().map(|list| list.0).unwrap_or_default();
        for (folder, flag) in [(&args.board, "--board"), (&args.own, "--self")] {
            if !folder.is_dir() {
                return Err(Unable(format!("{flag} {}: no such folder; mount a volume there", folder.display())));
            }
        }
        let sandbox = sandbox_id();
        let board = Board::new(&args.board);
        let found = board.found();
        let resumed = found.as_ref().is_some_and(|found| found.sandbox.matches(&sandbox));
        let revision = found.map_or(0, |found| found.revision);
        let mut world =
            World::new(sandbox.clone(), epoch().map_err(|e| Unable(format!("no randomness: {e}")))?, revision, resumed);
        world.declare(declared.clone());
        info!(version = env!("CARGO_PKG_VERSION"), %sandbox, epoch = world.epoch(), resumed, "starts");

        let agent = args.agent.clone().map_or_else(beside_us, Ok).map_err(|e| Unable(format!("no agent: {e}")))?;
        let bin = args.board.join(names::BIN_DIR);
        install::install(&agent, &bin, names::AGENT_FILE)
            .map_err(|e| Unable(format!("can't install {} into {}: {e}", agent.display(), bin.display())))?;

        let metrics = Rc::new(Metrics::default());
        let (tell, heard) = mpsc::channel(4);
        let api = identity.map(|identity| Guest::invite(identity, Rc::clone(&metrics), tell));
        let ip = args.pod_ips.and_then(|address| address.0).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let mut controller = Controller {
            declared,
            podinfo: args.podinfo.clone(),
            started_at,
            world,
            board,
            folders: Folders::new(&args.own, &args.podinfo),
            probing: Probing::new(ip, args.probe_floor),
            vets: BTreeMap::new(),
            shown: BTreeMap::new(),
            phase: None,
            metrics,
            api,
            heard,
            settled: false,
            stirred: None,
            rest: FIRST_REST,
            stir_at: None,
            ends_with_others: false,
            is_over: false,
        };
        controller.make_folders();
        controller.conclude();
        while let Some(at) = controller.board.retry_at() {
            sleep_until(Some(at)).await;
            controller.board.retry();
        }
        if let Some(api) = &mut controller.api {
            api.watch();
        }
        if controller.declared.is_empty() {
            // Nothing else says which folders to make, and they must be there before anybody can fill the volume.
            if let Ok(Some(facts)) = tokio::time::timeout(FIRST_LOOK, controller.heard.recv()).await {
                controller.hear_pod(&facts);
                controller.conclude();
            }
        }
        while !controller.board.lock().map_err(|e| Unable(format!("can't lock the board: {e}")))? {
            debug!("an earlier controller still holds the board");
            tokio::time::sleep(RETRY / 10).await;
        }
        // Reports may lie there from before; the current ones count.
        controller.hear_reports();
        controller.conclude();
        Ok(controller)
    }

    async fn work(&mut self, term: &mut Signal, interrupt: &mut Signal) -> Exit {
        loop {
            let timer = self.next_timer();
            tokio::select! {
                Some(facts) = self.heard.recv() => self.hear_pod(&facts),
                found = self.probing.next() => self.hear_probe(found),
                () = self.folders.changed() => self.hear_reports(),
                () = sleep_until(timer) => self.tick(),
                _ = term.recv() => return self.end("TERM"),
                _ = interrupt.recv() => return self.end("INT"),
            }
            if self.is_over {
                info!("all other containers have ended; ends too");
                return Exit::Released;
            }
            self.conclude();
        }
    }

    fn end(&self, signal: &str) -> Exit {
        // With code 0 a sidecar whose hook never succeeded would look as if all were well.
        let exit = if self.board.hook_has_succeeded(self.world.epoch()) { Exit::Released } else { Exit::Terminated };
        info!(signal, code = exit.code(), "ends");
        exit
    }

    fn next_timer(&self) -> Option<Instant> {
        let vets = self.vets.values().filter_map(Vet::due).min();
        vets.into_iter().chain(self.board.retry_at()).chain(self.stir_at).min()
    }

    fn tick(&mut self) {
        if self.stir_at.is_some_and(|at| at <= now()) {
            self.stir_at = None;
            self.stir();
        }
        if self.board.retry_at().is_some_and(|at| at <= now()) {
            self.board.retry();
        }
        let seen = self.config_seen();
        for (name, vet) in &mut self.vets {
            vet.look(seen.as_deref(), now());
            self.world.hear_vetted(name, vet.word());
        }
    }

    fn config_seen(&self) -> Option<String> {
        let read = source::volume_annotations(&self.podinfo, |key| key == names::KUBELET_CONFIG_SEEN);
        read.ok()?.remove(names::KUBELET_CONFIG_SEEN)
    }

    fn hear_pod(&mut self, facts: &Facts) {
        let trusted = facts.own_start.is_some_and(|start| start + RESOLUTION >= self.started_at);
        self.world.declare(merge(&self.declared, &facts.containers));
        self.make_folders();
        self.world.hear_kubelet(facts, trusted);
        self.ends_with_others = facts.ends_with_others;
        self.is_over |= facts.ends_with_others && trusted && facts.others_are_over;
        if !trusted {
            return;
        }
        let needing: Vec<_> = self.world.tracks().iter().filter(|track| track.needs_kubelet()).collect();
        if needing.is_empty() {
            return;
        }
        let seen = self.config_seen();
        if seen.is_none() {
            debug!("no kubernetes.io/config.seen in the downward-API volume: the kubelet's ready is not believed");
        }
        for track in needing {
            if let Some(word) = track.kubelet() {
                let has_startup = track.declared.startup_probe.is_some();
                let vet = self.vets.entry(track.declared.name.clone()).or_insert_with(|| Vet::new(has_startup));
                vet.hear(word, seen.as_deref(), now());
            }
        }
    }

    fn hear_probe(&mut self, found: Found) {
        match found {
            Found::Listens(container) => self.world.hear_listening(&container),
            Found::Attempt { container, word, outcome, took } => {
                self.metrics.probed(&container, outcome.success, took);
                self.world.hear_probe(&container, word);
            }
        }
    }

    fn hear_reports(&mut self) {
        let mut news = false;
        for (container, report) in self.folders.fresh() {
            debug!(%container, ?report, "reported");
            news |= self.world.hear_report(&container, report);
        }
        if news {
            self.stir();
        }
        if self.api.is_none() {
            // With the API the overrides come with the pod.
            let wanted = |key: &str| key.starts_with(names::OVERRIDE_PREFIX);
            if let Ok(overrides) = source::volume_annotations(&self.podinfo, wanted) {
                self.world.hear_overrides(&overrides);
            }
        }
    }

    fn make_folders(&mut self) {
        let names = self.world.tracks().iter().map(|track| track.declared.name.as_str());
        if let Err(error) = self.folders.make(names) {
            warn!(%error, "can't make a container's folder; its agent can't report");
        }
    }

    /// Judges, publishes what has changed, and sees to it that the right containers are probed.
    fn conclude(&mut self) {
        if let Some(snapshot) = self.world.judge() {
            let mut annotations = snapshot.to_annotations();
            annotations.insert(names::SANDBOX_SEEN.to_owned(), humantime::format_rfc3339_seconds(wall()).to_string());
            // The board first: a slow API delays annotations, never a start. A failure is logged and retried by the board.
            let _ = self.board.publish(annotations.clone());
            if let Some(api) = &self.api {
                api.publish(annotations);
            }
            for (name, state) in &snapshot.states {
                let before = self.shown.insert(name.clone(), *state);
                if before == Some(*state) {
                    continue;
                }
                self.metrics.moved(name, before, *state);
                if let Some(before) = before {
                    info!(container = %name, was = %before, state = %state, revision = snapshot.revision, "state changed");
                }
            }
            if self.phase.replace(snapshot.phase) != Some(snapshot.phase) {
                info!(phase = %snapshot.phase, revision = snapshot.revision, "phase");
            }
        }
        if self.world.is_settled() {
            self.settle();
        }
        if self.settled {
            return;
        }
        for track in self.world.tracks() {
            if track.has_ended() {
                self.probing.stop(&track.declared.name);
            } else if self.world.may_run(track) {
                self.probing.start(&track.declared);
            }
        }
    }

    /// Nothing more is to be learnt: lets go of connections and timers, and sleeps until a folder changes.
    fn settle(&mut self) {
        if self.settled {
            return;
        }
        info!("all have started; settles");
        self.settled = true;
        self.probing.clear();
        self.vets.clear();
        // Only the kubelet can say that the others have ended.
        if let Some(api) = self.api.as_mut().filter(|_| !self.ends_with_others) {
            api.stop_watching();
        }
    }

    /// Something has come up: looks at the pod again, at once or when the last look is long enough ago. A container can cause
    /// this as often as it likes, and the API is to notice little of it.
    fn stir(&mut self) {
        if !self.settled {
            return;
        }
        let here = now();
        let due = self.stirred.map_or(here, |last| last + self.rest);
        if due > here {
            self.stir_at = Some(due);
            return;
        }
        let long_ago = self.stirred.is_none_or(|last| here > last + LONGEST_REST * 2);
        self.rest = if long_ago { FIRST_REST } else { (self.rest * 2).min(LONGEST_REST) };
        (self.stirred, self.stir_at, self.settled) = (Some(here), None, false);
        if let Some(api) = &mut self.api {
            api.watch();
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
