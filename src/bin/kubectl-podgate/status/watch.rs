//! `status -w`: the pod, followed.

use super::args::Status;
use super::screen::{Lines, Live};
use super::text;
use crate::cluster::Cluster;
use crate::cluster::follow::{Heard, follow};
use crate::output::{say, write_out};
use crate::pod::shape::View;
use crate::pod::{Pod, view};
use crate::values::Output;
use crate::{clock, terminal};
use anstyle::AnsiColor;
use podgate::core::text::harmless;
use std::process::ExitCode;
use std::time::{Duration, Instant, UNIX_EPOCH};
use tokio::sync::mpsc;

/// Exit code when not all containers have started.
const NOT_STARTED: u8 = 3;

/// How often what is drawn in place is drawn anew: its ages are in seconds.
const TICK: Duration = Duration::from_secs(1);

/// Where it is shown.
enum Shown {
    Live(Live),
    Lines(Lines),
    /// One object a line; the last one, but for what changes with time alone.
    Json(String),
}

pub(crate) async fn watch(args: &Status, cluster: Cluster, first: Pod) -> Result<ExitCode, String> {
    let mut shown = match args.output {
        Output::Json => Shown::Json(String::new()),
        Output::Text if terminal::size().is_some() => Shown::Live(Live::default()),
        Output::Text => Shown::Lines(Lines::default()),
    };
    let is_live = matches!(shown, Shown::Live(_));
    let namespace = cluster.namespace.clone();
    let deadline = args.timeout.map(|timeout| clock::now() + timeout);
    let (tell, mut heard) = mpsc::channel(16);
    let version = first.metadata.resource_version.clone();
    tokio::spawn(follow(cluster, args.pod.clone(), version, tell));
    let mut pod = first;
    let mut trouble: Option<(String, Instant)> = None;
    loop {
        let view = view::view(&pod, &namespace, clock::wall());
        let is_read = shown.show(&view, &pod, trouble.as_ref())?;
        // All its containers have ended, so none will start any more.
        let has_ended = matches!(view.pod_phase.as_deref(), Some("Succeeded" | "Failed"));
        if !is_read || args.until_started && (view.started || view.deleting || has_ended) {
            return Ok(exit(&view));
        }
        let tick = is_live.then(|| clock::now() + TICK);
        tokio::select! {
            news = heard.recv() => match news {
                Some(Heard::Pod(new)) => {
                    if trouble.take().is_some() && !is_live {
                        say("the API server answers again");
                    }
                    pod = *new;
                }
                Some(Heard::Trouble(what)) => {
                    if trouble.is_none() && !is_live {
                        say(&format!("{what}; asks again"));
                    }
                    let since = trouble.map_or_else(clock::now, |(_, since)| since);
                    trouble = Some((what, since));
                }
                Some(Heard::Gone) | None => {
                    say(&format!("the Pod {:?} is gone", args.pod));
                    return Ok(NOT_STARTED.into());
                }
            },
            () = sleep_until(tick) => {}
            () = sleep_until(deadline) => {
                say(&format!("not started within {}", humantime::format_duration(args.timeout.unwrap_or_default())));
                return Ok(NOT_STARTED.into());
            }
        }
    }
}

/// The exit code for a Pod as it is now.
pub(super) fn exit(view: &View) -> ExitCode {
    if view.started { ExitCode::SUCCESS } else { NOT_STARTED.into() }
}

impl Shown {
    /// Gives whether anybody still reads it.
    fn show(&mut self, view: &View, pod: &Pod, trouble: Option<&(String, Instant)>) -> Result<bool, String> {
        match self {
            Shown::Live(live) => {
                let mut text = text::text(view);
                if let Some((what, since)) = trouble {
                    let (style, what) = (AnsiColor::Red.on_default(), harmless(what));
                    let seconds = since.elapsed().as_secs();
                    text += &format!("\n{style}From before: {what}; asks again, for {seconds} s now.{style:#}\n");
                }
                write_out(&live.draw(&text, terminal::size().unwrap_or((80, 24))))
            }
            Shown::Lines(lines) => {
                let now = humantime::format_rfc3339_seconds(clock::wall()).to_string();
                write_out(&lines.news(view, &now))
            }
            Shown::Json(last) => {
                let json = |view: &View| serde_json::to_string(view).map_err(|error| format!("can't write: {error}"));
                // At a time of its own, so that what is compared does not age.
                let timeless = json(&view::view(pod, &view.namespace, UNIX_EPOCH))?;
                if *last == timeless {
                    return Ok(true);
                }
                *last = timeless;
                write_out(&format!("{}\n", json(view)?))
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
