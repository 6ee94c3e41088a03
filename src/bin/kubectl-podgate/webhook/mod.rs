//! `kubectl podgate webhook`: Pods are injected as they are made.

mod admit;
mod args;
mod health;
mod metrics;
mod serve;
mod timed;
mod tls;

pub(crate) use args::Webhook;

use crate::output::fail;
use crate::runtime;
use admit::Lanes;
use args::Listen;
use metrics::Metrics;
use podgate::edge::log;
use podgate::order::inject::Options;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tls::shown::Shown;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{error, info};

/// What all connections share.
pub(crate) struct State {
    options: Options,
    metrics: Metrics,
    shown: Arc<Shown>,
    lanes: Lanes,
    draining: AtomicBool,
}

impl State {
    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Why no request should come here.
    fn not_ready(&self) -> Option<&'static str> {
        if self.is_draining() { Some("told to end") } else { self.shown.trouble(crate::clock::wall()) }
    }
}

pub(crate) fn run(args: &Webhook) -> ExitCode {
    log::init(args.log_format, args.log_level, log::Target::Stderr);
    // One line in the log's own format; what panicked is answered with 500.
    std::panic::set_hook(Box::new(|panic| error!(%panic, "a fault of podgate: please report it")));
    runtime::block_on(async { Ok(work(args).await.unwrap_or_else(|what| fail(&what))) })
}

async fn work(args: &Webhook) -> Result<ExitCode, String> {
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(mut term), Ok(mut interrupt)] = signals else { return Err("can't handle signals".to_owned()) };
    let mut options = Options::new(args.image.clone());
    options.image_pull_policy.clone_from(&args.image_pull_policy);
    options.fixed_user = !args.no_fixed_user;
    options.from_api = true;
    let state = Arc::new(State {
        options,
        metrics: Metrics::default(),
        shown: Arc::default(),
        lanes: Lanes::default(),
        draining: AtomicBool::new(false),
    });
    let config = tls::config(&state.shown)?;
    let source = tls::Source::open(args, &state).await?;
    let status = bind(args.status_listen).await?;
    let listener = bind(args.listen).await?;
    let at = |listener: &TcpListener| listener.local_addr().map(|at| at.to_string()).unwrap_or_default();
    info!(
        version = env!("CARGO_PKG_VERSION"),
        address = at(&listener),
        status = at(&status),
        image = args.image,
        "listening"
    );

    tokio::spawn(health::serve(Arc::clone(&state), status));
    tokio::spawn(source.keep(Arc::clone(&state)));
    let (stop, stopped) = watch::channel(false);
    let server = tokio::spawn(serve::serve(Arc::clone(&state), config, listener, stopped));

    let name = tokio::select! {
        _ = term.recv() => "TERM",
        _ = interrupt.recv() => "INT",
    };
    info!(signal = name, "told to end");
    state.draining.store(true, Ordering::Relaxed);
    tokio::time::sleep(args.shutdown_delay).await;
    let _ = stop.send(true);
    match tokio::time::timeout(args.shutdown_grace, server).await {
        Ok(_) => info!("ended"),
        Err(_) => error!(
            in_flight = state.metrics.in_flight.get(),
            "ended in the midst of requests: --shutdown-grace was too short"
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens a port: for all addresses that of IPv6, which takes IPv4 too, or where there is no IPv6 that of IPv4.
async fn bind(at: Listen) -> Result<TcpListener, String> {
    let wrong = |at: SocketAddr, error: io::Error| format!("can't listen at {at}: {error}");
    if let Some(address) = at.address {
        let at = SocketAddr::new(address, at.port);
        return TcpListener::bind(at).await.map_err(|error| wrong(at, error));
    }
    let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, at.port));
    match TcpListener::bind(all).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(wrong(all, error)),
        Err(_) => {
            let all = SocketAddr::from((Ipv4Addr::UNSPECIFIED, at.port));
            TcpListener::bind(all).await.map_err(|error| wrong(all, error))
        }
    }
}
