//! Timeout of a controller on a different host, after which it counts as disconnected. A cut cable does not
//! close standard input: the SSH server that holds it may wait for hours.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{bail, Context};

use crate::host::Host;
use crate::kernel::clock::now_ns;
use crate::session::ending::end;

/// Command-line option with the timeout in seconds.
pub const ARGUMENT: &str = "--silence-s";

/// Parse the value of the option.
pub fn parse(text: Option<&str>) -> anyhow::Result<Duration> {
    match text.map(str::parse) {
        Some(Ok(seconds @ 1..=LONGEST_S)) => Ok(Duration::from_secs(seconds)),
        _ => bail!("reading {ARGUMENT}: saw '{}'; allowed: 1 to {LONGEST_S} seconds", text.unwrap_or("")),
    }
}

/// Record that the controller has sent data.
pub fn renew() {
    // Relaxed ordering suffices: the time protects no other data.
    HEARD_NS.store(now_ns(), Ordering::Relaxed);
}

/// Undo all changes and exit if the controller sends no data for `silence`.
pub fn watch(host: &Arc<Host>, silence: Duration) -> anyhow::Result<()> {
    renew();
    let host = Arc::clone(host);
    let watching = thread::Builder::new().name("silence".to_owned()).spawn(move || loop {
        let silent = Duration::from_nanos(now_ns().saturating_sub(HEARD_NS.load(Ordering::Relaxed)));
        match silence.checked_sub(silent).filter(|left| !left.is_zero()) {
            Some(left) => thread::sleep(left),
            None => end(&host, |_| {}),
        }
    });
    watching.map(drop).context("starting a thread")
}

static HEARD_NS: AtomicU64 = AtomicU64::new(0);
const LONGEST_S: u64 = 3600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_limit_must_be_a_whole_number_of_seconds() {
        assert_eq!(parse(Some("20")).ok(), Some(Duration::from_secs(20)));
        for wrong in [None, Some(""), Some("0"), Some("-1"), Some("1.5"), Some("3601")] {
            assert!(parse(wrong).is_err());
        }
    }
}
