//! Starts the servers, waits for a signal, and stops them in order.

use crate::args::Args;
use crate::error::{Error, failed};
use crate::state::State;
use crate::{api, status_server, tls, tls_server};
use podgate::core::text::error_chain;
use podgate::edge::{listen, log};
use podgate::order::inject::Options;
use rustix::net::sockopt::{set_socket_send_buffer_size, set_tcp_user_timeout};
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{error, info};

pub(crate) fn run(args: &Args) -> ExitCode {
    log::init(args.log_format, args.log_level, log::Target::Stderr);
    // Log a panic as one line in the chosen format. The request that panicked gets status 500.
    std::panic::set_hook(Box::new(|panic| error!(%panic, "internal error (panic); please report this")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let fix = "check the limit of open files and the seccomp profile of this container";
    let cannot_start =
        |error: io::Error| Error::Fixable(format!("cannot start: {}", error_chain(&error)), fix.to_owned());
    let ended = runtime.map_err(cannot_start).and_then(|runtime| {
        let ended = runtime.block_on(serve_until_signal(args));
        // Do not drop the runtime, because that would wait for an overdue review.
        runtime.shutdown_background();
        ended
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("podgate-webhook: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve_until_signal(args: &Args) -> Result<(), Error> {
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(mut term), Ok(mut interrupt)] = signals else { return Err("cannot handle signals".into()) };
    let mut options = Options::new(args.image.clone());
    options.image_pull_policy.clone_from(&args.image_pull_policy);
    options.has_fixed_user = !args.no_fixed_user;
    options.sidecar_resources = args.sidecar_resources.clone();
    options.sidecar_settings = args.sidecar_settings.clone().unwrap_or_default();
    options.is_from_api = true;
    let state = Arc::new(State::new(options, args));
    let config = tls::server_config(&state.served_cert)?;
    let source = tls::CertSource::open(args, &state).await?;
    state.images.load()?;
    tokio::spawn(Arc::clone(&state.images).keep_current(Ok(())));
    // Start without orders if their file is invalid: other Pods need the webhook.
    let read = state.orders.reload(&Ok(()));
    tokio::spawn(Arc::clone(&state.orders).keep_current(read));
    let status = bind(args.status_listen).await?;
    let listener = bind(args.listen).await?;
    // For answers that a client does not read. Otherwise, the kernel would take megabytes and wait for many minutes.
    let _ = set_socket_send_buffer_size(&listener, 32 << 10);
    let _ = set_tcp_user_timeout(&listener, 10_000);
    let at = |listener: &TcpListener| listener.local_addr().map(|at| at.to_string()).unwrap_or_default();
    info!(
        version = env!("CARGO_PKG_VERSION"),
        address = at(&listener),
        status = at(&status),
        image = args.image,
        "listening"
    );

    tokio::spawn(status_server::serve(Arc::clone(&state), status));
    tokio::spawn(source.keep_valid(Arc::clone(&state)));
    tokio::spawn(api::read_kubernetes_version(args.clone(), Arc::clone(&state)));
    let (stop, stopped) = watch::channel(false);
    let server = tokio::spawn(tls_server::serve(Arc::clone(&state), config, listener, stopped));

    let name = tokio::select! {
        _ = term.recv() => "TERM",
        _ = interrupt.recv() => "INT",
    };
    info!(signal = name, "shutting down");
    state.drain();
    tokio::time::sleep(args.shutdown_delay).await;
    let _ = stop.send(true);
    match tokio::time::timeout(args.shutdown_grace, server).await {
        Ok(_) => info!("stopped"),
        Err(_) => {
            error!(in_flight = state.metrics.in_flight.get(), "stopped with open requests; increase --shutdown-grace")
        }
    }
    Ok(())
}

async fn bind(at: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(&listen::candidates(at)[..]).await.map_err(failed(format_args!("cannot listen on {at}")))
}
