//! Tests of `podgate::core::argv`.

use podgate::core::argv::*;

#[test]
fn checks_survive_a_round_trip() {
    for text in [
        "tcp://127.0.0.1:5432",
        "tcp://[::1]:5432",
        "http://localhost:8080/ready?x=1",
        "tcp://:5432",
        r#"http://:8080/ready ["Host: shop.example","X-A: a, b"]"#,
        r#"exec:["pg_isready","-q"]"#,
        "file:///run/ready",
        "file:///run/ready+content",
        "unix:///run/docker.sock",
        "mount:///data",
    ] {
        assert_eq!(text.parse::<Check>().unwrap().to_string(), text);
    }
    assert_eq!("http://h".parse::<Check>().unwrap().to_string(), "http://h:80/");
    assert_eq!("http://h?q".parse::<Check>().unwrap().to_string(), "http://h:80/?q");
}

#[test]
fn invalid_checks_are_rejected() {
    assert!(format!("unix:///{}", "x".repeat(106)).parse::<Check>().is_ok());
    assert!(format!("unix:///{}", "x".repeat(107)).parse::<Check>().is_err());
    let bad = "|tcp://|tcp://h|tcp://h:0|tcp://h:99999|tcp://:|http:///x|http://:8080/ x|http://:8080/ [\"x\"]|http://h/ [\"A: \\u0001\"]|tcp://[::1:5|http://|http://h:x/|http://h/a b|https://h/|\
        exec:|exec:[]|exec:[\"\"]|exec:[1]|exec:pg_isready|file://x|file://|unix://x|unix:/x|mount://|mount:///a\0|ftp://h:1|tcp://h\r\nx:1|http://h/\r\nX: y";
    for bad in bad.split('|') {
        assert!(bad.parse::<Check>().is_err(), "{bad}");
    }
}
