//! Tests of proposed orders: the addresses that lead to a condition, the addresses that do not, and the resulting
//! order.

use podgate::order::suggest::{Rank, UNAWAITED_BY_KUBERNETES, config_maps, suggest};
use serde_json::{Value, json};

/// Returns the edges of a Pod, such as `api > db` (`>>` if only requests fail, `?` if doubtful, `~` if the container
/// retries), and the order.
fn edges(containers: Value, more: Value) -> (Vec<String>, Option<String>) {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    pod["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let config = json!({"kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {
        "url": "http://localhost:5432/", "app.ini": "# old = 127.0.0.1:1111\ndb = 127.0.0.1:5432\nlisten 127.0.0.1:2222\n"}});
    let found = suggest(&pod, &config_maps([&pod, &config].into_iter()));
    let sign = |rank| match rank {
        Rank::Fails => ">",
        Rank::Requests => ">>",
        Rank::Doubtful => "?",
        Rank::Retries => "~",
    };
    let edge = |edge: &podgate::order::suggest::Edge| {
        let shown = edge.finding.at.of(&pod);
        assert!(shown.is_some(), "{:?} has no place", edge.finding);
        if let Some((span, text)) = edge.finding.span.clone().zip(shown.and_then(Value::as_str)) {
            assert!(edge.finding.message.contains(&text[span]), "{:?}", edge.finding);
        }
        format!("{} {} {}", edge.waiter, sign(edge.rank), edge.needed)
    };
    (found.edges.iter().map(edge).collect(), found.order)
}

#[test]
fn ports_are_found_in_variables_arguments_and_config_maps() {
    let db = json!({"name": "db", "ports": [{"containerPort": 5432}]});
    for (api, expected) in [
        (json!({"env": [{"name": "DB", "value": "postgres://u:p@localhost:5432/x"}]}), "api > db"),
        (json!({"env": [{"name": "DB", "value": "[::1]:5432"}]}), "api > db"),
        (
            json!({"env": [{"name": "DB", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "url"}}}]}),
            "api > db",
        ),
        (json!({"envFrom": [{"configMapRef": {"name": "conf"}}]}), "api > db"),
        (json!({"volumeMounts": [{"name": "conf", "mountPath": "/etc/app"}]}), "api > db"),
        (json!({"volumeMounts": [{"name": "conf", "mountPath": "/etc/url", "subPath": "other"}]}), ""),
        (json!({"command": ["/api", "--db", "127.0.0.1:5432"]}), "api > db"),
        (json!({"args": ["--db=127.0.0.1:5432"]}), "api > db"),
        (json!({"args": ["nc -z localhost:5432 || exit 1\n/api"]}), "api > db"),
        (json!({"args": ["until nc -z localhost:5432; do sleep 1; done\n/api"]}), "api ~ db"),
        (json!({"args": ["listen 80; uwsgi_pass localhost:5432;"]}), "api > db"),
        (json!({"args": ["--server=/cluster.local/127.0.0.1#5432"]}), "api > db"),
        (json!({"env": [{"name": "DB", "value": "jdbc:postgresql://127.0.0.1/x"}]}), "api > db"),
        (json!({"env": [{"name": "DB", "value": "postgres://u:p@localhost?sslmode=disable"}]}), "api > db"),
        (json!({"env": [{"name": "DB", "value": "mysql://127.0.0.1/x"}]}), ""),
        (json!({"env": [{"name": "APP_DB_HOST", "value": "127.0.0.1"}]}), "api > db"),
        (json!({"env": [{"name": "PGHOST", "value": "localhost"}]}), "api > db"),
        (json!({"args": ["--postgres-server", "::1"]}), "api > db"),
        (json!({"env": [{"name": "X_HOST", "value": "localhost"}, {"name": "X_PORT", "value": "5432"}]}), "api > db"),
        (json!({"env": [{"name": "X_ADDR", "value": "localhost"}, {"name": "X_PORT", "value": 5432}]}), "api > db"),
        (json!({"args": ["--x-host=localhost", "--x-port", "5432"]}), "api > db"),
        (json!({"env": [{"name": "X_HOST", "value": "localhost"}, {"name": "Y_PORT", "value": "5432"}]}), ""),
        (json!({"env": [{"name": "HOST", "value": "localhost"}, {"name": "PORT", "value": "5432"}]}), ""),
        (json!({"env": [{"name": "HTTP_HOST", "value": "localhost"}]}), ""),
        (json!({"env": [{"name": "REDIS_HOST", "value": "localhost"}]}), ""),
        // The name of a container is not a name of the Pod's own network.
        (json!({"env": [{"name": "DB_HOST", "value": "db"}, {"name": "DB", "value": "db:5432"}]}), ""),
        (json!({"env": [{"name": "APP_URL", "value": "http://localhost:5432"}]}), "api ? db"),
        (json!({"args": ["--db=$(DB)"], "env": [{"name": "DB", "value": "localhost:5432"}]}), "api > db"),
        (json!({"args": ["--reload-url=http://localhost:5432/"]}), "api ? db"),
        (json!({"args": ["curl -X POST localhost:5432/-/reload"]}), "api ? db"),
        (json!({"args": ["--address", "127.0.0.1:5432"]}), ""),
        (json!({"args": ["--db-address", "127.0.0.1:5432"]}), "api > db"),
        (json!({"args": ["--listen=127.0.0.1:5432"]}), ""),
        (json!({"args": ["--bind-address", "127.0.0.1:5432"]}), ""),
        (json!({"env": [{"name": "LISTEN_ADDR", "value": "localhost:5432"}]}), ""),
        (json!({"env": [{"name": "DB", "value": "db.localhost:5432"}]}), ""),
        (json!({"env": [{"name": "DB", "value": "localhost:54321"}]}), ""),
        (json!({"env": [{"name": "DB", "value": "localhost:99999999999"}]}), ""),
        (json!({"env": [{"name": "DB", "value": "localhost:5432"}], "ports": [{"containerPort": 5432}]}), ""),
        (json!({"args": [7, null], "env": "x", "envFrom": [{}], "volumeMounts": [{}]}), ""),
    ] {
        let mut own = api.clone();
        own["name"] = json!("api");
        let volumes = json!({"volumes": [{"name": "conf", "configMap": {"name": "conf"}}]});
        let (found, order) = edges(json!([own, db]), volumes);
        assert_eq!(found.join(", "), expected, "{api}");
        assert_eq!(order.is_some(), expected.contains(" > "), "{api}");
    }
}

