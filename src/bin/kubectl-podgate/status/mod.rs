//! `kubectl podgate status`: one look at one pod.

mod gate;
mod notes;
mod text;
mod view;
#[cfg(test)]
mod view_tests;

use crate::args::{Output, Status};
use crate::{api, clock, fail};
use std::io::Write;
use std::process::ExitCode;

/// Exit code when not all containers have started.
const NOT_STARTED: u8 = 3;

pub(crate) fn run(args: &Status) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("can't start: {error}")),
    };
    let (pod, namespace) = match runtime.block_on(api::get(args)) {
        Ok(found) => found,
        Err(what) => return fail(&what),
    };
    let view = view::view(&pod, &namespace, clock::wall());
    let printed = match args.output {
        // Colours for a terminal alone, and not where NO_COLOR asks for none.
        Output::Text => anstream::AutoStream::auto(std::io::stdout()).write_all(text::text(&view).as_bytes()),
        Output::Json => serde_json::to_string_pretty(&view)
            .map_err(std::io::Error::other)
            .and_then(|json| writeln!(std::io::stdout(), "{json}")),
    };
    match printed {
        Ok(()) if view.started => ExitCode::SUCCESS,
        Ok(()) => NOT_STARTED.into(),
        Err(error) => fail(&format!("can't write: {error}")),
    }
}
