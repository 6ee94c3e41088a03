//! Address on which a server of podgate listens.

use crate::core::argv::ParseError;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Parses `ADDRESS:PORT`, or `:PORT` for all addresses.
pub fn parse(text: &str) -> Result<SocketAddr, ParseError> {
    let parsed = match text.strip_prefix(':') {
        Some(port) => port.parse().ok().map(|port: u16| (Ipv6Addr::UNSPECIFIED, port).into()),
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| format!("{text:?} is neither ADDRESS:PORT nor :PORT").into())
}

/// Returns the addresses to try in order. On a machine without IPv6, `[::]` means all IPv4 addresses.
pub fn candidates(at: SocketAddr) -> Vec<SocketAddr> {
    let all = SocketAddr::from((Ipv4Addr::UNSPECIFIED, at.port()));
    if at.ip() == Ipv6Addr::UNSPECIFIED { vec![at, all] } else { vec![at] }
}