#[test]
fn servers_are_found_by_port_probe_or_argument() {
    for (server, expected) in [
        (json!({"ports": [{"containerPort": 80}]}), "web > api"),
        (json!({"readinessProbe": {"httpGet": {"port": 80}}}), "web > api"),
        (json!({"livenessProbe": {"tcpSocket": {"port": "80"}}}), "web > api"),
        (json!({"startupProbe": {"grpc": {"port": 80}}}), "web > api"),
        (json!({"args": ["--port=80"]}), "web > api"),
        (json!({"args": ["--http-port", "80"]}), "web > api"),
        (json!({"args": ["-addr=:80"]}), "web > api"),
        (json!({"args": ["-instances=a:b:c=tcp:80"]}), "web > api"),
        (json!({"args": ["a:b:c?port=80"]}), "web > api"),
        (json!({"args": ["--metrics-bind-address=127.0.0.1:80"]}), "web > api"),
        (json!({"env": [{"name": "ADMIN_LISTEN", "value": "127.0.0.1:80 http2"}]}), "web > api"),
        (json!({"args": ["--workers=80"]}), ""),
        (json!({"ports": [{"containerPort": 8080}]}), ""),
    ] {
        let mut own = server.clone();
        own["name"] = json!("api");
        let web = json!({"name": "web", "env": [{"name": "API", "value": "http://localhost:80"}]});
        assert_eq!(edges(json!([own, web]), json!({})).0.join(", "), expected, "{server}");
    }
    let web = json!({"name": "web", "env": [{"name": "API", "value": "http://localhost:80"}]});
    let server = |name: &str| json!({"name": name, "ports": [{"containerPort": 80}]});
    assert_eq!(
        edges(json!([web, server("a"), server("b")]), json!({})),
        (vec!["web ? a".into(), "web ? b".into()], None)
    );
    let mut native = server("proxy");
    native["restartPolicy"] = json!("Always");
    assert_eq!(edges(json!([web]), json!({"initContainers": [native]})), (vec!["web ? proxy".into()], None));
}

