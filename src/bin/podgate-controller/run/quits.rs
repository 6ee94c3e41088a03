//! Asks containers to exit when all other containers have ended: proxies in a Job whose commands podgate does not know.

use super::Controller;
use crate::clock::now;
use crate::probe::quit;
use podgate::core::quit::Quit;
use std::time::Duration;
use tracing::{info, warn};

/// Time during which a failed request is repeated.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_secs(1);

impl Controller {
    /// Starts the requests to the containers that must exit now.
    pub(super) fn ask_to_quit(&mut self) {
        for track in self.pod.to_quit() {
            let (name, text) = (track.spec.name.clone(), track.spec.quit.as_deref().unwrap_or_default());
            if self.asked_to_quit.insert(name.clone()) {
                match text.parse() {
                    Ok(quit) => drop(tokio::task::spawn_local(ask(name, quit))),
                    Err(why) => warn!(container = name, why, "the request by which the container exits is invalid"),
                }
            }
        }
    }
}

async fn ask(container: String, quit: Quit) {
    let until = now() + TOTAL_TIMEOUT;
    info!(container, request = %quit, "all other containers have ended; asking the container to exit");
    loop {
        let answer = tokio::time::timeout(ATTEMPT_TIMEOUT, quit::send(&quit)).await;
        let why = match answer.unwrap_or_else(|_| Err(format!("no answer within {} s", ATTEMPT_TIMEOUT.as_secs()))) {
            Ok(status) if status.is_success() => {
                return info!(container, %status, "the container has been asked to exit");
            }
            Ok(status) => format!("status {status}"),
            Err(why) => why,
        };
        if now() >= until {
            return warn!(container, why, "the container does not accept the request to exit");
        }
        tokio::time::sleep(PAUSE).await;
    }
}
