//! `podgate opened`: a startupProbe that passes when this container's gate has opened.

use crate::args::Opened;
use crate::check;
use crate::failed::Failed;
use crate::gate::report;
use podgate::core::exit::Exit;
use podgate::core::report::Gate;
use podgate::core::until::Until;
use podgate::edge::process;
use std::io;

pub(crate) fn run(args: &Opened) -> Result<(), Failed> {
    let own = args.own.display();
    let report = report::read(&args.own).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Failed::new(
            Exit::SetUp,
            format!("no gate has reported in {own}; mount this container's own folder there, or say where with --self"),
        ),
        _ => Failed::new(Exit::Never, format!("the report in {own} can't be read: {error}")),
    })?;
    let Some(gate) = report.gate else {
        return Err(Failed::new(
            Exit::SetUp,
            format!("no gate has reported in {own}; is podgate entrypoint this container's command?"),
        ));
    };
    let not_so = |why: String| Err(Failed::new(Exit::Never, why));
    match report.process {
        None => return not_so("can't tell whether the gate's process lives: the report names none".to_owned()),
        // What an earlier incarnation of the container has left.
        Some(process) if !process::lives(process) => return not_so("the gate's process is gone".to_owned()),
        Some(_) => {}
    }
    match gate {
        Gate::Waiting if args.or_waiting => return Ok(()),
        Gate::Waiting if report.waiting_for.is_empty() => return not_so("the gate still waits".to_owned()),
        Gate::Waiting => {
            let list: Vec<String> = report.waiting_for.iter().map(Until::to_string).collect();
            return not_so(format!("the gate waits for {}", list.join(", ")));
        }
        Gate::Opened => {}
    }
    match args.check.iter().find_map(|check| Some((check, check::once(check, args.check_timeout).err()?))) {
        Some((check, why)) => not_so(format!("{check} {why}")),
        None => Ok(()),
    }
}