/// Kubernetes waits for the startupProbe and the postStart hook of a native sidecar, but not for its readinessProbe.
#[test]
fn native_sidecar_starts_first_but_may_not_be_ready() {
    let web = json!({"name": "web", "env": [{"name": "API", "value": "http://localhost:80"}]});
    for (fields, is_late) in [
        (json!({"readinessProbe": {}}), true),
        (json!({}), false),
        (json!({"startupProbe": {}}), false),
        (json!({"readinessProbe": {}, "startupProbe": {}}), false),
        (json!({"readinessProbe": {}, "lifecycle": {"postStart": {}}}), false),
    ] {
        let mut native = json!({"name": "proxy", "restartPolicy": "Always", "ports": [{"containerPort": 80}]});
        native.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let pod = json!({"spec": {"containers": [web], "initContainers": [native]}});
        let found = suggest(&pod, &config_maps([].into_iter()));
        assert_eq!((found.edges.len(), found.edges[0].rank, &found.order), (1, Rank::Doubtful, &None), "{fields}");
        let finding = &found.edges[0].finding;
        assert_eq!(finding.message.ends_with(UNAWAITED_BY_KUBERNETES), is_late, "{fields}: {finding}");
        let fix = "give proxy a startupProbe, for which Kubernetes waits; see kubectl podgate check";
        assert_eq!(finding.fix == fix, is_late, "{fields}: {finding}");
    }
}

