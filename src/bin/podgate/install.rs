//! `podgate install DIR`.

use crate::args;
use crate::gate::explain;
use podgate::core::exit::Exit;
use podgate::core::names;
use podgate::edge::install::install;
use std::path::Path;

pub(crate) fn run(args: &args::Install) -> Exit {
    match install(Path::new("/proc/self/exe"), &args.dir, names::AGENT_FILE) {
        Ok(_) => Exit::Released,
        Err(error) => {
            let dir = args.dir.display();
            let line = format!("podgate install: {dir}: {error}; give a folder that this user can write");
            explain::say(&explain::one_line(&line));
            Exit::SetUp
        }
    }
}
