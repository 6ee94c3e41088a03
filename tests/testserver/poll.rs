//! Polls HTTP servers, as a user's hook or wrapper script does.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

/// Time between two requests, as in Istio's `pilot-agent wait`.
const PERIOD: Duration = Duration::from_millis(500);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits for the servers in `addresses`, one after the other, until each answers `GET /` with status 200. Returns false
/// if this takes more pauses than fit into `timeout`.
pub(crate) fn wait(addresses: &[SocketAddr], timeout: Option<Duration>) -> bool {
    let mut periods = timeout.map_or(u128::MAX, |timeout| timeout.as_millis() / PERIOD.as_millis());
    for address in addresses {
        while !is_ready(*address).unwrap_or(false) {
            if periods == 0 {
                return false;
            }
            periods -= 1;
            sleep(PERIOD);
        }
    }
    true
}

fn is_ready(address: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&address, REQUEST_TIMEOUT)?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    Ok(answer.ends_with(b" 200"))
}
