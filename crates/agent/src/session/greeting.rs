//! The greeting, which is the agent's first line: identity, capabilities, and the state of the host.

use std::fs;

use iolab_protocol::calls::Nothing;
use iolab_protocol::results::Pong;
use iolab_protocol::{Hello, PROTOCOL_VERSION};
use nix::unistd::Uid;
use sha2::{Digest, Sha256};

use crate::changes::leases;
use crate::host::Host;
use crate::kernel::clock::now_ns;
use crate::kernel::faults::Answer;
use crate::verbs::{verb, Verb};

/// Return the verb for pings.
pub fn verbs() -> [Verb; 1] {
    [verb("agent.ping", |_, _: Nothing| Ok(Pong { now_ns: now_ns() })).in_order()]
}

/// Facts that were determined before the agent started its work.
pub struct Beginning {
    /// The agent's user, as seen from outside the namespaces that the agent entered.
    pub user: Uid,
    /// Reason why the agent could not enter new namespaces, if it tried.
    pub refusal: Option<String>,
    /// Reason why an ordinary user's agent cannot open macvtaps.
    pub closed: Option<String>,
}

/// Build the greeting.
pub fn greet(host: &Host, beginning: &Beginning) -> Answer<Hello> {
    let predecessors = host.predecessors()?;
    let holders = leases::holders(host)?;
    let (capabilities, limits) = abilities(beginning, host.is_init);
    Ok(Hello {
        protocol: PROTOCOL_VERSION.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build: build(),
        pid: std::process::id(),
        uid: beginning.user.as_raw(),
        rootless: host.author.rootless,
        state_dir: host.state.name.to_string_lossy().into_owned(),
        capabilities,
        limits,
        busy_pid: leases::busy_pid(&holders),
        holders,
        predecessors,
    })
}

fn abilities(beginning: &Beginning, is_init: bool) -> (Vec<String>, Vec<String>) {
    let mut limits = Vec::new();
    if let Some(refusal) = &beginning.refusal {
        limits.push(format!("no network namespaces: {refusal}"));
    } else if !has_capabilities(&[CAP_NET_ADMIN, CAP_SYS_ADMIN]) {
        limits.push("no network namespaces: the agent lacks CAP_NET_ADMIN or CAP_SYS_ADMIN".to_owned());
    } else if !is_installed("ip") {
        limits.push("no network namespaces: the program 'ip' (package iproute2) is not installed".to_owned());
    }
    let mut capabilities = vec!["command", "process"];
    if limits.is_empty() {
        capabilities.push("netns");
    }
    capabilities.extend(["setting", "sample", "journal", "facts"]);
    // Ports require capabilities similar to those for namespaces, but not the program `ip`.
    if has_capabilities(&[CAP_NET_ADMIN, CAP_NET_RAW]) {
        capabilities.push("traffic");
        if beginning.user.is_root() {
            capabilities.push("device");
        } else {
            limits.push(
                "no devices under test, and no reception by AF_XDP: only root may load BPF programs"
                    .to_owned(),
            );
        }
    } else {
        limits.push("no generated traffic: the agent lacks CAP_NET_ADMIN or CAP_NET_RAW".to_owned());
    }
    capabilities.extend(["folder", "relay", "files"]);
    match &beginning.closed {
        None => capabilities.push("macvtap"),
        Some(why) => limits.push(format!("no devices of macvtaps: only root may open them, and {why}")),
    }
    if is_init {
        capabilities.push("machine");
    }
    (capabilities.into_iter().map(str::to_owned).collect(), limits)
}

fn has_capabilities(wanted: &[u32]) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    wanted.iter().all(|capability| effective.unwrap_or(0) >> capability & 1 == 1)
}

fn is_installed(program: &str) -> bool {
    let path = crate::programs::spawn::search_path();
    path.split(':').any(|folder| std::path::Path::new(folder).join(program).exists())
}

/// Return the SHA-256 digest of this program, from which the controller determines whether to copy a newer
/// version.
fn build() -> String {
    let Ok(binary) = fs::read("/proc/self/exe") else { return String::new() };
    let digest = Sha256::digest(binary);
    digest.iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

// linux/capability.h
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;
