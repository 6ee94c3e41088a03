//! Tests of `completion`.

use crate::api_server::{FakeApiServer, error_status};

#[test]
fn completion_scripts_name_the_commands() {
    let server = FakeApiServer::new(|_| error_status(404, "NotFound", "x"));
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (code, out, err) = server.run(&["completion", shell]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.contains("until-started") && out.contains("kubectl-podgate"), "{shell}: {out}");
    }
    let (code, _, err) = server.run(&["completion", "tcsh"]);
    assert!(code == 64 && err.contains("possible values: bash, elvish, fish, powershell, zsh"), "{err}");
    assert!(server.requests().is_empty());
}
