//! How many files the agent may have open: each program that it runs takes five.

use anyhow::ensure;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

/// Enough for the labs of one computer.
const WANTED: u64 = 4096;
/// A lab of two machines with a program each, and what the agent has for itself.
const LEAST: u64 = 128;

/// Raise the limit of this process, and so of its programs, where it is lower than labs need; root may pass the hard one.
pub fn raise() -> anyhow::Result<()> {
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|limit| limit >= WANTED) {
        return Ok(());
    }
    let beyond = Rlimit { current: Some(WANTED), maximum: now.maximum.map(|most| most.max(WANTED)) };
    if setrlimit(Resource::Nofile, beyond).is_ok() {
        return Ok(());
    }
    let most = now.maximum.map_or(WANTED, |most| most.min(WANTED));
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: now.maximum })?;
    ensure!(
        most >= LEAST,
        "at most {most} files may be open here, and a lab needs {LEAST}: raise the limit (ulimit -n)"
    );
    Ok(())
}
