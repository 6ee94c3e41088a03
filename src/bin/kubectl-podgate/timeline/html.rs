//! A page that holds the picture, the times and what is not known; it loads nothing.

use super::shape::{Timeline, rfc3339};
use super::svg::{escape, svg};
use super::text::{HEADS, at, cells};
use std::fmt::Write as _;

/// In a narrow window picture and table scroll by themselves: shrunk to fit, nobody could read them.
const STYLE: &str = "\
:root{color-scheme:light dark}
body{font:15px/1.5 ui-sans-serif,system-ui,sans-serif;max-width:960px;margin:2rem auto;padding:0 1rem;background:#fff;color:#1f2328}
h1,li{overflow-wrap:anywhere}
.wide{overflow-x:auto}
svg{width:100%;min-width:720px;max-width:960px;height:auto}
table{border-collapse:collapse;margin:1.5rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .9rem;border-bottom:1px solid #d1d9e0;text-align:right;white-space:nowrap}
th:first-child,td:first-child{min-width:7rem;text-align:left;white-space:normal;overflow-wrap:anywhere}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}th,td{border-color:#3d444d}}";

pub(crate) fn html(timeline: &Timeline) -> String {
    let title = escape(&format!("Start of the Pod {}/{}", timeline.namespace, timeline.pod));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<div class=\"wide\">\n{}</div>\n",
        svg(timeline)
    );
    out.push_str("<div class=\"wide\">\n<table>\n<thead><tr>");
    for head in HEADS {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(&head.to_lowercase()));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &timeline.containers {
        let line: String = cells(row, timeline.from).iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        let _ = writeln!(out, "<tr>{line}</tr>");
    }
    out.push_str("</tbody>\n</table>\n</div>\n<ul>\n");
    let created = rfc3339(timeline.from);
    let marks = timeline.marks.iter().map(|mark| match mark.what {
        "created" => format!("created {created}"),
        what => format!("{what} {}", at(Some(mark.moment), timeline.from)),
    });
    let pod = format!("Pod: {}.", marks.collect::<Vec<_>>().join(", "));
    for note in std::iter::once(&pod).chain(&timeline.notes) {
        let _ = writeln!(out, "<li>{}</li>", escape(note));
    }
    out.push_str("</ul>\n</body>\n</html>\n");
    out
}