#[test]
fn config_maps_and_secrets_that_were_not_read_are_named() {
    let own = json!({
        "name": "web",
        "env": [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "a"}}},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "other", "key": "b"}}},
            {"name": "C", "valueFrom": {"secretKeyRef": {"name": "db", "key": "c"}}},
            {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "envFrom": [{"configMapRef": {"name": "env"}}, {"secretRef": {"name": "env"}}],
    });
    let volumes = json!([
        {"name": "a", "configMap": {"name": "other"}},
        {"name": "b", "secret": {"secretName": "tls"}},
        {"name": "c", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}},
            {"configMap": {"name": "openshift-service-ca.crt"}}, {"secret": {"name": "p"}}]}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
    ]);
    let conf = json!({"kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {}});
    let unread = |spec: Value| suggest(&json!({"spec": spec}), &config_maps([&conf].into_iter())).unread;
    assert_eq!(
        unread(json!({"containers": [own], "volumes": volumes})),
        "ConfigMap env, ConfigMap other, Secret db, Secret env, Secret p, Secret tls"
    );
    assert_eq!(unread(json!({"containers": [{"name": "web"}]})), "");
}

#[test]
fn sockets_need_a_shared_volume() {
    let with = |name: &str, args: &[&str], read_only: bool| json!({"name": name, "args": args, "volumeMounts": [{"name": "run", "mountPath": "/run/x/", "readOnly": read_only}], "readinessProbe": {}});
    let mut unprobed = with("php", &[], false);
    unprobed["readinessProbe"].take();
    let client = with("web", &["fastcgi_pass unix:/run/x/app.sock;"], false);
    for (others, expected) in [
        (json!([client, with("php", &[], false)]), "web >> php"),
        (json!([client, unprobed]), "web ? php"),
        (json!([client, with("php", &[], true)]), ""),
        (json!([client, {"name": "php"}]), ""),
        (json!([client, with("php", &["--listen=/run/x/app.sock"], false), with("log", &[], false)]), "web >> php"),
        (json!([client, with("php", &[], false), with("log", &[], false)]), "web ? php, web ? log"),
        (
            json!([
                with("driver", &["--endpoint=unix:///run/x/csi.sock"], false),
                with("provisioner", &["--csi-address=/run/x/csi.sock"], false),
                with("attacher", &["--csi-address", "/run/x/csi.sock"], false)
            ]),
            "provisioner ~ driver, attacher ~ driver",
        ),
        // Both containers are clients of a server outside the Pod.
        (json!([client, with("other", &["/run/x/app.sock"], false)]), ""),
    ] {
        assert_eq!(edges(others.clone(), json!({})).0.join(", "), expected, "{others}");
    }
}

#[test]
fn order_has_the_steps_of_the_edges() {
    let own = |name: &str, port: u16, needs: &[u16]| {
        let env: Vec<Value> = needs
            .iter()
            .map(|port| json!({"name": format!("A{port}"), "value": format!("localhost:{port}")}))
            .collect();
        json!({"name": name, "ports": [{"containerPort": port}], "env": env})
    };
    for (containers, order) in [
        (
            json!([
                own("web", 80, &[81, 82]),
                own("api", 81, &[83]),
                own("cache", 82, &[83]),
                own("db", 83, &[]),
                own("log", 84, &[])
            ]),
            Some("db, api & cache, web"),
        ),
        (json!([own("a", 80, &[81]), own("b", 81, &[80])]), None),
        (json!([own("a", 80, &[]), own("b", 81, &[])]), None),
    ] {
        assert_eq!(edges(containers, json!({})).1.as_deref(), order);
    }
    let pod = json!({"spec": {"containers": [own("a", 80, &[81]), own("b", 81, &[80])]}});
    assert_eq!(suggest(&pod, &config_maps([].into_iter())).cycle.as_deref(), Some("a waits for b, b waits for a"));
}

/// Without a declared port, the image tells the port. A changed port or an idle command makes the guess wrong.
#[test]
fn well_known_images_listen_on_their_default_ports() {
    for (image, port, expected) in [
        ("postgres", 5432, "web > own"),
        ("docker.io/library/postgres:17@sha256:00", 5432, "web > own"),
        ("registry.example.com:5000/team/postgresql-16", 5432, "web > own"),
        ("gcr.io/cloud-sql-connectors/cloud-sql-proxy:2", 3306, "web > own"),
        ("docker:27-dind", 2376, "web > own"),
        ("docker:27-dind", 2375, ""),
        ("docker:27", 2376, ""),
        ("selenium/hub:4", 4444, "web > own"),
        ("example.com/hub:4", 4444, ""),
        ("php:8-fpm-alpine", 9000, "web > own"),
        ("php:8-cli", 9000, ""),
        ("postgres", 5433, ""),
        ("postgres-exporter", 5432, ""),
        ("mongo-express", 27017, ""),
        ("db", 5432, ""),
    ] {
        let own = json!({"name": "own", "image": image});
        let web = json!({"name": "web", "env": [{"name": "TO", "value": format!("localhost:{port}")}]});
        let (found, order) = edges(json!([own, web]), json!({}));
        assert_eq!(found.join(", "), expected, "{image} {port}");
        assert_eq!(order.is_some(), !expected.is_empty());
        // A container that only sleeps, or another owner of the port.
        let idle = json!({"name": "own", "image": image, "command": ["/bin/sleep", "99d"]});
        assert_eq!(edges(json!([idle, web]), json!({})).0.join(", "), "", "{image}");
        let other = json!({"name": "other", "ports": [{"containerPort": port}]});
        assert_eq!(edges(json!([own, web, other]), json!({})).0.join(", "), "web > other", "{image}");
    }
    let without_tls =
        json!({"name": "own", "image": "docker:dind", "env": [{"name": "DOCKER_TLS_CERTDIR", "value": ""}]});
    let web = json!({"name": "web", "env": [{"name": "DOCKER_HOST", "value": "tcp://localhost:2375"}]});
    assert_eq!(edges(json!([without_tls, web]), json!({})).0, ["web > own"]);
    // The image listens on one of several ports, and the client names none.
    let proxy = json!({"name": "own", "image": "cloud-sql-proxy"});
    let web = json!({"name": "web", "env": [{"name": "DB_HOST", "value": "127.0.0.1"}]});
    assert_eq!(edges(json!([proxy, web]), json!({})).0, ["web ? own"]);
    let (mysql, mongo) = (json!({"name": "mysql", "image": "mysql"}), json!({"name": "mongo", "image": "mongo"}));
    assert_eq!(edges(json!([mysql, web]), json!({})).0, ["web > mysql"]);
    assert_eq!(edges(json!([mysql, mongo, web]), json!({})).0, ["web ? mysql", "web ? mongo"]);
}

#[test]
fn well_known_images_listen_on_their_default_sockets() {
    let with = |name: &str, image: &str, path: &str| json!({"name": name, "image": image, "volumeMounts": [{"name": "run", "mountPath": path}]});
    for (containers, expected) in [
        (json!([with("cli", "docker:27", "/var/run"), with("dind", "docker:27-dind", "/var/run")]), "cli > dind"),
        (json!([with("app", "app", "/sock"), with("db", "mysql:8", "/var/run/mysqld")]), "app > db"),
        (json!([with("app", "app", "/sock"), with("db", "mysql:8", "/var/lib/mysql")]), ""),
        (json!([with("cli", "docker:27", "/var/run"), with("other", "docker:27", "/var/run")]), ""),
    ] {
        assert_eq!(edges(containers.clone(), json!({})).0.join(", "), expected, "{containers}");
    }
}

#[test]
fn clients_that_retry_come_last() {
    let server = json!({"name": "s", "ports": [{"containerPort": 80}]});
    let env = |name: &str| json!([{"name": name, "value": "localhost:80"}]);
    for (own, expected) in [
        (json!({"name": "app", "env": env("API")}), "app > s"),
        (json!({"name": "oauth-proxy", "env": env("API")}), "oauth-proxy >> s"),
        (json!({"name": "app", "args": ["--upstream", "localhost:80"]}), "app >> s"),
        (json!({"name": "redis-exporter", "env": env("API")}), "redis-exporter ~ s"),
        (json!({"name": "e", "image": "example.com/exporters/app", "env": env("API")}), "e > s"),
        (json!({"name": "e", "image": "example.com/pg_exporter:1", "env": env("API")}), "e ~ s"),
        (json!({"name": "app", "env": env("OTEL_EXPORTER_OTLP_ENDPOINT")}), "app ~ s"),
        (json!({"name": "app", "env": env("HOTEL_API")}), "app > s"),
        (json!({"name": "app", "args": ["--scrape_uri", "http://localhost/status"]}), "app ~ s"),
        (json!({"name": "app", "args": ["while true; do curl localhost:80; done"]}), "app ~ s"),
    ] {
        assert_eq!(edges(json!([own, server]), json!({})).0.join(", "), expected, "{own}");
    }
    let exporter = json!({"name": "exporter", "env": env("API")});
    let app = json!({"name": "app", "env": env("API")});
    let pod = json!({"spec": {"containers": [exporter, app, server]}});
    let found = suggest(&pod, &config_maps([].into_iter()));
    let ranks: Vec<_> = found.edges.iter().map(|edge| (edge.waiter.as_str(), edge.rank)).collect();
    assert_eq!(ranks, [("app", Rank::Fails), ("exporter", Rank::Retries)]);
    assert_eq!(
        (found.order.as_deref(), found.already_retrying().as_str()),
        (Some("s, app"), "exporter until s answers")
    );
}

/// An order without a probe would only wait until the container runs.
#[test]
fn servers_without_probes_get_a_check() {
    let web = json!({"name": "web", "env": [{"name": "TO", "value": "localhost:80"}]});
    for (server, expected) in [
        (json!({"ports": [{"containerPort": 80}]}), Some("tcp://127.0.0.1:80")),
        (json!({"ports": [{"containerPort": 80}], "readinessProbe": {}}), None),
        (json!({"ports": [{"containerPort": 80}], "startupProbe": {}}), None),
        (json!({"livenessProbe": {"tcpSocket": {"port": 80}}}), Some("tcp://127.0.0.1:80")),
        (
            json!({"ports": [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 80}]}),
            Some("tcp://127.0.0.1:80"),
        ),
    ] {
        let mut own = server.clone();
        own["name"] = json!("s");
        let pod = json!({"spec": {"containers": [web, own]}});
        let found = suggest(&pod, &config_maps([].into_iter()));
        let mut annotations = vec![("podgate.io/order".to_owned(), "s, web".to_owned())];
        annotations.extend(expected.map(|check| ("ready.podgate.io/s".to_owned(), check.to_owned())));
        assert_eq!(found.annotations().into_iter().collect::<Vec<_>>(), annotations, "{server}");
    }
    let udp = json!({"name": "s", "ports": [{"containerPort": 80, "protocol": "UDP"}]});
    assert_eq!(edges(json!([web, udp]), json!({})), (vec!["web ? s".into()], None));
}

