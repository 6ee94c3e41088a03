//! Tests of the rest of `kubectl podgate`: its documentation, registries, running Pods, and `try`.

#[path = "../common/api_server.rs"]
mod api_server;
#[path = "../book/mod.rs"]
mod book;
#[path = "../common/free_port.rs"]
mod free_port;
#[path = "../common/hang_guard.rs"]
mod hang_guard;
#[path = "../common/help.rs"]
mod help;
mod kubectl_cli;
#[path = "../common/needs.rs"]
mod needs;
#[path = "../registry/mod.rs"]
mod registry;
#[path = "../try_run/mod.rs"]
mod try_run;
#[path = "../view/mod.rs"]
mod view;
