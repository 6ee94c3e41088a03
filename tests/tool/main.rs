//! Tests of the rest of `kubectl podgate`: its documentation, registries, running Pods, and `try`.

#[path = "../common/api_server.rs"]
mod api_server;
mod book;
#[path = "../common/free_port.rs"]
mod free_port;
#[path = "../common/hang_guard.rs"]
mod hang_guard;
#[path = "../common/help.rs"]
mod help;
mod krew;
mod kubectl_cli;
#[path = "../common/needs.rs"]
mod needs;
mod overriding;
mod pods;
mod registry;
#[path = "../common/screen.rs"]
mod screen;
mod status;
mod timeline;
mod try_run;
