//! Tests of the text form of a predecessor's probe.

use podgate::core::ask::AskedProbe;
use podgate::core::container::Container;
use proptest::prelude::*;
use serde_json::json;

fn container(value: serde_json::Value) -> Container {
    serde_json::from_value(value).unwrap()
}

#[test]
fn probes_are_written_with_their_settings() {
    for (value, expected) in [
        (json!({"name": "db", "readinessProbe": {"tcpSocket": {"port": 5432}}}), &["db tcp://:5432"][..]),
        (
            json!({"name": "db", "ports": [{"name": "web", "containerPort": 80}],
                "startupProbe": {"tcpSocket": {"port": "web"}, "periodSeconds": 1},
                "readinessProbe": {"httpGet": {"port": "web", "path": "/a b",
                    "httpHeaders": [{"name": "Host", "value": "x"}]}, "initialDelaySeconds": 3, "successThreshold": 2}}),
            &[
                "db periodSeconds=1 tcp://:80",
                "db initialDelaySeconds=3 successThreshold=2 http://:80/a%20b [\"Host: x\"]",
            ],
        ),
        (
            json!({"name": "api", "until": ["db", "cache"], "readinessProbe": {"httpGet": {"port": 80}}}),
            &["api after=db,cache http://:80/"],
        ),
    ] {
        let container = container(value);
        let asks = AskedProbe::of(&container).unwrap();
        assert_eq!(asks.iter().map(AskedProbe::to_string).collect::<Vec<_>>(), expected);
        let mut back = Vec::new();
        expected.iter().for_each(|text| text.parse::<AskedProbe>().unwrap().add_to(&mut back));
        assert_eq!(AskedProbe::of(&back[0]).unwrap().iter().map(AskedProbe::to_string).collect::<Vec<_>>(), expected);
    }
    for value in
        [json!({"exec": {"command": ["x"]}}), json!({"grpc": {"port": 1}}), json!({"tcpSocket": {"port": "no"}})]
    {
        assert!(AskedProbe::of(&container(json!({"name": "db", "readinessProbe": value}))).is_none());
    }
}

proptest! {
    #[test]
    fn parsing_never_panics_and_the_text_is_stable(text in "[a-z]{1,4}( (after|periodSeconds|x)=[a-z0-9,]{0,4}){0,2} (http|tcp|file)://[a-z:0-9./ ]{0,12}") {
        if let Ok(ask) = text.parse::<AskedProbe>() {
            prop_assert_eq!(ask.to_string().parse::<AskedProbe>(), Ok(ask));
        }
    }
}
