//! `podgate opened`: a startupProbe that passes when this container's gate has opened.

use crate::args::Opened;
use crate::check;
use crate::failure::Failure;
use crate::gate::report;
use podgate::core::exit::Exit;
use podgate::core::report::GateState;
use podgate::core::until::WaitCondition;
use podgate::edge::process;
use std::io;

pub(crate) fn run(args: &Opened) -> Result<(), Failure> {
    let own = args.self_dir.display();
    let report = report::read_report(&args.self_dir).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Failure::new(
            Exit::BadSetup,
            format!("no gate has reported in {own}; mount this container's own folder there, or say where with --self"),
        ),
        _ => Failure::new(Exit::NeverMet, format!("the report in {own} can't be read: {error}")),
    })?;
    let Some(gate) = report.gate else {
        return Err(Failure::new(
            Exit::BadSetup,
            format!("no gate has reported in {own}; is podgate entrypoint this container's command?"),
        ));
    };
    let not_so = |why: String| Err(Failure::new(Exit::NeverMet, why));
    match report.process {
        None => return not_so("can't tell whether the gate's process lives: the report names none".to_owned()),
        // What an earlier incarnation of the container has left.
        Some(process) if !process::is_alive(process) => return not_so("the gate's process is gone".to_owned()),
        Some(_) => {}
    }
    match gate {
        GateState::Waiting if args.or_waiting => return Ok(()),
        GateState::Waiting if report.waiting_for.is_empty() => return not_so("the gate still waits".to_owned()),
        GateState::Waiting => {
            let list: Vec<String> = report.waiting_for.iter().map(WaitCondition::to_string).collect();
            return not_so(format!("the gate waits for {}", list.join(", ")));
        }
        GateState::Opened => {}
    }
    match args.check.iter().find_map(|check| Some((check, check::run_once(check, args.check_timeout).err()?))) {
        Some((check, why)) => not_so(format!("{check} {why}")),
        None => Ok(()),
    }
}
