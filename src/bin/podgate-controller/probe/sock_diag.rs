//! Asks the kernel if a socket listens on a TCP address (`NETLINK_SOCK_DIAG`, `sock_diag(7)`).
//!
//! A request covers the current network namespace, which is the Pod's. The request needs no privilege and is invisible
//! to servers.
//!
//! # Cost
//! One open socket, and two system calls per request. The kernel uses the same hash lookup as for a new connection: 2
//! to 4 µs, independent of the number of listeners.
//!
//! # Caveats
//! If iptables or eBPF redirects a connection, the destination port may have no listening socket. The answer may
//! therefore trigger a probe earlier, but never delay or replace a probe.

use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, sendto, socket_with};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

const NLMSG_ERROR: u16 = 2;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Netlink flag of a request. `NLM_F_DUMP` is not set, because the request is for one socket, not a list.
const NLM_F_REQUEST: u16 = 1;
const IPPROTO_TCP: u8 = 6;
const TCP_LISTEN: u8 = 10;

const NLMSGHDR_LEN: usize = 16;
/// Size of `struct inet_diag_req_v2`, in bytes: 8, then `struct inet_diag_sockid`.
const INET_DIAG_REQ_LEN: usize = 56;
const REQUEST_LEN: usize = NLMSGHDR_LEN + INET_DIAG_REQ_LEN;

/// Size of the receive buffer, in bytes. Larger than any response: a message of 72 bytes and its attributes.
const BUFFER_LEN: usize = 2048;

/// Limit on unrelated datagrams before the response.
const MAX_DATAGRAMS: usize = 16;

/// Client that sends requests to the kernel on one socket.
pub(crate) struct SockDiag {
    socket: Option<OwnedFd>,
    sequence: u32,
    buffer: Box<[u8]>,
}

impl SockDiag {
    /// Creates an instance. The first request opens the socket.
    pub(crate) fn new() -> SockDiag {
        SockDiag { socket: None, sequence: 0, buffer: vec![0; BUFFER_LEN].into() }
    }

    /// Returns true if a socket listens on `address`, or on its port on all addresses. Never blocks. If the request
    /// fails (no `inet_diag`, a seccomp profile, gVisor) or the response is invalid, the port may still be open. The
    /// next call then uses a new socket.
    pub(crate) fn has_listener(&mut self, address: SocketAddr) -> io::Result<bool> {
        if address.port() == 0 {
            return Ok(false);
        }
        let answer = self.query_kernel(address);
        if answer.is_err() {
            // Drop the socket together with unread parts of the response.
            self.socket = None;
        }
        Ok(answer?)
    }

    fn query_kernel(&mut self, address: SocketAddr) -> Result<bool, Errno> {
        let socket = match &mut self.socket {
            Some(socket) => socket,
            none => none.insert(socket_with(
                AddressFamily::NETLINK,
                SocketType::DGRAM,
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
                Some(SOCK_DIAG),
            )?),
        };
        self.sequence = self.sequence.wrapping_add(1);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&*socket, &encode_request(address, self.sequence), SendFlags::empty(), &kernel)?;
        for _ in 0..MAX_DATAGRAMS {
            // The kernel responds within `sendto`, so a datagram is always available here. Otherwise the non-blocking
            // socket returns EAGAIN, which is handled like other errors.
            let (length, whole, sender) = recvfrom(&*socket, &mut self.buffer[..], RecvFlags::TRUNC)?;
            let from_kernel = sender.and_then(|sender| SocketAddrNetlink::try_from(sender).ok()) == Some(kernel);
            if !from_kernel {
                continue;
            }
            if whole > length {
                return Err(Errno::MSGSIZE);
            }
            if let Some(found) = parse_answer(&self.buffer[..length], self.sequence, address.port())? {
                return Ok(found);
            }
        }
        Err(Errno::OVERFLOW)
    }
}

