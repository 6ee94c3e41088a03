//! Tests of `tools/picture`, which draws the JSON output of `timeline`.

use super::{events, pod, run, serve};
use serde_json::json;

#[test]
fn picture_escapes_text_from_the_cluster() {
    let mut pod = pod();
    let evil = "<script>alert('x')</script>\"&é";
    pod["metadata"]["name"] = json!(evil);
    pod["spec"]["containers"][1]["name"] = json!(evil);
    let picture = draw(&run(&serve(&pod, events()), "json"));
    assert!(!picture.contains("<script") && !picture.contains("alert('x')"), "{picture}");
    assert!(picture.contains("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&quot;&amp;é"), "{picture}");
    assert!(picture.contains("role=\"img\"") && picture.contains("<desc id=\"pg-desc\">"));
    for foreign in ["src=", "href=", "@import", "url("] {
        assert!(!picture.contains(foreign), "{foreign}");
    }
}

/// Draws the JSON of a timeline with `tools/picture`, and returns the picture.
fn draw(json: &str) -> String {
    let picture = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/picture");
    let output = assert_cmd::Command::new(picture).write_stdin(json).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
