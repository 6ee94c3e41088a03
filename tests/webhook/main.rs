//! `podgate-webhook` from outside: the real program, called as the API server calls it, and as it never would.

mod answers;
mod api;
mod client;
mod docs;
mod hostile;
mod install;
mod own_certificates;
mod program;
mod serving;
