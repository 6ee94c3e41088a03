//! What users write: conditions, checks, commands, container lists, sandbox ids. What is accepted says the same when written out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podgate::core::argv::{Argv, Check};
use podgate::core::containers::parse_list;
use podgate::core::sandbox::{SandboxId, hostname_mount_root};
use podgate::core::until::Until;
use std::fmt::{Debug, Display};
use std::str::FromStr;

fn reads_back<T: FromStr + Display + Debug + PartialEq>(text: &str)
where
    T::Err: Debug + Display,
{
    match text.parse::<T>() {
        Ok(value) => assert_eq!(value.to_string().parse::<T>().expect("its own text is taken"), value),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let _ = hostname_mount_root(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    reads_back::<Until>(text);
    reads_back::<Check>(text);
    reads_back::<Argv>(text);
    reads_back::<SandboxId>(text);
    let _ = parse_list(text).map_err(|error| error.to_string());
});
