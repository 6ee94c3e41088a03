//! Ports and sockets on which well-known images listen by default. A manifest can change them, so a match is a guess.

use crate::order::declare::spec::{ContainerRef, items_of};

/// Names of images and URL schemes, and the default ports of the program.
const SERVICES: &str = "
    activemq,activemq-artemis=61616 alertmanager=9093 alloydb-auth-proxy=5432 amqp,rabbitmq=5672
    azurite=10000,10001,10002 cassandra,scylla=9042 clickhouse,clickhouse-server=8123,9000
    cloud-sql-proxy=5432,3306,1433 cockroach=26257 consul=8500 couchdb=5984 daprd=3500,50001 dynamodb-local=8000
    elasticsearch,opensearch=9200 etcd=2379 grafana=3000 http,ws,httpd,nginx,caddy=80 https,wss=443 influxdb=8086
    kafka,cp-kafka=9092 localstack=4566 loki=3100 memcached=11211 minio=9000 mongo,mongodb=27017
    mssql,mssql-server,mssql/server,sqlserver=1433 mysql,mysql-server,mariadb,percona=3306 nats,nats-server=4222
    neo4j=7687,7474 nginx-unprivileged=8080 opa=8181
    opentelemetry-collector,opentelemetry-collector-contrib=4317,4318 pgbouncer=6432,5432
    postgres,postgresql,pg,postgis,timescaledb=5432 prometheus=9090 redis,valkey,keydb,redis-stack-server=6379
    selenium/hub,standalone-chrome,standalone-firefox=4444 vault=8200 zipkin=9411 zookeeper,cp-zookeeper=2181";
/// First words of a command that only keeps the container running.
const IDLE: [&str; 3] = ["cat", "sleep", "tail"];

/// Returns the default ports of the program with this name, or with this URL scheme.
pub(super) fn ports_of(name: &str) -> Vec<u16> {
    let is_named = |one: &str| {
        let version = name.strip_prefix(one).map(|rest| rest.trim_start_matches('-'));
        version.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut services = SERVICES.split_whitespace().filter_map(|service| service.split_once('='));
    let found = services.find(|(names, _)| names.split(',').any(is_named));
    found.map_or(Vec::new(), |(_, ports)| ports.split(',').filter_map(|port| port.parse().ok()).collect())
}

/// Returns the ports that a setting with a host and no port probably means, from one word of its name.
pub(super) fn ports_of_word(word: &str) -> Vec<u16> {
    match word {
        "db" | "database" | "sql" => vec![5432, 3306, 1433, 27017],
        // `HTTP_HOST` is usually the host on which the container itself listens.
        "http" | "https" => Vec::new(),
        _ => ports_of(word),
    }
}

/// Returns the last two parts of an image's name without the tag, and the tag.
pub(crate) fn image(own: &ContainerRef<'_>) -> (String, String) {
    // A longer text is no valid image, and would take too much time.
    let image = own.value["image"].as_str().filter(|image| image.len() < 1000).unwrap_or_default();
    let image = image.split('@').next().unwrap_or_default();
    let (path, tag) = image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).unwrap_or((image, ""));
    let parts: Vec<&str> = path.rsplitn(3, '/').take(2).collect();
    (parts.into_iter().rev().collect::<Vec<_>>().join("/"), tag.to_owned())
}

/// Returns true if the container runs the Docker daemon (Docker in Docker).
pub(crate) fn is_docker_daemon(path: &str, tag: &str) -> bool {
    path.ends_with("dind") || path.ends_with("docker") && tag.contains("dind")
}

/// Returns true if the container's command only keeps it running.
pub(super) fn is_idle(own: &ContainerRef<'_>) -> bool {
    let first = ["command", "args"].iter().find_map(|field| own.value[field][0].as_str());
    first.is_some_and(|word| IDLE.iter().any(|idle| word.rsplit('/').next() == Some(idle)))
}

/// Returns the ports on which the container's program listens by default, the usual one first.
pub(super) fn default_ports(own: &ContainerRef<'_>) -> Vec<u16> {
    let (path, tag) = image(own);
    let name = path.rsplit('/').next().unwrap_or_default();
    match () {
        () if is_idle(own) => Vec::new(),
        () if is_docker_daemon(&path, &tag) => {
            let mut variables = items_of(own.value, "env");
            // With an empty value, the daemon uses no TLS, and the other port.
            let has_tls = !variables.any(|one| one["name"] == "DOCKER_TLS_CERTDIR" && one["value"] == "");
            vec![if has_tls { 2376 } else { 2375 }]
        }
        () if name == "php" && tag.contains("fpm") => vec![9000],
        () => Some(ports_of(&path)).filter(|ports| !ports.is_empty()).unwrap_or_else(|| ports_of(name)),
    }
}

/// Returns the Unix socket on which the container's program listens by default.
pub(super) fn default_socket(own: &ContainerRef<'_>) -> Option<&'static str> {
    let (path, tag) = image(own);
    match path.rsplit('/').next()? {
        _ if is_idle(own) => None,
        _ if is_docker_daemon(&path, &tag) => Some("/var/run/docker.sock"),
        "mysql" | "mariadb" => Some("/var/run/mysqld/mysqld.sock"),
        "postgres" => Some("/var/run/postgresql/.s.PGSQL.5432"),
        _ => None,
    }
}