#[test]
fn addresses_without_an_owner_are_named() {
    let web = json!({"name": "web", "env": [{"name": "TO", "value": "http://localhost:80"}]});
    let unowned = |containers: Value, host_network: bool| {
        let pod = json!({"spec": {"containers": containers, "hostNetwork": host_network}});
        let found = suggest(&pod, &config_maps([].into_iter()));
        assert_eq!((found.edges.len(), found.order), (0, None));
        found.unowned.iter().map(|finding| finding.message.clone()).collect::<Vec<_>>().join("|")
    };
    let start = "the variable TO of web names localhost:80, but no container declares port 80; ";
    for (others, may_listen) in [
        (json!([{"name": "a"}]), Some("a may listen there")),
        (json!([{"name": "a"}, {"name": "b", "ports": [{"containerPort": 81}]}]), Some("a or b may listen there")),
        (json!([{"name": "a"}, {"name": "b", "image": "redis"}]), Some("a may listen there")),
        (json!([{"name": "a", "args": ["sleep", "1"]}]), None),
        (json!([]), None),
    ] {
        let containers: Vec<Value> = [&web].into_iter().chain(others.as_array().unwrap()).cloned().collect();
        let expected = may_listen.map(|names| format!("{start}{names}")).unwrap_or_default();
        assert_eq!(unowned(json!(containers), false), expected, "{others}");
        assert_eq!(unowned(json!(containers), true), "", "the server can be outside the Pod");
    }
    for own in [
        json!({"name": "web", "env": [{"name": "SERVER_HOST", "value": "localhost"}, {"name": "SERVER_PORT", "value": "80"}]}),
        json!({"name": "web", "env": [{"name": "PUBLIC_URL", "value": "http://localhost:80"}]}),
        json!({"name": "web-exporter", "env": [{"name": "TO", "value": "http://localhost:80"}]}),
        json!({"name": "web", "env": [{"name": "TO", "value": "http://localhost"}]}),
    ] {
        assert_eq!(unowned(json!([own, {"name": "a"}]), false), "", "{own}");
    }
}