/// Encodes a request for the socket that listens on `address`: `nlmsghdr`, then `inet_diag_req_v2`.
fn encode_request(address: SocketAddr, sequence: u32) -> [u8; REQUEST_LEN] {
    let mut message = [0; REQUEST_LEN];
    let mut put = |at: usize, bytes: &[u8]| message[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(REQUEST_LEN as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    put(8, &sequence.to_ne_bytes());
    // The family's number fits in a byte: AF_INET is 2, AF_INET6 is 10.
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    put(NLMSGHDR_LEN, &[family.as_raw() as u8, IPPROTO_TCP]);
    put(NLMSGHDR_LEN + 4, &(1_u32 << TCP_LISTEN).to_ne_bytes());
    // `inet_diag_sockid`: local port, remote port (none), local address, remote address (none), interface, cookie
    // (any).
    let id = NLMSGHDR_LEN + 8;
    put(id, &address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => put(id + 4, &ip.octets()),
        IpAddr::V6(ip) => put(id + 4, &ip.octets()),
    }
    put(id + 40, &[0xff; 8]);
    message
}

/// Parses a datagram. Returns true if a socket listens on `port`; `None` if the datagram does not answer request
/// `sequence`.
fn parse_answer(mut datagram: &[u8], sequence: u32, port: u16) -> Result<Option<bool>, Errno> {
    while !datagram.is_empty() {
        let length = read_u32(datagram, 0).map_or(0, |length| length as usize);
        let message = datagram.get(..length).filter(|_| length >= NLMSGHDR_LEN).ok_or(Errno::BADMSG)?;
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
        if read_u32(message, 8) != Some(sequence) {
            continue;
        }
        match read_u16(message, 4) {
            Some(NLMSG_ERROR) => {
                return match parse_errno(message) {
                    // No socket listens, or it was closed during the lookup.
                    Some(Errno::NOENT | Errno::STALE) => Ok(Some(false)),
                    failure => Err(failure.unwrap_or(Errno::BADMSG)),
                };
            }
            Some(SOCK_DIAG_BY_FAMILY) => {
                // `struct inet_diag_msg`: family, state, two more bytes; then the local port, in network byte order.
                let is_listening = message.get(NLMSGHDR_LEN + 1) == Some(&TCP_LISTEN);
                let is_on_port = message.get(NLMSGHDR_LEN + 4..NLMSGHDR_LEN + 6) == Some(&port.to_be_bytes()[..]);
                return Ok(Some(is_listening && is_on_port));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Returns the errno of an `NLMSG_ERROR` message, whose payload starts with the negated errno.
fn parse_errno(message: &[u8]) -> Option<Errno> {
    let code = read_u32(message, NLMSGHDR_LEN)? as i32;
    (code < 0).then(|| Errno::from_raw_os_error(code.wrapping_neg()))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SocketAddrAny, bind, ipproto, listen, sockopt};
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

    fn message(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((NLMSGHDR_LEN + payload.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn listener(state: u8, port: u16) -> Vec<u8> {
        let mut payload = vec![2, state, 0, 0];
        payload.extend(port.to_be_bytes());
        payload.resize(72, 0);
        message(SOCK_DIAG_BY_FAMILY, 7, &payload)
    }

    fn error(code: i32) -> Vec<u8> {
        message(NLMSG_ERROR, 7, &code.to_ne_bytes())
    }

    #[test]
    fn only_the_response_to_the_own_request_is_read() {
        assert_eq!(parse_answer(&listener(TCP_LISTEN, 80), 7, 80), Ok(Some(true)));
        assert_eq!(parse_answer(&listener(TCP_LISTEN, 81), 7, 80), Ok(Some(false)));
        assert_eq!(parse_answer(&listener(1, 80), 7, 80), Ok(Some(false)));
        assert_eq!(parse_answer(&listener(TCP_LISTEN, 80), 8, 80), Ok(None));
        assert_eq!(parse_answer(&message(16, 7, &[1, 2, 3]), 7, 80), Ok(None));
        assert_eq!(parse_answer(&[message(16, 7, &[1, 2, 3]), error(-2)].concat(), 7, 80), Ok(Some(false)));
        assert_eq!(parse_answer(&error(-1), 7, 80), Err(Errno::PERM));
        assert_eq!(parse_answer(&error(0), 7, 80), Err(Errno::BADMSG), "an acknowledgment was not requested");
    }

    #[test]
    fn truncated_messages_are_errors() {
        let whole = listener(TCP_LISTEN, 80);
        for cut in 1..whole.len() {
            assert_eq!(parse_answer(&whole[..cut], 7, 80), Err(Errno::BADMSG), "{cut}");
        }
        assert_eq!(parse_answer(&[0; 32], 7, 80), Err(Errno::BADMSG));
        assert_eq!(parse_answer(&message(SOCK_DIAG_BY_FAMILY, 7, &[2]), 7, 80), Ok(Some(false)));
    }

    #[test]
    fn finds_listeners_until_they_close() {
        let mut kernel = SockDiag::new();
        for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            for bound in [ip, if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }] {
                let listener = TcpListener::bind((bound, 0)).unwrap();
                let address = SocketAddr::new(ip, listener.local_addr().unwrap().port());
                assert!(kernel.has_listener(address).unwrap(), "{address}, bound to {bound}");
                drop(listener);
                assert!(!kernel.has_listener(address).unwrap(), "{address}, bound to {bound}");
            }
        }
    }

    #[test]
    fn listener_on_another_address_does_not_count() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut kernel = SockDiag::new();
        assert!(!kernel.has_listener((Ipv4Addr::new(127, 0, 0, 2), port).into()).unwrap());
        assert!(!kernel.has_listener((Ipv6Addr::LOCALHOST, port).into()).unwrap());
    }

    #[test]
    fn finds_a_dual_stack_listener_by_both_addresses() {
        let socket = rustix::net::socket(AddressFamily::INET6, SocketType::STREAM, Some(ipproto::TCP)).unwrap();
        sockopt::set_ipv6_v6only(&socket, false).unwrap();
        bind(&socket, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))).unwrap();
        let port = port_of(rustix::net::getsockname(&socket).unwrap());
        let mut kernel = SockDiag::new();
        assert!(!kernel.has_listener((Ipv4Addr::LOCALHOST, port).into()).unwrap(), "bound, not listening");
        listen(&socket, 1).unwrap();
        assert!(kernel.has_listener((Ipv4Addr::LOCALHOST, port).into()).unwrap());
        assert!(kernel.has_listener((Ipv6Addr::LOCALHOST, port).into()).unwrap());
    }

    fn port_of(address: SocketAddrAny) -> u16 {
        SocketAddr::try_from(address).unwrap().port()
    }

    #[test]
    fn connected_sockets_do_not_count_as_listeners() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let _server = listener.accept().unwrap();
        drop(listener);
        let mut kernel = SockDiag::new();
        assert!(!kernel.has_listener(address).unwrap());
        assert!(!kernel.has_listener(client.local_addr().unwrap()).unwrap());
        assert!(!kernel.has_listener((Ipv4Addr::LOCALHOST, 0).into()).unwrap());
    }

    #[test]
    fn next_call_works_after_an_error() {
        let mut kernel = SockDiag::new();
        kernel.socket = Some(std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().into());
        assert!(kernel.has_listener((Ipv4Addr::LOCALHOST, 80).into()).is_err());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(kernel.has_listener(listener.local_addr().unwrap()).unwrap());
    }
}
