//! Black-box tests of `podgate-webhook`, with requests as from the API server and with hostile ones.

mod answers;
mod api;
mod client;
mod docs;
mod flood;
mod forged;
#[path = "../common/hang_guard.rs"]
mod hang_guard;
#[path = "../common/help.rs"]
mod help;
mod hostile;
mod images;
mod install;
mod install_command;
mod kubernetes_version;
#[path = "../common/needs.rs"]
mod needs;
mod orders;
mod own_certificates;
#[allow(dead_code, reason = "shared with tests/tool/book")]
#[path = "../tool/book/page.rs"]
mod page;
mod program;
mod rights;
mod serving;
