//! Tests of `podgate-controller` and of the manifests that run it.

#[path = "../common/api_server.rs"]
mod api_server;
#[path = "../common/free_port.rs"]
mod free_port;
#[path = "../common/hang_guard.rs"]
mod hang_guard;
#[path = "../common/help.rs"]
mod help;
#[path = "../common/needs.rs"]
mod needs;
mod program;
mod shipped_manifests;
