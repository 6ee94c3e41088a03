//! Tests of the command line against the exit codes, the defaults and the command lines that `inject` writes.

use super::*;
use clap::parser::ValueSource;
use podgate::core::command::AgentCommand;
use podgate::core::defaults;
use proptest::collection::vec;
use proptest::prelude::*;

#[test]
fn help_lists_the_exit_codes() {
    let listed = [Exit::Released, Exit::Usage, Exit::NeverMet, Exit::TimedOut, Exit::BadSetup];
    for exit in listed {
        assert!(EXIT_CODES.contains(&format!("\n  {:<4} ", exit.code())), "{exit:?}");
    }
}

#[test]
fn help_names_each_variable() {
    for command in Args::command().get_subcommands() {
        for variable in command.get_arguments().filter_map(clap::Arg::get_env) {
            assert!(EXIT_CODES.contains(variable.to_str().unwrap()), "{variable:?}");
        }
    }
}

#[test]
fn defaults_are_those_of_core() {
    let Command::Entrypoint(gate) = Args::parse_from(["podgate", "entrypoint", "--", "sh"]).command else { panic!() };
    assert_eq!((gate.waits.timeout, gate.waits.check_timeout), (defaults::WAIT_TIMEOUT, defaults::CHECK_TIMEOUT));
    let Command::PreStop(hook) = Args::parse_from(["podgate", "pre-stop"]).command else { panic!() };
    assert_eq!((hook.grace, hook.then_timeout), (defaults::PRE_STOP_GRACE, defaults::THEN_RESERVE));
}

const NAME: &str = "[a-z]([a-z0-9-]{0,5}[a-z0-9])?";
const DURATION: &str = "[1-9][0-9]{0,3}(ms|s|m)";
const CHECK: &str = r#"tcp://[a-z]{1,4}:[1-9][0-9]{0,3}|exec:\["[a-z -]{1,5}","-[a-z=,]"\]|file:///[a-z+=]{1,9}"#;
const COMMAND: &str = r#"\["[a-z-]{1,5}","[ a-z=,-]{0,5}"\]"#;
const PATH: &str = "-|--|[a-z/=-][a-z/= -]{0,7}";
const SWITCH: &str = "";

/// Flags that `inject` writes: subcommand, flag, pattern of the values, and maximum number of occurrences.
const FLAGS: [(&str, &str, &str, usize); 32] = [
    ("entrypoint", "--container", NAME, 1),
    ("entrypoint", "--until", "[a-z]{1,5}(=Started|=Exited)?", 3),
    ("entrypoint", "--check", CHECK, 3),
    ("entrypoint", "--timeout", DURATION, 1),
    ("entrypoint", "--on-timeout", "fail|continue", 1),
    ("entrypoint", "--fail-fast", SWITCH, 1),
    ("entrypoint", "--tether", "exec|parent|none", 1),
    ("entrypoint", "--ready-check", CHECK, 2),
    ("entrypoint", "--check-timeout", DURATION, 1),
    ("entrypoint", "--restart-with", NAME, 3),
    ("entrypoint", "--stop-after", NAME, 3),
    ("entrypoint", "--stop-signal", "SIG(TERM|INT|QUIT)", 1),
    ("entrypoint", "--termination-log", PATH, 1),
    ("post-start", "--fallback-check", CHECK, 1),
    ("post-start", "--tether", SWITCH, 1),
    ("post-start", "--then", COMMAND, 1),
    ("pre-stop", "--until", NAME, 3),
    ("pre-stop", "--tether", SWITCH, 1),
    ("pre-stop", "--grace", DURATION, 1),
    ("pre-stop", "--log-to", "/dev/stderr|/proc/(1|self)/fd/[12]", 1),
    ("pre-stop", "--then-timeout", DURATION, 1),
    ("pre-stop", "--then", COMMAND, 1),
    ("opened", "--check", CHECK, 2),
    ("opened", "--check-timeout", DURATION, 1),
    ("entrypoint", "--initial-delay", DURATION, 1),
    ("entrypoint", "--passing-for", DURATION, 1),
    ("post-start", "--initial-delay", DURATION, 1),
    ("post-start", "--passing-for", DURATION, 1),
    ("opened", "--container", NAME, 1),
    ("opened", "--check-delay", DURATION, 1),
    ("opened", "--check-period", DURATION, 1),
    ("opened", "--failure-threshold", "[1-9][0-9]{0,2}", 1),
];

fn command_line() -> impl Strategy<Value = (&'static str, AgentCommand)> {
    prop::sample::select(&["entrypoint", "post-start", "pre-stop", "opened"][..]).prop_flat_map(|subcommand| {
        let flags = FLAGS.iter().filter(move |(of, ..)| *of == subcommand);
        let values: Vec<_> = flags.clone().map(|(_, _, pattern, most)| vec(*pattern, 0..=*most)).collect();
        values.prop_map(move |values| {
            let mut line = AgentCommand::new(subcommand);
            for ((_, flag, pattern, _), values) in flags.clone().zip(values) {
                values.into_iter().for_each(|value| match *pattern {
                    SWITCH => line.add_switch(flag),
                    _ => line.add_flag(flag, value),
                });
            }
            (subcommand, line)
        })
    })
}

proptest! {
    #[test]
    fn both_parsers_read_what_inject_writes((subcommand, mut line) in command_line()) {
        if subcommand == "post-start" {
            line.add_flag("--container", "db");
        }
        let own = line.to_argv();
        let after: &[&str] = if subcommand == "entrypoint" { &["--", "sh", "--until", "db"] } else { &[] };
        let words: Vec<String> = own.iter().cloned().chain(after.iter().map(|word| (*word).to_owned())).collect();
        prop_assert_eq!(AgentCommand::parse(&words), Some(line.clone()), "{:?}", words);
        let read = Args::command().try_get_matches_from(&words).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let (_, read) = read.subcommand().unwrap();
        for (_, flag, pattern, _) in FLAGS.iter().filter(|(of, ..)| *of == subcommand) {
            let id = flag.trim_start_matches('-').replace('-', "_");
            let is_given = read.value_source(&id) == Some(ValueSource::CommandLine);
            prop_assert_eq!(is_given, own.iter().any(|word| word.split('=').next() == Some(*flag)), "{}: {:?}", flag, words);
            if is_given && *pattern != SWITCH {
                let values: Vec<_> = read.get_raw(&id).unwrap().map(|value| value.to_str().unwrap()).collect();
                prop_assert_eq!(values, line.values(flag), "{}: {:?}", flag, words);
            }
        }
    }
}
