//! The kernel's word on whether anything listens on a TCP port (`NETLINK_SOCK_DIAG`, `sock_diag(7)`).
//!
//! It is about this network namespace, which is the pod's, needs no privilege, and no server notices it.
//!
//! # Cost
//! A socket that stays open, and per question two system calls for IPv4 and, if that finds nothing, two for IPv6. The
//! kernel walks its table of listeners, whose size depends on the node's memory (one bucket for 2 MiB, at most 65536),
//! and copies out only those on the port. Measured with 16384 buckets: 20 µs a family.
//!
//! # Caveats
//! A listener on another address than the one to be probed counts too; and where a redirection (iptables, eBPF) leads the
//! probe elsewhere, nothing may listen on its port. The answer may hasten a probe, never hold one back or replace it.

use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, sendto, socket_with};
use std::io;
use std::os::fd::OwnedFd;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const REQUEST_DUMP: u16 = 0x301;
const IPPROTO_TCP: u8 = 6;
const TCP_LISTEN: u8 = 10;
const INET_DIAG_REQ_BYTECODE: u16 = 1;
const INET_DIAG_BC_S_GE: u8 = 2;
const INET_DIAG_BC_S_LE: u8 = 3;

const NLMSGHDR: usize = 16;
/// `struct inet_diag_req_v2`.
const INET_DIAG_REQ: usize = 56;
/// The netlink attribute with the filter: its head and two conditions of 8 bytes.
const FILTER: usize = 4 + 16;
const QUESTION: usize = NLMSGHDR + INET_DIAG_REQ + FILTER;

/// The kernel makes no datagram of an answer longer than 8 KiB unless it has seen a larger buffer.
const BUFFER: usize = 8192;

/// Bound on the datagrams that are read of one answer: thousands of listeners on the port (`SO_REUSEPORT`).
const DATAGRAMS: usize = 64;

/// Asks the kernel; holds one socket.
pub(crate) struct Listening {
    socket: Option<OwnedFd>,
    sequence: u32,
    buffer: Box<[u8]>,
}

impl Listening {
    /// Opens nothing yet: the first question does.
    pub(crate) fn new() -> Listening {
        Listening { socket: None, sequence: 0, buffer: vec![0; BUFFER].into() }
    }

    /// Whether anything in this network namespace listens on TCP `port`, by IPv4 or by IPv6. Never waits.
    ///
    /// # Errors
    /// The kernel can't be asked (no `inet_diag`, a seccomp profile, gVisor) or can't be understood: that is no word on the
    /// port. Another question may be asked, on a new socket.
    pub(crate) fn ask(&mut self, port: u16) -> io::Result<bool> {
        if port == 0 {
            return Ok(false);
        }
        let answer = self.ask_family(AddressFamily::INET, port).and_then(|found| match found {
            true => Ok(true),
            false => self.ask_family(AddressFamily::INET6, port),
        });
        if answer.is_err() {
            // Whatever is left of the answer goes with the socket.
            self.socket = None;
        }
        Ok(answer?)
    }

    fn ask_family(&mut self, family: AddressFamily, port: u16) -> Result<bool, Errno> {
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
        // The family's number fits in a byte: AF_INET is 2, AF_INET6 is 10.
        sendto(&*socket, &question(family.as_raw() as u8, port, self.sequence), SendFlags::empty(), &kernel)?;
        let mut found = false;
        for _ in 0..DATAGRAMS {
            // The kernel writes the answer's first datagram within `sendto`, each further one within the `recvfrom` before
            // it. So there is always one here; if not, the non-blocking socket says EAGAIN, an error like others.
            let (length, whole, sender) = recvfrom(&*socket, &mut self.buffer[..], RecvFlags::TRUNC)?;
            let from_kernel = sender.and_then(|sender| SocketAddrNetlink::try_from(sender).ok()) == Some(kernel);
            if !from_kernel {
                continue;
            }
            if whole > length {
                return Err(Errno::MSGSIZE);
            }
            match read(&self.buffer[..length], self.sequence, port)? {
                Reading::More(here) => found |= here,
                Reading::Done(here) => return Ok(found | here),
            }
        }
        // The rest goes with the socket.
        self.socket = None;
        if found { Ok(true) } else { Err(Errno::OVERFLOW) }
    }
}

