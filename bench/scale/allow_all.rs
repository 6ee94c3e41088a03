//! An admission webhook that allows everything and changes nothing. It shows the minimum cost of any webhook.

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;

/// The argument that makes the benchmark run as this webhook.
pub(crate) const ARGUMENT: &str = "allow-all";
pub(crate) const ADDRESS: &str = "127.0.0.1:8444";

/// Starts the webhook in the cluster's network. Returns the process and the webhook's certificate, which is its own CA.
pub(crate) fn start() -> (Child, String) {
    let own = std::env::current_exe().expect("this program's path");
    let mut command = crate::cluster::script_command();
    let mut child = command.arg("run").arg(own).arg(ARGUMENT).stdout(Stdio::piped()).spawn().expect("the cluster");
    let mut certificate = String::new();
    // The webhook closes standard output when it listens.
    child.stdout.take().expect("a pipe").read_to_string(&mut certificate).expect("a certificate");
    (child, certificate)
}

/// Prints the certificate, and answers requests forever.
pub(crate) fn serve() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("TLS").with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(vec![made.cert.der().clone()], key).expect("a key for it"));
    let listener = TcpListener::bind(ADDRESS).expect("a free port");
    print!("{}", made.cert.pem());
    std::io::stdout().flush().expect("a pipe");
    let null = std::fs::File::options().write(true).open("/dev/null").expect("/dev/null");
    rustix::stdio::dup2_stdout(null).expect("to close standard output");
    for stream in listener.incoming().flatten() {
        let connection = ServerConnection::new(Arc::clone(&config)).expect("TLS");
        std::thread::spawn(move || answer_all(StreamOwned::new(connection, stream)));
    }
}

/// Answers the requests of one connection. Returns when the connection ends.
fn answer_all(mut stream: StreamOwned<ServerConnection, TcpStream>) -> Option<()> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 65536]);
    loop {
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        let Some(at) = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..at]).to_ascii_lowercase();
        let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())?;
        let Some(body) = bytes.get(at + 4..at + 4 + length) else { continue };
        let review: Value = serde_json::from_slice(body).ok()?;
        let response = json!({"uid": review["request"]["uid"], "allowed": true});
        let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        let answer = answer.to_string();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
        write!(stream, "{head} {}\r\n\r\n{answer}", answer.len()).and_then(|()| stream.flush()).ok()?;
        bytes.clear();
    }
}
