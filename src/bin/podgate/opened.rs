//! `podgate opened`: a startupProbe that passes when this container's gate has opened.

use crate::args::Opened;
use podgate::core::exit::Exit;

pub(crate) fn run(args: &Opened) -> Exit {
    let _ = args;
    todo!()
}
