//! `tcpSocket`: a connection is a success.

use super::{Passed, Verdict, connect, host_or};
use std::net::IpAddr;

pub(super) async fn attempt(host: Option<&str>, port: u16, pod_ip: IpAddr) -> Verdict {
    let host = host_or(host, pod_ip);
    connect(&host, port).await?;
    Ok(Passed { detail: format!("{host}:{port} accepts connections"), warning: None })
}
