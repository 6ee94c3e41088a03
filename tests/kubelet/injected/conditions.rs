//! Tests of `check.podgate.io`, `ready.podgate.io` and `podgate.io/on-provider-restart`.

use super::apply_injected;

#[test]
#[ignore = "needs a cluster: make e2e"]
fn containers_wait_for_a_file_and_a_socket() {
    let scene = apply_injected("inj-conditions", "conditions.yaml", &[]);
    let run = scene.follow("conditions");
    let up = run.wait_until_up();
    for name in ["podgate", "reader", "client", "socket", "writer"] {
        assert_eq!(up.kubelet_status(name)["restartCount"], 0, "{name}");
    }
    // The kubelet calls a container without a readinessProbe ready at once. podgate waits for the socket.
    run.assert_order(&["socket", "client"]);
    run.assert_order(&["writer", "reader"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn follower_restarts_with_its_provider() {
    let scene = apply_injected("inj-follow", "conditions.yaml", &[]);
    let run = scene.follow("follow");
    let names = ["provider", "follower"];
    let again = run.watch.wait_until("both have restarted", 120, |seen| {
        names.iter().all(|name| seen.kubelet_status(name)["restartCount"] == 1) && seen.is_up()
    });
    let end = &again.kubelet_status("follower")["lastState"]["terminated"];
    assert_eq!(end["exitCode"], 69, "{end}");
    let message = end["message"].as_str().unwrap_or_default();
    assert!(message.contains("provider was restarted"), "{message}");
    // The new gate has waited for the new provider.
    run.assert_order(&names);
    assert_eq!(again.kubelet_status("podgate")["restartCount"], 0);
}
