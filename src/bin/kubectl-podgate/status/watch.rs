//! `status -w`: the pod, followed.

use super::args::Status;
use super::screen::{ChangeLines, LiveScreen};
use super::text;
use crate::cluster::Cluster;
use crate::cluster::follow::{PodEvent, follow};
use crate::common_args::OutputFormat;
use crate::output::{print_stderr, write_stdout};
use crate::pod::shape::View;
use crate::pod::{Pod, view};
use crate::{clock, terminal};
use anstyle::AnsiColor;
use podgate::core::text::sanitize;
use std::process::ExitCode;
use std::time::{Duration, Instant, UNIX_EPOCH};
use tokio::sync::mpsc;

/// Exit code when not all containers have started.
const NOT_STARTED: u8 = 3;

/// How often what is drawn in place is drawn anew: its ages are in seconds.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Where it is shown.
enum StatusPrinter {
    Live(LiveScreen),
    Lines(ChangeLines),
    /// One object a line; the last one, but for what changes with time alone.
    Json(String),
}

pub(crate) async fn watch(args: &Status, cluster: Cluster, first: Pod) -> Result<ExitCode, String> {
    let mut shown = match args.output {
        OutputFormat::Json => StatusPrinter::Json(String::new()),
        OutputFormat::Text if terminal::size().is_some() => StatusPrinter::Live(LiveScreen::default()),
        OutputFormat::Text => StatusPrinter::Lines(ChangeLines::default()),
    };
    let is_live = matches!(shown, StatusPrinter::Live(_));
    let namespace = cluster.namespace.clone();
    let deadline = args.timeout.map(|timeout| clock::monotonic_time() + timeout);
    let (tell, mut heard) = mpsc::channel(16);
    let version = first.metadata.resource_version.clone();
    tokio::spawn(follow(cluster, args.pod.clone(), version, tell));
    let mut pod = first;
    let mut trouble: Option<(String, Instant)> = None;
    loop {
        let view = view::view(&pod, &namespace, clock::wall_time());
        let is_read = shown.print(&view, &pod, trouble.as_ref())?;
        // All its containers have ended, so none will start any more.
        let has_ended = matches!(view.pod_phase.as_deref(), Some("Succeeded" | "Failed"));
        if !is_read || args.until_started && (view.started || view.deleting || has_ended) {
            return Ok(exit_code(&view));
        }
        let tick = is_live.then(|| clock::monotonic_time() + REDRAW_INTERVAL);
        tokio::select! {
            news = heard.recv() => match news {
                Some(PodEvent::Pod(new)) => {
                    if trouble.take().is_some() && !is_live {
                        print_stderr("the API server answers again");
                    }
                    pod = *new;
                }
                Some(PodEvent::RequestFailed(what)) => {
                    if trouble.is_none() && !is_live {
                        print_stderr(&format!("{what}; asks again"));
                    }
                    let since = trouble.map_or_else(clock::monotonic_time, |(_, since)| since);
                    trouble = Some((what, since));
                }
                Some(PodEvent::Gone) | None => {
                    print_stderr(&format!("the Pod {:?} is gone", args.pod));
                    return Ok(NOT_STARTED.into());
                }
            },
            () = sleep_until(tick) => {}
            () = sleep_until(deadline) => {
                print_stderr(&format!("not started within {}", humantime::format_duration(args.timeout.unwrap_or_default())));
                return Ok(NOT_STARTED.into());
            }
        }
    }
}

/// The exit code for a Pod as it is now.
pub(super) fn exit_code(view: &View) -> ExitCode {
    if view.started { ExitCode::SUCCESS } else { NOT_STARTED.into() }
}

impl StatusPrinter {
    /// Gives whether anybody still reads it.
    fn print(&mut self, view: &View, pod: &Pod, trouble: Option<&(String, Instant)>) -> Result<bool, String> {
        match self {
            StatusPrinter::Live(live) => {
                let mut text = text::render(view);
                if let Some((what, since)) = trouble {
                    let (style, what) = (AnsiColor::Red.on_default(), sanitize(what));
                    let seconds = since.elapsed().as_secs();
                    text += &format!("\n{style}From before: {what}; asks again, for {seconds} s now.{style:#}\n");
                }
                write_stdout(&live.draw(&text, terminal::size().unwrap_or((80, 24))))
            }
            StatusPrinter::Lines(lines) => {
                let now = humantime::format_rfc3339_seconds(clock::wall_time()).to_string();
                write_stdout(&lines.changed_lines(view, &now))
            }
            StatusPrinter::Json(last) => {
                let json = |view: &View| serde_json::to_string(view).map_err(|error| format!("can't write: {error}"));
                // At a time of its own, so that what is compared does not age.
                let timeless = json(&view::view(pod, &view.namespace, UNIX_EPOCH))?;
                if *last == timeless {
                    return Ok(true);
                }
                *last = timeless;
                write_stdout(&format!("{}\n", json(view)?))
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
