//! Black-box tests of `podgate-webhook`, with requests as from the API server and with hostile ones.

mod answers;
mod api;
mod client;
mod docs;
mod flood;
mod forged;
#[path = "../common/hang_guard.rs"]
mod hang_guard;
mod hostile;
mod install;
mod kubernetes_version;
#[path = "../common/needs.rs"]
mod needs;
mod own_certificates;
mod program;
mod rights;
mod serving;
