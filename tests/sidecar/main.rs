//! Tests of `podgate-controller` and of the manifests that run it.

#[path = "../common/api_server.rs"]
mod api_server;
#[path = "../controller/mod.rs"]
mod controller;
#[path = "../common/free_port.rs"]
mod free_port;
#[path = "../common/hang_guard.rs"]
mod hang_guard;
#[path = "../common/help.rs"]
mod help;
#[path = "../common/needs.rs"]
mod needs;
#[path = "../shipped_manifests/mod.rs"]
mod shipped_manifests;
