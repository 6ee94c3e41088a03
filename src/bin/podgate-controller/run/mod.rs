//! The controller's life: reset, raise the board, then learn and publish until told to end.

mod hear;
mod rest;

use crate::api::guest::Guest;
use crate::args::Run;
use crate::clock::{now, wall};
use crate::input::folders::Folders;
use crate::input::observe::Facts;
use crate::judge::staying::Staying;
use crate::judge::timekeeper::Timekeeper;
use crate::judge::vet::Vet;
use crate::judge::world::{Urgency, World};
use crate::output::board::Board;
use crate::output::metrics::{self, Metrics};
use crate::probe::probing::Probing;
use crate::setup::{beside_us, identity};
use futures::FutureExt;
use podgate::core::annotations::Annotations;
use podgate::core::container::Container;
use podgate::core::exit::Exit;
use podgate::core::state::{Phase, State};
use podgate::core::{containers, names};
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
const RETRY: Duration = Duration::from_millis(100);
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
            Ok(Err(why)) => {
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

async fn live(args: &Run, started_at: SystemTime) -> Result<Exit, String> {
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(mut term), Ok(mut interrupt)] = signals else { return Err("can't handle signals".to_owned()) };
    let mut controller = Controller::begin(args, started_at).await?;
    if let Some(address) = args.metrics_addr {
        let listener = TcpListener::bind(address).await.map_err(|e| format!("--metrics-addr {address}: {e}"))?;
        tokio::task::spawn_local(metrics::serve(Rc::clone(&controller.metrics), listener));
    }
    Ok(controller.work(&mut term, &mut interrupt).await)
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
    times: Timekeeper,
    phase: Option<Phase>,
    /// What the API was told last, but for what changes each time.
    told: Annotations,
    metrics: Rc<Metrics>,
    api: Option<Guest>,
    heard: mpsc::Receiver<Facts>,
    settled: bool,
    /// When it last looked again after it had settled, how long to rest after that, and when the next look is due.
    stirred: Option<Instant>,
    rest: Duration,
    stir_at: Option<Instant>,
    /// Until when the API's answer is waited for before it settles again.
    looking_until: Option<Instant>,
    /// It has been told to end, and stays for others.
    staying: Option<Staying>,
    /// The others can all end for good, and then so must we.
    ends_with_others: bool,
    /// They have.
    is_over: bool,
}

