//! Ports for tests that need a port on which nothing listens.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};

/// Returns an address on which nothing listens. Each call in this process returns another address. The port is below the
/// range `ip_local_port_range`, so the kernel never chooses it for an outgoing connection or a listener on port 0. The
/// search opens no listener: a process that another test starts at this moment would inherit it, and keep the port.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 20_000 + u16::try_from(std::process::id() % 100).unwrap() * 100;
    let mut candidates = std::iter::repeat_with(|| base + NEXT.fetch_add(1, Ordering::Relaxed));
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    candidates.by_ref().take(1000).map(at).find(|address| TcpStream::connect(address).is_err()).unwrap()
}
