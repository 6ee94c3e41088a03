//! Runs the server: its ports, its readiness and its exit.

use crate::event::{Moment, log};
use crate::{BeforeReady, Server};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue, LOCATION};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::process::{Signal as RustixSignal, getpid, kill_process};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

#[derive(Debug, Clone, Copy)]
enum Protocol {
    Http,
    Tcp,
    Grpc,
}

pub(crate) fn run(server: Server) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(serve(server))) {
        Ok(code) => {
            log("exit", &code.to_string());
            code.into()
        }
        Err(error) => {
            log("broken", &error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Serves until a signal or the exit time ends the server. Returns the exit code.
async fn serve(server: Server) -> io::Result<u8> {
    let start = now();
    let (exit_code, ignore_term, term_delay) = (server.exit_code, server.ignore_term, server.term_delay);
    let mut term = signal(SignalKind::terminate())?;
    let mut usr1 = signal(SignalKind::user_defined1())?;
    let exit = server.exit_after.filter(|_| {
        // Only "already exists" means that the server has exited once. Other errors count as "does not exist yet".
        server.exit_once.as_ref().is_none_or(|file| {
            let created = std::fs::File::create_new(file);
            created.map_or_else(|error| error.kind() != io::ErrorKind::AlreadyExists, |_| true)
        })
    });
    let exit = exit.map(|after| start + after);
    let ready_signal = server.ready_on_signal.then(|| signal(SignalKind::user_defined2())).transpose()?;
    let readiness = become_ready(server, start, ready_signal);
    tokio::pin!(readiness);
    let mut ready = false;
    loop {
        tokio::select! {
            result = &mut readiness, if !ready => {
                result?;
                ready = true;
            }
            () = sleep_until(exit.unwrap_or(start)), if exit.is_some() => return Ok(exit_code),
            () = received(&mut usr1) => return Ok(exit_code),
            () = received(&mut term) => {
                log("term", if ignore_term { "ignored" } else { "" });
                if !ignore_term {
                    sleep_until(now() + term_delay).await;
                    return Ok(0);
                }
            }
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads this clock")]
fn now() -> Instant {
    Instant::now()
}

async fn received(signal: &mut Signal) {
    if signal.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}

async fn become_ready(server: Server, start: Instant, ready_signal: Option<Signal>) -> io::Result<()> {
    let ready = Arc::new(AtomicBool::new(false));
    for file in server.touch.iter().chain(&server.unix) {
        let _ = std::fs::remove_file(file);
    }
    let ports = [(server.http, Protocol::Http), (server.tcp, Protocol::Tcp), (server.grpc, Protocol::Grpc)];
    sleep_until(start + server.listen_after).await;
    let mut moment = Moment::now();
    for (port, protocol) in ports {
        let Some(port) = port else { continue };
        // Listen on all addresses of both families, or only of IPv4 if the kernel has no IPv6.
        let any = [IpAddr::from(Ipv6Addr::UNSPECIFIED), Ipv4Addr::UNSPECIFIED.into()];
        let ips = server.only_at.map_or(any.to_vec(), |ip| vec![ip]);
        let addresses: Vec<SocketAddr> = ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        let listener = TcpListener::bind(&addresses[..]).await?;
        let host = server.only_at.map(|ip| SocketAddr::new(ip, port).to_string());
        tokio::spawn(accept(
            listener,
            protocol,
            Strictness { host, silent: server.before_ready == BeforeReady::Silent, pause: server.answer_after },
            ready.clone(),
        ));
    }
    if ports.iter().any(|(port, _)| port.is_some()) {
        moment.log("listening", "");
    }
    if server.ready_after > server.listen_after {
        sleep_until(start + server.ready_after).await;
        moment = Moment::now();
    }
    if let Some(mut signal) = ready_signal {
        received(&mut signal).await;
        moment = Moment::now();
    }
    ready.store(true, Ordering::Relaxed);
    if let Some(file) = &server.touch {
        std::fs::write(file, "")?;
    }
    if let Some(file) = server.unix {
        let listener = UnixListener::bind(file)?;
        tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    }
    moment.log("ready", "");
    Ok(())
}

/// Rules of a server that is stricter than others.
#[derive(Debug, Clone)]
struct Strictness {
    /// The only accepted value of the header `Host`.
    host: Option<String>,
    silent: bool,
    /// Time before each answer.
    pause: Duration,
}

async fn accept(listener: TcpListener, protocol: Protocol, strictness: Strictness, ready: Arc<AtomicBool>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(answer(stream, protocol, strictness.clone(), ready.clone()));
            }
            Err(error) => {
                log("accept failed", &error.to_string());
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, protocol: Protocol, strictness: Strictness, ready: Arc<AtomicBool>) {
    let io = TokioIo::new(stream);
    // Ignore clients that hang up early.
    let _ = match protocol {
        Protocol::Tcp => Ok(()),
        Protocol::Http => {
            let service = service_fn(move |request: Request<Incoming>| {
                if request.method() == "POST" && request.uri().path() == "/quitquitquit" {
                    // The request has the same effect as SIGUSR1.
                    let _ = kill_process(getpid(), RustixSignal::USR1);
                }
                let (strictness, ready) = (strictness.clone(), Arc::clone(&ready));
                async move {
                    while strictness.silent && !ready.load(Ordering::Relaxed) {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    let response = http(&request, strictness.host.as_deref(), ready.load(Ordering::Relaxed));
                    tokio::time::sleep(strictness.pause).await;
                    response
                }
            });
            hyper::server::conn::http1::Builder::new().serve_connection(io, service).await
        }
        Protocol::Grpc => {
            let service = service_fn(move |request: Request<Incoming>| {
                let known = request.uri().path() == "/grpc.health.v1.Health/Check";
                std::future::ready(grpc(known, ready.load(Ordering::Relaxed)))
            });
            hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await
        }
    };
}

fn http(request: &Request<Incoming>, host: Option<&str>, ready: bool) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_other = host.is_some_and(|host| request.headers().get(HOST).is_none_or(|found| found != host));
    let path = request.uri().path();
    let (status, text) = match path {
        _ if is_other => (StatusCode::BAD_REQUEST, "another host\n"),
        "/health" if host.is_some() => (StatusCode::FOUND, ""),
        "/drain" => {
            log("drain", "");
            (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
        }
        _ if ready => (StatusCode::OK, "ready\n"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "not yet\n"),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    if status == StatusCode::FOUND {
        response.headers_mut().insert(LOCATION, HeaderValue::from_static("/health/"));
    }
    Ok(response)
}

/// Answers like the health service (<https://github.com/grpc/grpc/blob/master/doc/health-checking.md>), with a message
/// of one field after a frame header of five bytes.
fn grpc(known: bool, ready: bool) -> Result<Response<impl Body<Data = Bytes, Error = Infallible>>, Infallible> {
    const SERVING: u8 = 1;
    const NOT_SERVING: u8 = 2;
    const UNIMPLEMENTED: &str = "12";
    let status = if ready { SERVING } else { NOT_SERVING };
    let body = if known { vec![0, 0, 0, 0, 2, 0x08, status] } else { Vec::new() };
    let code = HeaderValue::from_static(if known { "0" } else { UNIMPLEMENTED });
    let trailers = HeaderMap::from_iter([("grpc-status".parse().expect("a header name"), code)]);
    let body = Full::from(body).with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Ok(response)
}
