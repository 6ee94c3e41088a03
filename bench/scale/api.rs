//! Sends requests to the API server over a few connections, and reads the processor time of the cluster's processes.

use crate::client::{Client, Stream};
use crate::clock::now;
use crate::cluster::{kubectl_json, run_script};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// Number of connections. Each of them sends one request at a time.
const CONNECTIONS: usize = 8;

pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: String,
}

/// The answer to a request. `number` is the position of the request in the list.
pub(crate) struct Answer {
    pub(crate) number: usize,
    pub(crate) took: Duration,
    pub(crate) status: u16,
    pub(crate) body: String,
}

pub(crate) struct Api {
    client: Client,
    pub(crate) ca: Vec<u8>,
    token: String,
}

impl Api {
    pub(crate) fn new() -> Api {
        let config = kubectl_json(&["config", "view", "--raw"]);
        let cluster = &config["clusters"][0]["cluster"];
        let text = |value: &serde_json::Value| value.as_str().expect("the kubeconfig of the test cluster").to_owned();
        let ca = fs::read(text(&cluster["certificate-authority"])).expect("the CA");
        let address = text(&cluster["server"]).trim_start_matches("https://").parse().expect("an address");
        Api { client: Client::new(address, &ca), ca, token: text(&config["users"][0]["user"]["token"]) }
    }

    /// Sends all requests. Returns the answers in the order in which they arrive.
    pub(crate) fn send(&self, requests: &[Request]) -> Vec<Answer> {
        let next = Mutex::new(requests.iter().enumerate());
        let work = || {
            let mut stream = self.client.connect().expect("a connection to the API server");
            let mut answers = Vec::new();
            loop {
                let Some((number, request)) = next.lock().expect("no panic").next() else { return answers };
                let since = now();
                let (status, body) = self.exchange(&mut stream, request);
                answers.push(Answer { number, took: since.elapsed(), status, body });
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..CONNECTIONS.min(requests.len())).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
        })
    }

    fn exchange(&self, stream: &mut Stream, request: &Request) -> (u16, String) {
        let Request { method, path, body } = request;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            self.token,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("to send");
        let (mut answer, mut piece) = (Vec::new(), [0; 65536]);
        loop {
            let count = stream.read(&mut piece).expect("to receive");
            assert!(count > 0, "the API server closed the connection");
            answer.extend_from_slice(&piece[..count]);
            let Some(at) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&answer[..at]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let Some(body) = read_body(&answer[at + 4..], length) else { continue };
            let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
            return (status, String::from_utf8(body).expect("UTF-8"));
        }
    }
}

/// Returns the body of a response, or `None` if it is incomplete. Without `length`, the body consists of chunks.
fn read_body(mut bytes: &[u8], length: Option<usize>) -> Option<Vec<u8>> {
    if let Some(length) = length {
        return (bytes.len() == length).then(|| bytes.to_vec());
    }
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|bytes| bytes == b"\r\n")?;
        let size = std::str::from_utf8(&bytes[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.expect("the size of a chunk");
        body.extend_from_slice(bytes.get(end + 2..end + 2 + size)?);
        bytes = bytes.get(end + 4 + size..)?;
        if size == 0 {
            return Some(body);
        }
    }
}

/// Returns the process id of a component of the test cluster.
pub(crate) fn component(name: &str) -> u32 {
    let config = run_script(&["kubeconfig"]);
    let cluster = Path::new(config.trim()).parent().and_then(Path::file_name).expect("the cluster's directory");
    let file = Path::new("/run").join(cluster).join(format!("{name}.pid"));
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.split(' ').next().and_then(|pid| pid.parse().ok()).expect("a process id")
}

/// Returns the processor time that a process has used, in milliseconds.
pub(crate) fn processor_ms(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_else(|error| panic!("process {pid}: {error}"));
    let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split_whitespace().collect();
    // utime and stime are in hundredths of a second.
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().expect("a number") * 10.0).sum()
}

/// Waits until these processes use less than a fifth of a processor.
pub(crate) fn wait_until_idle(pids: &[u32]) {
    let used = || pids.iter().map(|pid| processor_ms(*pid)).sum::<f64>();
    crate::clock::eventually("the cluster is idle", 600, || {
        let before = used();
        std::thread::sleep(Duration::from_secs(1));
        (used() - before < 200.0).then_some(())
    });
}
