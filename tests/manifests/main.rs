//! Tests of what `kubectl podgate` does with manifests: `inject`, `uninject` and `check`.

#[path = "../common/api_server.rs"]
mod api_server;
mod check;
#[path = "../common/hang_guard.rs"]
mod hang_guard;
mod inject;
mod neighbors;
#[path = "../common/screen.rs"]
mod screen;
mod yaml_edit;
