//! Limit of the agent's open files; the agent needs five open files for each program that it runs.

use anyhow::ensure;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

/// Requested limit of open files, enough for the labs of one host.
const WANTED: u64 = 4096;
/// Minimum limit of open files, enough for the agent and a lab of two machines with one program each.
const LEAST: u64 = 128;

/// Raise the limit of this process and its programs, if it is lower than labs need; only root may exceed the
/// hard limit.
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
