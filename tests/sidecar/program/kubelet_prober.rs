//! Compares the attempts of the sidecar and of the agent with those of the kubelet's own prober and hook handler, which
//! `tests/cluster/prober` builds from Kubernetes' source: one table of servers, and equal results.

use super::{AGENT, Pod, until};
use crate::needs::missing;
use podgate::core::argv::Check;
use podgate::core::container::{Handler, HttpGet, PortRef, TcpSocket};
use podgate::core::url::Url;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The Pod's IP. A server on 127.0.0.1 therefore listens on localhost only.
const POD_IP: &str = "127.0.0.2";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const BAD: &str = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";

/// Part of a server's answer.
enum Step {
    Send(String),
    Pause(u64),
    /// Keeps the connection open until the client closes it.
    Stop,
    /// Sends this text until the client closes the connection.
    Flood(&'static str),
}
use Step::{Flood, Pause, Send, Stop};

type Answer = Box<dyn Fn(&str, u16) -> Vec<Step> + std::marker::Send + Sync>;

struct Row {
    name: &'static str,
    ip: &'static str,
    answer: Answer,
    /// Fields of the probe's `httpGet` besides the port; `None` for a `tcpSocket`.
    get: Option<Value>,
    /// True if the kubelet's hook, which has no time limit, would wait for ever.
    hangs: bool,
}

fn row(name: &'static str, answer: impl Fn(&str, u16) -> Vec<Step> + std::marker::Send + Sync + 'static) -> Row {
    Row { name, ip: POD_IP, answer: Box::new(answer), get: Some(json!({})), hangs: false }
}

/// A server that sends `text` and closes the connection.
fn says(name: &'static str, text: &'static str) -> Row {
    row(name, move |_, _| vec![Send(text.to_owned())])
}

/// A server that sends `text`, and then nothing.
fn stops(name: &'static str, text: &'static str) -> Row {
    Row { hangs: true, ..row(name, move |_, _| vec![Send(text.to_owned()), Stop]) }
}

/// A server whose first answer redirects to `location`, in which `PORT` is the server's port. It answers `/end` with
/// `end`.
fn redirects(name: &'static str, location: &'static str, end: &'static str) -> Row {
    row(name, move |head, port| {
        let location = location.replace("PORT", &port.to_string());
        let moved = format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        vec![Send(if head.starts_with("GET /end") { end.to_owned() } else { moved })]
    })
}

fn expects(
    name: &'static str,
    get: Value,
    is_right: impl Fn(&str, u16) -> bool + std::marker::Send + Sync + 'static,
) -> Row {
    let answer = move |head: &str, port| vec![Send(if is_right(head, port) { OK } else { BAD }.to_owned())];
    Row { get: Some(get), ..row(name, answer) }
}

#[rustfmt::skip]
fn rows() -> Vec<Row> {
    let host = |head: &str, host: &str| head.contains(&format!("\r\nHost: {host}\r\n"));
    vec![
        says("Pod's IP only", OK),
        Row { ip: "127.0.0.1", ..says("localhost only", OK) },
        Row { ip: "127.0.0.1", get: Some(json!({"host": "127.0.0.1"})), ..says("localhost only, with host", OK) },
        Row { ip: "127.0.0.1", get: Some(json!({"host": "localhost"})), ..says("localhost only, by name", OK) },
        Row { get: None, ..stops("tcp: accepts", "") },
        Row { get: None, ip: "127.0.0.1", ..stops("tcp: localhost only", "") },
        expects("Host is the Pod's IP", json!({}), move |head, port| host(head, &format!("{POD_IP}:{port}"))),
        expects("Host of the user", json!({"httpHeaders": [{"name": "host", "value": "a.example"}]}), move |head, _| host(head, "a.example")),
        expects("User-Agent", json!({}), |head, _| head.contains("\r\nUser-Agent: kube-")),
        expects("Accept", json!({}), |head, _| head.contains("\r\nAccept: */*\r\n")),
        expects("no Accept", json!({"httpHeaders": [{"name": "Accept", "value": ""}]}), |head, _| !head.contains("Accept:")),
        expects("header twice", json!({"httpHeaders": [{"name": "X-A", "value": "1"}, {"name": "X-A", "value": "2, 3"}]}),
            |head, _| head.contains("\r\nX-A: 1\r\n") && head.contains("\r\nX-A: 2, 3\r\n")),
        expects("path and query", json!({"path": "/a b?c=d e"}), |head, _| head.starts_with("GET /a%20b?c=d%20e HTTP/1.1\r\n")
            || head.starts_with("GET /a%20b?c=d e HTTP/1.1\r\n")),
        expects("path without slash", json!({"path": "ready"}), |head, _| head.starts_with("GET /ready ")),
        expects("path with dots", json!({"path": "/../a"}), |head, _| head.starts_with("GET /../a ")),
        redirects("redirect to a page", "/end", OK),
        redirects("redirect to a page that still loads", "/end", "HTTP/1.1 503 Loading\r\nContent-Length: 0\r\n\r\n"),
        redirects("relative redirect", "x/../end", OK),
        redirects("absolute redirect", "http://127.0.0.2:PORT/end", OK),
        redirects("redirect without scheme", "//127.0.0.2:PORT/end", OK),
        redirects("redirect to itself", "/", OK),
        redirects("redirect to another host", "http://127.0.0.1:PORT/end", BAD),
        redirects("redirect to an invalid URL", "http://[::1/", OK),
        redirects("redirect to another port", "http://127.0.0.2:1/end", OK),
        redirects("redirect without location", "", OK),
        stops("redirect whose body stops", "HTTP/1.1 302 Found\r\nLocation: /end\r\n\r\n"),
        Row { hangs: false, ..stops("redirect with a long body", "HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.2:1/\r\nContent-Length: 9999\r\n\r\n") },
        row("slow first answer", |_, _| vec![Pause(500), Send(OK.to_owned())]),
        row("too slow first answer", |_, _| vec![Pause(3_000), Send(OK.to_owned())]),
        row("slow head", |_, _| vec![Send("HTTP/1.1 20".to_owned()), Pause(200), Send("0 OK\r\nContent-".to_owned()), Pause(200), Send("Length: 0\r\n\r\n".to_owned())]),
        Row { hangs: true, ..stops("no answer", "") },
        stops("head that stops", "HTTP/1.1 200 OK\r\n"),
        stops("body that stops", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"),
        stops("body without end", "HTTP/1.1 200 OK\r\n\r\nx"),
        stops("chunks that stop", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"),
        says("body that is cut off", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"),
        says("503 with a body that is cut off", "HTTP/1.1 503 X\r\nContent-Length: 100\r\n\r\nshort"),
        says("chunks that are cut off", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok"),
        says("chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nA: b\r\n\r\n"),
        says("malformed chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        row("long body", |_, _| vec![Send("HTTP/1.1 200 OK\r\n\r\n".to_owned()), Flood("0123456789")]),
        row("long chunks", |_, _| vec![Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned()), Flood("10\r\n0123456789abcdef\r\n")]),
        says("HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nuntil the end"),
        says("HTTP/1.0 with chunks", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz"),
        Row { hangs: false, ..stops("204 without an end", "HTTP/1.1 204 No Content\r\n\r\n") },
        Row { hangs: false, ..stops("304 without an end", "HTTP/1.1 304 Not Modified\r\n\r\n") },
        says("300", "HTTP/1.1 300 X\r\nContent-Length: 0\r\n\r\n"),
        says("399", "HTTP/1.1 399 X\r\nContent-Length: 0\r\n\r\n"),
        says("400", BAD),
        says("600", "HTTP/1.1 600 X\r\nContent-Length: 0\r\n\r\n"),
        says("interim responses", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        says("only an interim response", "HTTP/1.1 100 Continue\r\n\r\n"),
        says("no reason phrase", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"),
        says("line feeds only", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
        says("continued header", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n"),
        says("space in a header's name", "HTTP/1.1 200 OK\r\nContent-Length : 9\r\n\r\n"),
        says("header without colon", "HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 0\r\n\r\n"),
        says("header with a control character", "HTTP/1.1 200 OK\r\nA: \u{1}\r\nContent-Length: 0\r\n\r\n"),
        says("same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"),
        says("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!"),
        says("negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        says("empty length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n"),
        says("unknown encoding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"),
        says("two encodings", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        says("no status", "HTTP/1.1 \r\n\r\n"),
        says("short status", "HTTP/1.1 20 OK\r\n\r\n"),
        says("no HTTP", "SSH-2.0-OpenSSH_9.6\r\n"),
        says("empty lines", "\n\n\n"),
        says("closes at once", ""),
    ]
}

/// Runs a server for `row`. Returns its port.
fn serve(row: &Arc<Row>) -> u16 {
    let listener = TcpListener::bind((row.ip, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let row = Arc::clone(row);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, row) = (stream.unwrap(), Arc::clone(&row));
            std::thread::spawn(move || answer(stream, &row, port));
        }
    });
    port
}

fn answer(mut stream: TcpStream, row: &Row, port: u16) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while row.get.is_some() && !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.extend(byte),
            _ => return,
        }
    }
    for step in (row.answer)(&String::from_utf8_lossy(&head), port) {
        let is_sent = match step {
            Send(text) => stream.write_all(text.as_bytes()).is_ok(),
            Pause(millis) => {
                std::thread::sleep(Duration::from_millis(millis));
                true
            }
            Stop => stream.read(&mut byte).is_err(),
            Flood(text) => {
                while stream.write_all(text.as_bytes()).is_ok() {}
                false
            }
        };
        if !is_sent {
            return;
        }
    }
}

/// Returns the results of the kubelet's prober for `asks`: the first word of each line.
fn ask_kubelet(prober: &str, asks: &[Value]) -> Vec<String> {
    let mut child = Command::new(prober).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let text: String = asks.iter().map(|ask| format!("{ask}\n")).collect();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
}

/// Returns true if the agent's check succeeds.
fn ask_agent(check: &Check, board: &std::path::Path, more: &[&str]) -> bool {
    let mut command = Command::new(AGENT);
    command.args(["check", &check.to_string(), "--check-timeout", "1s"]).args(more).arg("--board").arg(board);
    command.stderr(Stdio::null()).status().unwrap().success()
}

#[test]
fn attempts_have_the_results_of_the_kubelets() {
    if Command::new("go").arg("version").output().is_err() {
        return missing("go");
    }
    let get = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/prober/get");
    let built = Command::new(get).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let prober = String::from_utf8(built.stdout).unwrap().trim_end().to_owned();

    let rows: Vec<Arc<Row>> = rows().into_iter().map(Arc::new).collect();
    let (mut asks, mut hooks, mut containers, mut checks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (at, row) in rows.iter().enumerate() {
        let port = serve(row);
        let action = match &row.get {
            Some(more) => {
                let mut get = more.clone();
                get["port"] = port.into();
                json!({"httpGet": get})
            }
            None => json!({"tcpSocket": {"port": port}}),
        };
        let ask = |hook: bool| {
            let mut ask = json!({"podIP": POD_IP, "timeout": 1, "hook": hook});
            ask.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
            ask
        };
        asks.push(ask(false));
        if row.get.is_some() && !row.hangs {
            hooks.push((at, ask(true)));
        }
        let handler: Handler = serde_json::from_value(action.clone()).unwrap();
        checks.push(match handler {
            Handler::HttpGet(HttpGet { path, port: PortRef::Number(port), host, http_headers: headers, .. }) => {
                let (host, path) = (host.unwrap_or_default(), path.unwrap_or_default());
                let path = Url::for_probe("http", &host, port, &path).target();
                Check::Http { host, port, path, headers }
            }
            Handler::TcpSocket(TcpSocket { port: PortRef::Number(port), .. }) => {
                Check::Tcp { host: String::new(), port }
            }
            other => panic!("{other:?}"),
        });
        containers.push(json!({"name": format!("row-{at}"), "readinessProbe": action}));
    }

    let pod = Pod::new();
    let log = pod.path("log");
    let list = Value::Array(containers).to_string();
    let sidecar = pod.sidecar_with(&list, &["--log-level", "debug", "--log-format", "json"], |command| {
        command.env("POD_IPS", POD_IP).stderr(File::create(&log).unwrap());
    });
    let board = pod.path("board");
    let agent: Mutex<BTreeMap<usize, bool>> = Mutex::default();
    let (by_kubelet, by_hook) = std::thread::scope(|scope| {
        let by_kubelet = scope.spawn(|| ask_kubelet(&prober, &asks));
        let lines: Vec<Value> = hooks.iter().map(|(_, ask)| ask.clone()).collect();
        let prober = &prober;
        let by_hook = scope.spawn(move || ask_kubelet(prober, &lines));
        for (at, check) in checks.iter().enumerate() {
            let (agent, board) = (&agent, &board);
            scope.spawn(move || _ = agent.lock().unwrap().insert(at, ask_agent(check, board, &[])));
        }
        (by_kubelet.join().unwrap(), by_hook.join().unwrap())
    });
    let attempts = || -> BTreeMap<String, (bool, bool)> {
        let text = std::fs::read_to_string(&log).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let probed = lines.filter(|line| line["msg"] == "probed");
        let is = |line: &Value, field: &str| line[field] == "true";
        probed
            .map(|line| {
                (line["container"].as_str().unwrap().to_owned(), (is(&line, "success"), is(&line, "discarded")))
            })
            .collect()
    };
    until("the sidecar has made an attempt of each probe", || attempts().len() == rows.len());
    let (by_sidecar, by_agent) = (attempts(), agent.into_inner().unwrap());
    let mut wrong = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let kubelet = by_kubelet[at].as_str();
        let expected = (matches!(kubelet, "success" | "warning"), kubelet == "unknown");
        let found = by_sidecar[&format!("row-{at}")];
        if found != expected || by_agent[&at] != expected.0 {
            wrong.push(format!("{}: kubelet {kubelet}, sidecar {found:?}, agent {}", row.name, by_agent[&at]));
        }
    }
    for ((at, _), result) in hooks.iter().zip(by_hook) {
        let found = ask_agent(&checks[*at], &board, &["--hook"]);
        if found != (result == "success") {
            wrong.push(format!("{} as a hook: kubelet {result}, agent {found}", rows[*at].name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    sidecar.end(Signal::KILL);
}
