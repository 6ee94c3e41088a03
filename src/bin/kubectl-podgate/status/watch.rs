//! `status -w`: follows a Pod.

use super::StatusArgs;
use super::screen::{ChangeLines, LiveScreen};
use super::text;
use crate::cluster::Cluster;
use crate::common_args::OutputFormat;
use crate::error::{CommandError, CommandResult, ErrorKind};
use crate::output::{print_stderr, write_stdout};
use crate::pod::shape::View;
use crate::pod::{Pod, view};
use crate::{clock, terminal};
use anstyle::AnsiColor;
use podgate::core::text::sanitize;
use podgate::order::finding::Level;
use std::process::ExitCode;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Time between two reads of the Pod. The table shows ages in seconds.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Output of `status -w`.
enum StatusPrinter {
    Live(LiveScreen),
    Lines(ChangeLines),
    /// One JSON object per line. Contains the last printed object, with all ages set to zero.
    Json(String),
}

pub(crate) async fn watch(args: &StatusArgs, name: &str, cluster: Cluster, first: Pod) -> CommandResult {
    let mut printer = match args.output {
        OutputFormat::Json => StatusPrinter::Json(String::new()),
        OutputFormat::Text if terminal::columns_and_rows().is_some() => StatusPrinter::Live(LiveScreen::default()),
        OutputFormat::Text => StatusPrinter::Lines(ChangeLines::default()),
    };
    let is_live = matches!(printer, StatusPrinter::Live(_));
    let begin = clock::now();
    let mut pod = first;
    let mut outage: Option<(String, Instant)> = None;
    loop {
        let view = view::view(&pod, &cluster.namespace, clock::wall_clock());
        let has_reader = printer.print(&view, &pod, outage.as_ref())?;
        // In these phases, all containers have exited, and no container will start again.
        let has_ended = matches!(view.pod_phase.as_deref(), Some("Succeeded" | "Failed"));
        if !has_reader || args.until_started && (view.started || view.deleting || has_ended) {
            return Ok(exit_code(view.started));
        }
        let next = async {
            tokio::time::sleep(READ_INTERVAL).await;
            cluster.await_response(cluster.pods().get_opt(name)).await
        };
        let left = args.timeout.map_or(Duration::MAX, |limit| limit.saturating_sub(begin.elapsed()));
        let Ok(answer) = tokio::time::timeout(left, next).await else {
            let timeout = humantime::format_duration(args.timeout.unwrap_or_default());
            let line = format!("the Pod {name:?} has not started within {timeout}");
            return Err(CommandError::new(ErrorKind::NotStarted, line));
        };
        match answer {
            // A Pod of a StatefulSet has the same name as its predecessor, but another uid.
            Ok(Some(new)) if new.metadata.uid == pod.metadata.uid => {
                if outage.take().is_some() && !is_live {
                    print_stderr(Level::Note, "the API server is reachable again");
                }
                pod = new;
            }
            Ok(_) => return Err(CommandError::new(ErrorKind::NotStarted, format!("the Pod {name:?} is gone"))),
            Err(error) => {
                let error = cluster.pod_error(error, name).to_string();
                if outage.is_none() && !is_live {
                    print_stderr(Level::Warning, &format!("{error}; retrying"));
                }
                outage = Some((error, outage.map_or_else(clock::now, |(_, since)| since)));
            }
        }
    }
}

/// Returns the exit code. `started` is true if all containers have started.
pub(super) fn exit_code(started: bool) -> ExitCode {
    if started { ExitCode::SUCCESS } else { ErrorKind::NotStarted.exit_code() }
}

impl StatusPrinter {
    /// Prints the status. Returns false if the reader of standard output has closed the pipe.
    fn print(&mut self, view: &View, pod: &Pod, outage: Option<&(String, Instant)>) -> CommandResult<bool> {
        match self {
            StatusPrinter::Live(live) => {
                let mut text = text::render(view);
                if let Some((error, since)) = outage {
                    let (style, error) = (AnsiColor::Red.on_default(), sanitize(error));
                    let seconds = since.elapsed().as_secs();
                    text += &format!("\n{style}Outdated: {error}; retrying for {seconds} s.{style:#}\n");
                }
                write_stdout(&live.draw(&text, terminal::columns_and_rows().unwrap_or((80, 24))))
            }
            StatusPrinter::Lines(lines) => {
                let now = humantime::format_rfc3339_seconds(clock::wall_clock()).to_string();
                write_stdout(&lines.changed_lines(view, &now))
            }
            StatusPrinter::Json(last) => {
                let json = |view: &View| serde_json::json!(view).to_string();
                // A fixed time sets all ages to zero. With the real time, every new age would count as a change.
                let timeless = json(&view::view(pod, &view.namespace, UNIX_EPOCH));
                if *last == timeless {
                    return Ok(true);
                }
                *last = timeless;
                write_stdout(&format!("{}\n", json(view)))
            }
        }
    }
}
