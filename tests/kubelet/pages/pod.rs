//! Runs commands on a starting Pod. The commands come from the examples in the help (`tests/help`), `README.md` and
//! `docs/in-the-pod.md`.

use super::page::needs_a_cluster;
use super::{Page, Reader};
use crate::pod::{Pod, server};
use crate::scene::Scene;

#[test]
#[ignore = "needs a cluster: make e2e"]
fn documented_commands_about_a_pod_work() {
    let scene = Scene::shared("page-pod");
    scene.grant_pod_access();
    let db = server("db").http(8001).ready_after("20m").gate(&[]);
    let migrate = server("migrate").args(&["--exit-after", "20m"]).gate(&[]);
    let web = server("web").gate(&["--until", "db", "--until", "migrate=Completed"]);
    let run = scene.create(&Pod::new("ordered", [db, migrate, web]));
    run.wait_for_start("web", 1);
    run.watch.wait_until("the kubelet reports web's gate", 60, |seen| {
        !seen.kubelet_status("web")["state"]["running"].is_null() && seen.podgate_state("web").is_some()
    });

    let mut reader = Reader::new(&scene);
    for name in ["shop-6bcbfd8758-sr5xs", "POD"] {
        reader.substitute(name, "ordered");
    }
    reader.substitute("-n shop", &format!("-n {}", scene.namespace));
    let help = Page::help_texts().iter().flat_map(Page::examples).collect::<Vec<_>>();
    let all = [help, Page::read("README.md").in_tables()].concat();
    // The cluster has no workload of this name; tests/tool/status tests that command.
    let is_run = |command: &&str| needs_a_cluster(command) && !command.contains("deployment/");
    let commands: Vec<&str> = all.iter().map(|example| example.text.as_str()).filter(is_run).collect();
    let of = |name: &str| -> Vec<&str> {
        commands.iter().copied().filter(|command| command.contains(&format!("kubectl podgate {name} "))).collect()
    };
    let (status, overrides, timeline) = (of("status"), of("override"), of("timeline"));
    assert!(status.len() >= 5 && overrides.len() >= 4 && timeline.len() >= 4, "{commands:#?}");

    let waiting =
        reader.try_run(status.iter().find(|command| command.ends_with("status ordered")).expect("an example"));
    assert_eq!(waiting.code, Some(3), "{}", waiting.all_output);
    assert!(waiting.stdout.contains("db=Ready, migrate=Completed"), "{}", waiting.all_output);

    let changes: Vec<&&str> = overrides.iter().filter(|command| !command.contains("--remove")).collect();
    for command in changes {
        let output = reader.run(command);
        assert!(output.stdout.contains("override.podgate.io/db = Ready@"), "{command}: {}", output.all_output);
    }
    // The kubelet can report the start before the sidecar does.
    run.watch.wait_until("web's gate opens", 60, |seen| {
        seen.kubelet_status("web")["started"] == true && seen.podgate_state("web") == Some("Ready")
    });

    for command in &status {
        let output = match command.contains(" -w") {
            // A command with `-w` runs until SIGINT.
            true => reader.try_run(&format!("timeout --signal=INT 3 {command}")),
            false => reader.run(command),
        };
        assert!(output.stdout.contains("web"), "{command}: {}", output.all_output);
    }
    for command in &timeline {
        let shown = reader.run(command).stdout;
        assert!(shown.contains("migrate"), "{command}: {shown}");
    }

    let seen = run.watch.len();
    for command in overrides.iter().filter(|command| command.contains("--remove")) {
        reader.run(command);
    }
    run.watch.wait_from(seen, "db has its real state again", 60, |seen| seen.podgate_state("db") != Some("Ready"));
    let seen = run.watch.len();
    let by_hand = &Page::read("docs/in-the-pod.md").blocks("sh")[0].text;
    reader.run(by_hand);
    run.watch.wait_from(seen, "the override takes effect", 60, |seen| seen.podgate_state("db") == Some("Ready"));
}
