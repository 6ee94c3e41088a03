//! What the controller begins with: which pod is its own, where the agent lies, what is declared.

use crate::api::PodIdentity;
use crate::args::{PublishTarget, RunArgs};
use podgate::core::container::{Container, Mode};
use podgate::core::names;
use std::path::{Path, PathBuf};

/// Which pod is ours; `None` if no API is to be used.
pub(crate) fn pod_identity(args: &RunArgs) -> Result<Option<PodIdentity>, String> {
    if args.publish == PublishTarget::Board {
        return match args.containers {
            Some(_) => Ok(None),
            None => Err("--publish board needs --containers: nothing else says which containers there are".to_owned()),
        };
    }
    match (&args.pod_name, &args.pod_namespace) {
        (Some(name), Some(namespace)) => Ok(Some(PodIdentity {
            name: name.clone(),
            namespace: namespace.clone(),
            uid: args.pod_uid.clone(),
            container: args.name.clone(),
        })),
        _ => {
            Err("POD_NAME and POD_NAMESPACE are not set; fill them in by fieldRef, or give --publish board".to_owned())
        }
    }
}

/// The agent that came with this program.
pub(crate) fn default_agent_path() -> std::io::Result<PathBuf> {
    let own = std::fs::read_link("/proc/self/exe")?;
    Ok(own.parent().unwrap_or(Path::new("/")).join(names::AGENT_FILE))
}

/// What `--containers` says holds, since it has the originals of what an injection changed; the spec fills in the rest.
pub(crate) fn merge_containers(declared: &[Container], spec: &[Container]) -> Vec<Container> {
    let merged = |spec: &Container| {
        let Some(own) = declared.iter().find(|own| own.name == spec.name) else { return spec.clone() };
        let has_probes = own.probes().next().is_some();
        let probes = if has_probes { own } else { spec };
        Container {
            name: own.name.clone(),
            ports: if own.ports.is_empty() { spec.ports.clone() } else { own.ports.clone() },
            startup_probe: probes.startup_probe.clone(),
            readiness_probe: probes.readiness_probe.clone(),
            restart_policy: own.restart_policy.clone().or_else(|| spec.restart_policy.clone()),
            mode: if own.mode == Mode::None { spec.mode } else { own.mode },
            pre_stop: own.pre_stop || spec.pre_stop,
            until: if own.until.is_empty() { spec.until.clone() } else { own.until.clone() },
        }
    };
    spec.iter().map(merged).collect()
}