/// A request for the listeners of `family` on `port`: `nlmsghdr`, `inet_diag_req_v2`, and the filter.
fn question(family: u8, port: u16, sequence: u32) -> [u8; QUESTION] {
    let mut message = [0; QUESTION];
    let mut put = |at: usize, bytes: &[u8]| message[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(QUESTION as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &REQUEST_DUMP.to_ne_bytes());
    put(8, &sequence.to_ne_bytes());
    put(NLMSGHDR, &[family, IPPROTO_TCP]);
    put(NLMSGHDR + 4, &(1_u32 << TCP_LISTEN).to_ne_bytes());
    let filter = NLMSGHDR + INET_DIAG_REQ;
    put(filter, &(FILTER as u16).to_ne_bytes());
    put(filter + 2, &INET_DIAG_REQ_BYTECODE.to_ne_bytes());
    // `port >= it && port <= it`: the test for equality is younger than these. A condition is {code, yes, no} and
    // {unused, unused, port}; yes and no are how far to jump, and 4 beyond the end means: not this socket.
    for (at, code, no) in [(filter + 4, INET_DIAG_BC_S_GE, 16 + 4), (filter + 12, INET_DIAG_BC_S_LE, 8 + 4)] {
        put(at, &[code, 8]);
        put(at + 2, &u16::to_ne_bytes(no));
        put(at + 6, &port.to_ne_bytes());
    }
    message
}

/// What a datagram says: whether there is such a listener, and whether the answer ends with it.
#[derive(Debug, PartialEq, Eq)]
enum Reading {
    More(bool),
    Done(bool),
}

/// Reads one datagram; messages that don't answer the question `sequence` are passed over.
fn read(mut datagram: &[u8], sequence: u32, port: u16) -> Result<Reading, Errno> {
    let mut found = false;
    while !datagram.is_empty() {
        let length = word(datagram, 0).map_or(0, |length| length as usize);
        let message = datagram.get(..length).filter(|_| length >= NLMSGHDR).ok_or(Errno::BADMSG)?;
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
        if word(message, 8) != Some(sequence) {
            continue;
        }
        match half(message, 4) {
            Some(NLMSG_DONE) => return failure(message).map_or(Ok(Reading::Done(found)), Err),
            Some(NLMSG_ERROR) => return Err(failure(message).unwrap_or(Errno::BADMSG)),
            Some(SOCK_DIAG_BY_FAMILY) => {
                // `struct inet_diag_msg`: family, state, two more; then the socket's own port, in network order.
                let is_listening = message.get(NLMSGHDR + 1) == Some(&TCP_LISTEN);
                let is_on_port = message.get(NLMSGHDR + 4..NLMSGHDR + 6) == Some(&port.to_be_bytes()[..]);
                found |= is_listening && is_on_port;
            }
            _ => {}
        }
    }
    Ok(Reading::More(found))
}

/// The errno, negated, that `NLMSG_ERROR` and `NLMSG_DONE` begin with.
fn failure(message: &[u8]) -> Option<Errno> {
    let code = word(message, NLMSGHDR)? as i32;
    (code < 0).then(|| Errno::from_raw_os_error(code.wrapping_neg()))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SocketAddrAny, bind, ipproto, listen, sockopt};
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

    fn message(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((NLMSGHDR + payload.len()) as u32).to_ne_bytes().to_vec();
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

    #[test]
    fn reads_answers_to_its_own_question_alone() {
        let done = message(NLMSG_DONE, 7, &[0; 4]);
        let with = |first: &[u8]| read(&[first, &done].concat(), 7, 80);
        assert_eq!(with(&listener(TCP_LISTEN, 80)), Ok(Reading::Done(true)));
        assert_eq!(with(&listener(TCP_LISTEN, 81)), Ok(Reading::Done(false)));
        assert_eq!(with(&listener(1, 80)), Ok(Reading::Done(false)));
        assert_eq!(with(&message(16, 7, &[1, 2, 3])), Ok(Reading::Done(false)));
        assert_eq!(read(&listener(TCP_LISTEN, 80), 8, 80), Ok(Reading::More(false)));
        assert_eq!(read(&done, 8, 80), Ok(Reading::More(false)));
        assert_eq!(read(&message(NLMSG_ERROR, 7, &(-2_i32).to_ne_bytes()), 7, 80), Err(Errno::NOENT));
        assert_eq!(read(&message(NLMSG_DONE, 7, &(-1_i32).to_ne_bytes()), 7, 80), Err(Errno::PERM));
    }

    #[test]
    fn torn_messages_are_errors() {
        let whole = listener(TCP_LISTEN, 80);
        for cut in 1..whole.len() {
            assert_eq!(read(&whole[..cut], 7, 80), Err(Errno::BADMSG), "{cut}");
        }
        assert_eq!(read(&[0; 32], 7, 80), Err(Errno::BADMSG));
        assert_eq!(read(&message(SOCK_DIAG_BY_FAMILY, 7, &[2]), 7, 80), Ok(Reading::More(false)));
    }

    #[test]
    fn finds_listeners_by_ipv4_and_ipv6_until_they_close() {
        let mut kernel = Listening::new();
        for address in [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))] {
            let listener = TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            assert!(kernel.ask(port).unwrap(), "{address}");
            drop(listener);
            assert!(!kernel.ask(port).unwrap(), "{address}");
        }
    }

    #[test]
    fn finds_a_dual_stack_listener() {
        let socket = rustix::net::socket(AddressFamily::INET6, SocketType::STREAM, Some(ipproto::TCP)).unwrap();
        sockopt::set_ipv6_v6only(&socket, false).unwrap();
        bind(&socket, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))).unwrap();
        let bound = rustix::net::getsockname(&socket).unwrap();
        let port = port_of(bound);
        let mut kernel = Listening::new();
        assert!(!kernel.ask(port).unwrap(), "bound is not listening");
        listen(&socket, 1).unwrap();
        assert!(kernel.ask(port).unwrap());
    }

    fn port_of(address: SocketAddrAny) -> u16 {
        SocketAddr::try_from(address).unwrap().port()
    }

    #[test]
    fn connections_are_no_listeners() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let _server = listener.accept().unwrap();
        drop(listener);
        let mut kernel = Listening::new();
        assert!(!kernel.ask(port).unwrap());
        assert!(!kernel.ask(client.local_addr().unwrap().port()).unwrap());
        assert!(!kernel.ask(0).unwrap());
    }

    #[test]
    fn many_listeners_on_one_port_leave_nothing_for_the_next_question() {
        let first = reuse_port(0);
        let port = port_of(rustix::net::getsockname(&first).unwrap());
        let _more: Vec<OwnedFd> = (0..300).map(|_| reuse_port(port)).collect();
        let mut kernel = Listening::new();
        assert!(kernel.ask(port).unwrap());
        let other = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
        assert!(kernel.ask(other.local_addr().unwrap().port()).unwrap());
        assert!(kernel.ask(port).unwrap());
    }

    fn reuse_port(port: u16) -> OwnedFd {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::TCP)).unwrap();
        sockopt::set_socket_reuseport(&socket, true).unwrap();
        bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        listen(&socket, 1).unwrap();
        socket
    }

    #[test]
    fn goes_on_after_an_error() {
        let mut kernel = Listening::new();
        kernel.socket = Some(std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().into());
        assert!(kernel.ask(80).is_err());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(kernel.ask(listener.local_addr().unwrap().port()).unwrap());
    }
}
