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
//! therefore make attempts more or less frequent, but must never replace them.

use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
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
/// Size of `struct inet_diag_req_v2`, in bytes: 8 bytes of fields and the 48 bytes of `struct inet_diag_sockid`.
const INET_DIAG_REQ_LEN: usize = 56;
const REQUEST_LEN: usize = NLMSGHDR_LEN + INET_DIAG_REQ_LEN;

/// Size of the receive buffer, in bytes. The used part of a response is shorter.
const BUFFER_LEN: usize = 256;

/// Client that sends requests to the kernel on one socket. The first request opens the socket.
#[derive(Default)]
pub struct SockDiag {
    socket: Option<OwnedFd>,
}

impl SockDiag {
    /// Returns true if a socket listens on `address`, or on its port on all addresses. Never blocks. If the request
    /// fails (no `inet_diag`, a seccomp profile, gVisor) or the response is invalid, the port may still be open. The
    /// next call then uses a new socket.
    pub fn has_listener(&mut self, address: SocketAddr) -> io::Result<bool> {
        if address.port() == 0 {
            return Ok(false);
        }
        let answer = self.query_kernel(address);
        if answer.is_err() {
            // Drop the socket together with unread responses.
            self.socket = None;
        }
        Ok(answer?)
    }

    fn query_kernel(&mut self, address: SocketAddr) -> Result<bool, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match &mut self.socket {
            Some(socket) => socket,
            none => none.insert(socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(SOCK_DIAG))?),
        };
        sendto(&*socket, &encode_request(address), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        // The kernel responds within `sendto`, with one message. Without a response, the non-blocking socket returns
        // EAGAIN, which is handled like other errors.
        let mut buffer = [0; BUFFER_LEN];
        let (length, _) = recv(&*socket, &mut buffer[..], RecvFlags::empty())?;
        parse_answer(&buffer[..length], address.port())
    }
}

/// Encodes a request for the socket that listens on `address`: `nlmsghdr`, then `inet_diag_req_v2`.
fn encode_request(address: SocketAddr) -> [u8; REQUEST_LEN] {
    let mut message = [0; REQUEST_LEN];
    let mut put = |at: usize, bytes: &[u8]| message[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(REQUEST_LEN as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
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

/// Parses the kernel's response. Returns true if a socket listens on `port`.
fn parse_answer(message: &[u8], port: u16) -> Result<bool, Errno> {
    let payload = message.get(NLMSGHDR_LEN..).ok_or(Errno::BADMSG)?;
    let kind = u16::from_ne_bytes([message[4], message[5]]);
    match (kind, payload) {
        // The payload starts with the negated errno.
        (NLMSG_ERROR, [a, b, c, d, ..]) => match i32::from_ne_bytes([*a, *b, *c, *d]) {
            0.. => Err(Errno::BADMSG),
            code => match Errno::from_raw_os_error(code.wrapping_neg()) {
                // No socket listens, or it was closed during the lookup.
                Errno::NOENT | Errno::STALE => Ok(false),
                failure => Err(failure),
            },
        },
        // `struct inet_diag_msg`: family, state, two more bytes; then the local port, in network byte order.
        (SOCK_DIAG_BY_FAMILY, [_, state, _, _, high, low, ..]) => {
            Ok(*state == TCP_LISTEN && [*high, *low] == port.to_be_bytes())
        }
        _ => Err(Errno::BADMSG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{bind, getsockname, ipproto, listen, sockopt};
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

    #[test]
    fn invalid_responses_are_errors() {
        let message = |kind: u16, payload: &[u8]| {
            let mut bytes = [0; NLMSGHDR_LEN];
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            [&bytes, payload].concat()
        };
        let error = |code: i32| message(NLMSG_ERROR, &code.to_ne_bytes());
        for (response, expected) in [
            (message(SOCK_DIAG_BY_FAMILY, &[2, TCP_LISTEN, 0, 0, 0, 80]), Ok(true)),
            (message(SOCK_DIAG_BY_FAMILY, &[2, TCP_LISTEN, 0, 0, 0, 81]), Ok(false)),
            (message(SOCK_DIAG_BY_FAMILY, &[2, 1, 0, 0, 0, 80]), Ok(false)),
            (error(-2), Ok(false)),
            (error(-1), Err(Errno::PERM)),
            (error(0), Err(Errno::BADMSG)),
            (message(SOCK_DIAG_BY_FAMILY, &[2]), Err(Errno::BADMSG)),
            (message(16, &[0; 72]), Err(Errno::BADMSG)),
            (vec![0; NLMSGHDR_LEN - 1], Err(Errno::BADMSG)),
        ] {
            assert_eq!(parse_answer(&response, 80), expected, "{response:?}");
        }
    }

    #[test]
    fn finds_listeners_until_they_close() {
        let mut kernel = SockDiag::default();
        for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            for bound in [ip, if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }] {
                let listener = TcpListener::bind((bound, 0)).unwrap();
                let address = SocketAddr::new(ip, listener.local_addr().unwrap().port());
                assert!(kernel.has_listener(address).unwrap(), "{address}, bound to {bound}");
                let client = TcpStream::connect(address).unwrap();
                let _server = listener.accept().unwrap();
                drop(listener);
                // A process that another test has just started keeps the listener until its execve.
                for _ in 0..1000 {
                    if kernel.has_listener(address).unwrap() {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                }
                // Connected sockets do not listen.
                for closed in [address, client.local_addr().unwrap(), (ip, 0).into()] {
                    assert!(!kernel.has_listener(closed).unwrap(), "{closed}, bound to {bound}");
                }
            }
        }
    }

    #[test]
    fn listener_on_another_address_does_not_count() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut kernel = SockDiag::default();
        assert!(!kernel.has_listener((Ipv4Addr::new(127, 0, 0, 2), port).into()).unwrap());
        assert!(!kernel.has_listener((Ipv6Addr::LOCALHOST, port).into()).unwrap());
    }

    #[test]
    fn finds_a_dual_stack_listener_by_both_addresses() {
        let socket = rustix::net::socket(AddressFamily::INET6, SocketType::STREAM, Some(ipproto::TCP)).unwrap();
        sockopt::set_ipv6_v6only(&socket, false).unwrap();
        bind(&socket, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))).unwrap();
        let port = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap().port();
        let mut kernel = SockDiag::default();
        assert!(!kernel.has_listener((Ipv4Addr::LOCALHOST, port).into()).unwrap(), "bound, not listening");
        listen(&socket, 1).unwrap();
        assert!(kernel.has_listener((Ipv4Addr::LOCALHOST, port).into()).unwrap());
        assert!(kernel.has_listener((Ipv6Addr::LOCALHOST, port).into()).unwrap());
    }

    #[test]
    fn next_call_works_after_an_error() {
        let udp = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut kernel = SockDiag { socket: Some(udp.into()) };
        assert!(kernel.has_listener((Ipv4Addr::LOCALHOST, 80).into()).is_err());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(kernel.has_listener(listener.local_addr().unwrap()).unwrap());
    }
}
