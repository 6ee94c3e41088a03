//! Runs every command of `docs/tutorial.md` in order.

use super::{Page, Reader};
use crate::cluster::{ROOT, try_script};
use crate::scene::Scene;

#[test]
#[ignore = "needs a cluster: make e2e"]
fn tutorial_works_as_written() {
    let scene = Scene::shared("tutorial");
    let namespace = format!("{}-reader", scene.namespace);
    let page = Page::read("docs/tutorial.md");
    let mut reader = Reader::new(&scene);
    reader.substitute("podgate-tutorial", &namespace);
    // Other scenarios need the role and the policy, so delete both only in a dry run.
    reader.substitute("delete -k manifests", "delete --dry-run=server -k manifests");
    reader.link("manifests", &format!("{ROOT}/manifests"));
    reader.save("shop.yaml", &page.blocks("yaml")[0].text);

    let commands: String = page.blocks("sh").into_iter().map(|block| block.text).collect();
    let output = reader.try_run(&commands);
    if output.code != Some(0) {
        let _ = try_script(&["kubectl", "delete", "namespace", &namespace, "--wait=false", "--ignore-not-found"], "");
        panic!("{}", output.all_output);
    }
    let at =
        |what: &str| output.stdout.find(what).unwrap_or_else(|| panic!("{what:?} is missing: {}", output.all_output));
    assert!(
        at("missed db") < at("missed api") && at("missed api") < at("found db") && at("found db") < at("found api")
    );
    assert!(at("found api") < at("until web, the last one, was Ready"), "{}", output.all_output);
    let picture = &output.stdout[at("until web, the last one, was Ready")..];
    scene.report(picture.lines().skip(2).take(5).collect::<Vec<_>>().join("\n").as_str());
    let gone = try_script(&["kubectl", "get", "namespace", &namespace], "");
    assert!(gone.is_err_and(|error| error.contains("NotFound")), "{}", output.all_output);
}
