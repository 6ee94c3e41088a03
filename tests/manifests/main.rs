//! Tests of what `kubectl podgate` does with manifests: `inject`, `uninject` and `check`.

#[path = "../common/api_server.rs"]
mod api_server;
#[path = "../check/mod.rs"]
mod check;
#[path = "../common/hang_guard.rs"]
mod hang_guard;
#[path = "../inject/mod.rs"]
mod inject;
#[path = "../neighbors/mod.rs"]
mod neighbors;
#[path = "../yaml_edit/mod.rs"]
mod yaml_edit;
