//! Fake API server. A function returns each response. The server records the requests and can keep a watch open.
#![allow(dead_code, reason = "each test binary uses only a part of this module")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};

/// Request that the server received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query string.
    pub(crate) path: String,
    pub(crate) body: String,
}

/// Response of the fake server.
pub(crate) enum Answer {
    Json(u16, Value),
    /// Status code and any text as the body.
    Text(u16, String),
    /// Sends each text from the channel to the client as part of a watch. The watch ends when the sender is dropped.
    Watch(Receiver<String>),
    /// Status 429, as from a busy API server: plain text, and the seconds to wait in `Retry-After`.
    Busy(u64),
    /// Closes the connection without a response.
    Disconnect,
}

pub(crate) fn error_status(code: u16, reason: &str, message: &str) -> Answer {
    Answer::Json(
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code}),
    )
}

/// Returns one watch event as a line of JSON.
pub(crate) fn watch_event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

/// Writes a kubeconfig for `server` with the namespace `shop` into `home`. Returns the path of the kubeconfig.
pub(crate) fn kubeconfig(home: &Path, server: &str) -> PathBuf {
    let path = home.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: k, cluster: {{server: '{server}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: k, user: u, namespace: shop}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

pub(crate) struct FakeApiServer {
    /// Address of the server: `http://127.0.0.1:PORT`.
    pub(crate) address: String,
    requests: Arc<Mutex<Vec<Request>>>,
    home: tempfile::TempDir,
}

impl FakeApiServer {
    /// Starts a server that answers every request with `answer`.
    pub(crate) fn new(answer: impl FnMut(&Request) -> Answer + Send + 'static) -> FakeApiServer {
        FakeApiServer::wrapped(|stream| stream, answer)
    }

    /// Starts a server like `new` that serves each connection on the stream from `wrap`, for example a TLS stream.
    pub(crate) fn wrapped<S: Read + Write>(
        wrap: impl Fn(TcpStream) -> S + Send + Sync + 'static,
        answer: impl FnMut(&Request) -> Answer + Send + 'static,
    ) -> FakeApiServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer, wrap) = (Arc::clone(&requests), Arc::new(Mutex::new(answer)), Arc::new(wrap));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, answer, wrap) = (Arc::clone(&seen), Arc::clone(&answer), Arc::clone(&wrap));
                std::thread::spawn(move || {
                    let mut stream = wrap(stream.unwrap());
                    let Some(request) = read_request(&mut stream) else { return };
                    seen.lock().unwrap().push(request.clone());
                    let answer = (answer.lock().unwrap())(&request);
                    // Ignore errors: the client may have closed the connection already.
                    let _ = send_answer(&mut stream, answer);
                });
            }
        });
        FakeApiServer { address, requests, home: tempfile::tempdir().unwrap() }
    }

    /// Returns the recorded requests, oldest first.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Writes a kubeconfig for this server with the namespace `shop`. Returns the path of the kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        kubeconfig(self.home.path(), &self.address)
    }

    /// Returns a command that runs the program with these arguments and a kubeconfig for this server.
    pub(crate) fn command(&self, arguments: &[&str]) -> std::process::Command {
        #[allow(clippy::option_env_unwrap, reason = "the sidecar's tests are also built without this program")]
        let program = option_env!("CARGO_BIN_EXE_kubectl-podgate").expect("built with the feature kubectl");
        let mut command = std::process::Command::new(program);
        command.env_clear().env("HOME", self.home.path()).env("KUBECONFIG", self.kubeconfig()).args(arguments);
        command
    }

    /// Runs the program. Returns exit code, standard output and standard error.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

fn read_request(stream: &mut impl Read) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, body: String::from_utf8(body).ok()? })
}

fn send_answer(stream: &mut impl Write, answer: Answer) -> std::io::Result<()> {
    let head = "Content-Type: application/json\r\nConnection: close\r\n";
    match answer {
        Answer::Json(code, value) => send_answer(stream, Answer::Text(code, value.to_string())),
        Answer::Text(code, body) => {
            write!(stream, "HTTP/1.1 {code} X\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len())
        }
        Answer::Watch(lines) => {
            write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n")?;
            lines.into_iter().try_for_each(|line| stream.write_all(line.as_bytes()))
        }
        Answer::Busy(seconds) => write!(
            stream,
            "HTTP/1.1 429 X\r\nRetry-After: {seconds}\r\nConnection: close\r\nContent-Length: 8\r\n\r\ntoo busy"
        ),
        Answer::Disconnect => Ok(()),
    }
}
