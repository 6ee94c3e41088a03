//! `podgate opened`: a startupProbe that passes once this container's gate has opened.

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
    let missing = |fix| Failure::new(Exit::BadSetup, format!("no gate has reported in {own}; {fix}"));
    let report = report::read_report(&args.self_dir).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            missing("mount this container's own directory there, or set --self")
        }
        _ => Failure::new(Exit::NeverMet, format!("the report in {own} can't be read: {error}")),
    })?;
    let Some(gate) = report.gate else {
        return Err(missing("run podgate entrypoint as this container's command"));
    };
    let fail = |why: String| Err(Failure::new(Exit::NeverMet, why));
    match report.process {
        None => {
            return fail(format!(
                "the report in {own} has no process id; use the same podgate version for gate and probe"
            ));
        }
        // The report is from an earlier incarnation of the container.
        Some(process) if !process::is_alive(process) => {
            return fail(format!("the gate's process, pid {}, has exited", process.pid));
        }
        Some(_) => {}
    }
    match gate {
        GateState::Waiting if args.or_waiting => return Ok(()),
        GateState::Waiting if report.waiting_for.is_empty() => return fail("the gate is still waiting".to_owned()),
        GateState::Waiting => {
            let list: Vec<String> = report.waiting_for.iter().map(WaitCondition::to_string).collect();
            return fail(format!("the gate is waiting for {}", list.join(", ")));
        }
        GateState::Opened => {}
    }
    match args.check.iter().find_map(|check| Some((check, check::run_once(check, args.check_timeout).err()?))) {
        Some((check, why)) => fail(format!("{check} {why}")),
        None => Ok(()),
    }
}