#[test]
fn containers_need_the_proxy_of_their_mesh() {
    let app = json!({"name": "app"});
    for (proxy, expected) in [
        (json!({"name": "istio-proxy", "readinessProbe": {}}), "app > istio-proxy"),
        (json!({"name": "linkerd-proxy", "startupProbe": {}}), "app > linkerd-proxy"),
        (json!({"name": "istio-proxy"}), ""),
        (json!({"name": "istio-proxy", "readinessProbe": {}, "lifecycle": {"postStart": {}}}), ""),
        (json!({"name": "proxy", "readinessProbe": {}}), ""),
    ] {
        assert_eq!(edges(json!([app, proxy]), json!({})).0.join(", "), expected, "{proxy}");
        let mut native = proxy.clone();
        native["restartPolicy"] = json!("Always");
        assert_eq!(edges(json!([app]), json!({"initContainers": [native]})).0.join(", "), "", "{proxy}");
    }
}

/// Each step waits for the whole step before, so a container that none needs must not delay another step.
#[test]
fn containers_that_none_needs_are_in_the_last_step() {
    let own = |name: &str, port: u16, need: u16| json!({"name": name, "ports": [{"containerPort": port}], "args": [format!("localhost:{need}")]});
    let containers = json!([own("a", 80, 81), own("b", 81, 82), own("side", 84, 82), {"name": "c", "ports": [{"containerPort": 82}]}]);
    assert_eq!(edges(containers, json!({})).1.as_deref(), Some("c, b, a & side"));
}

/// Before a fix, each case took minutes or led to an invalid order.
#[test]
fn hostile_manifests_take_little_time() {
    let bomb: Vec<Value> =
        (0..40).map(|at| json!({"name": format!("A{at}"), "value": format!("$(A{0})$(A{0})", at + 1)})).collect();
    let long = "localhost:80 ".repeat(100_000);
    let lines = "localhost:80\n".repeat(20_000);
    for own in [
        json!({"name": "a", "args": ["$(A0)"], "env": bomb}),
        json!({"name": "a", "args": [long]}),
        json!({"name": "a", "args": [lines]}),
        json!({"name": "a", "args": [(1..60_000).map(|port| format!("localhost:{port}\n")).collect::<String>()]}),
        json!({"name": "a", "args": ["http://localhost ".repeat(500)], "image": "/".repeat(1_000_000)}),
        json!({"name": "a", "image": "İ:İ@İ", "env": [{"name": "İ_HOST", "value": "localhost"}]}),
    ] {
        edges(json!([own, {"name": "b", "ports": [{"containerPort": 80}]}]), json!({}));
    }
    let same = json!({"name": "A b", "args": ["localhost:80"]});
    assert_eq!(edges(json!([same, same, {"name": "b", "ports": [{"containerPort": 80}]}]), json!({})), (vec![], None));
}