impl Controller {
    /// Resets what it finds, installs the agent, raises the board, makes the folders, and then takes the lock.
    async fn begin(args: &Run, started_at: SystemTime) -> Result<Controller, String> {
        let identity = identity(args)?;
        let declared = args.containers.clone().unwrap_or_default();
        for (folder, flag) in [(&args.board, "--board"), (&args.own, "--self")] {
            if !folder.is_dir() {
                return Err(format!("{flag} {}: no such folder; mount a volume there", folder.display()));
            }
        }
        let sandbox = sandbox_id();
        let board = Board::new(&args.board);
        let found = board.found();
        let resumed = found.as_ref().is_some_and(|found| found.sandbox.matches(&sandbox));
        let revision = found.as_ref().map_or(0, |found| found.revision);
        let times = match found {
            Some(found) if resumed => Timekeeper::resume(board.times(), found.states),
            _ => Timekeeper::default(),
        };
        let epoch = random_id(8).map_err(|e| format!("no randomness: {e}"))?;
        let mut world = World::new(sandbox.clone(), epoch, revision, resumed);
        world.since = board.since().filter(|_| resumed);
        world.declare(declared.clone());
        info!(version = env!("CARGO_PKG_VERSION"), %sandbox, epoch = world.epoch, resumed, "starts");

        let agent = args.agent.clone().map_or_else(beside_us, Ok).map_err(|e| format!("no agent: {e}"))?;
        let bin = args.board.join(names::BIN_DIR);
        install::install(&agent, &bin, names::AGENT_FILE)
            .map_err(|e| format!("can't install {} into {}: {e}", agent.display(), bin.display()))?;

        let metrics = Rc::new(Metrics::default());
        let (tell, heard) = mpsc::channel(4);
        let api = identity.map(|identity| Guest::invite(identity, Rc::clone(&metrics), tell));
        let ip = args.pod_ips.flatten().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
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
            times,
            phase: None,
            told: Annotations::new(),
            metrics,
            api,
            heard,
            settled: false,
            stirred: None,
            rest: rest::FIRST_REST,
            stir_at: None,
            looking_until: None,
            staying: None,
            ends_with_others: false,
            is_over: false,
        };
        controller.make_folders();
        controller.conclude();
        while let Some(at) = controller.board.retry_at() {
            tokio::time::sleep_until(at.into()).await;
            controller.board.retry();
        }
        if let Some(api) = &mut controller.api {
            api.watch();
        }
        if controller.declared.is_empty() {
            // Nothing else says which folders to make, and they must be there before anybody can fill the volume.
            if let Ok(Some(facts)) = tokio::time::timeout(FIRST_LOOK, controller.heard.recv()).await {
                controller.hear_pod(&facts);
                containers::check(&facts.containers).map_err(|broken| broken.to_string())?;
                controller.conclude();
            }
        }
        while !controller.board.lock().map_err(|e| format!("can't lock the board: {e}"))? {
            debug!("an earlier controller still holds the board");
            tokio::time::sleep(RETRY / 10).await;
        }
        // Reports may lie there from before; the current ones count.
        controller.hear_folders();
        controller.conclude();
        Ok(controller)
    }

    async fn work(&mut self, term: &mut Signal, interrupt: &mut Signal) -> Exit {
        loop {
            if let Some(staying) = self.staying
                && !staying.goes_on(&self.world, now())
            {
                return self.end(staying.signal);
            }
            let timer = self.next_timer();
            tokio::select! {
                Some(facts) = self.heard.recv() => self.hear_pod(&facts),
                found = self.probing.next() => self.hear_probe(found),
                () = self.folders.changed() => self.hear_folders(),
                () = sleep_until(timer) => self.tick(),
                _ = term.recv() => self.told_to_end("TERM"),
                _ = interrupt.recv() => self.told_to_end("INT"),
            }
            if self.is_over {
                info!("all other containers have ended; ends too");
                return Exit::Released;
            }
            self.conclude();
        }
    }

    /// Those who stay until others are gone need the board for that: as a regular container, told to end with all others, it stays
    /// as long as they do. The kubelet's KILL is the limit.
    fn told_to_end(&mut self, signal: &'static str) {
        self.staying = Some(Staying { signal, since: self.staying.is_none().then(now) });
    }

    fn end(&self, signal: &str) -> Exit {
        // With code 0 a sidecar whose hook never succeeded would look as if all were well.
        let exit = if self.board.hook_has_succeeded(&self.world.epoch) { Exit::Released } else { Exit::Terminated };
        info!(signal, code = exit.code(), "ends");
        exit
    }

    fn next_timer(&self) -> Option<Instant> {
        let vets = self.vets.values().filter_map(Vet::due);
        vets.chain(self.board.retry_at())
            .chain(self.stir_at)
            .chain(self.looking_until)
            .chain(self.world.due())
            .chain(self.staying.as_ref().and_then(|staying| staying.due(now())))
            .min()
    }

    fn tick(&mut self) {
        if self.stir_at.is_some_and(|at| at <= now()) {
            self.stir_at = None;
            self.stir(Urgency::Soon);
        }
        if self.board.retry_at().is_some_and(|at| at <= now()) {
            self.board.retry();
        }
        self.looking_until = self.looking_until.filter(|until| *until > now());
        self.world.tick(now());
        let seen = self.config_seen();
        for (name, vet) in &mut self.vets {
            vet.look(seen.as_deref(), now());
            self.world.hear_vetted(name, vet.word());
        }
    }

    /// Judges, publishes what has changed, and sees to it that the right containers are probed.
    fn conclude(&mut self) {
        let snapshot = self.world.judge().cloned();
        self.times.note(self.world.tracks(), wall());
        if let Some(snapshot) = snapshot {
            let mut annotations = snapshot.to_annotations();
            if let Some(times) = self.times.text() {
                annotations.insert(names::SANDBOX_TIMES.to_owned(), times);
            }
            if let Some(since) = self.world.since {
                annotations
                    .insert(names::SANDBOX_SINCE.to_owned(), humantime::format_rfc3339_seconds(since).to_string());
            }
            annotations.insert(names::SANDBOX_SEEN.to_owned(), humantime::format_rfc3339_seconds(wall()).to_string());
            // The board first: a slow API delays annotations, never a start. A failure is logged and retried by the board.
            self.board.publish(annotations.clone());
            // What is of the board alone is no reason for a request.
            annotations.remove(names::SANDBOX_HEARD);
            annotations.remove(names::SANDBOX_SINCE);
            let passing = [names::SANDBOX_REVISION, names::SANDBOX_SEEN, names::SANDBOX_TIMES];
            let lasting = annotations.iter().filter(|(key, _)| !passing.contains(&key.as_str()));
            let lasting: Annotations = lasting.map(|(key, value)| (key.clone(), value.clone())).collect();
            if let Some(api) = self.api.as_ref().filter(|_| self.told != lasting) {
                self.told = lasting;
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
        if self.world.is_settled() && self.looking_until.is_none() {
            self.settle();
        }
        if self.settled {
            return;
        }
        for name in self.world.take_old_probing() {
            self.probing.stop(&name);
        }
        for track in self.world.tracks() {
            if track.has_ended() {
                self.probing.stop(&track.declared.name);
            } else if self.world.may_run(track) {
                self.probing.start(&track.declared, track.has_passed());
            }
        }
        for name in self.world.unconfirmed() {
            self.probing.confirm(&name);
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
