//! Fuzzes the parsers of user input: conditions, checks, commands, container lists, sandbox ids. Accepted text must
//! round-trip through its value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podgate::core::argv::{Argv, Check};
use podgate::core::container_list::parse_list;
use podgate::core::sandbox::{SandboxId, hostname_mount_root};
use podgate::core::until::WaitCondition;
use std::fmt::{Debug, Display};
use std::str::FromStr;

fn round_trip<T: FromStr + Display + Debug + PartialEq>(text: &str)
where
    T::Err: Debug,
{
    if let Ok(value) = text.parse::<T>() {
        assert_eq!(value.to_string().parse::<T>().expect("formatted text parses"), value);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let _ = hostname_mount_root(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    round_trip::<WaitCondition>(text);
    round_trip::<Check>(text);
    round_trip::<Argv>(text);
    round_trip::<SandboxId>(text);
    let _ = parse_list(text).map_err(|error| error.to_string());
});
