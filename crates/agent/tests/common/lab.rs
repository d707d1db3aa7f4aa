//! A chain of namespaces created by an agent, and requests for trials through the chain.

use std::time::Instant;

use serde_json::{json, Value};

use super::{netns_name, Agent, PATIENCE};

pub const SECOND_NS: u64 = 1_000_000_000;

/// Maximum number of attempts of a test that needs an idle machine, because other tests run concurrently; one
/// undisturbed attempt is enough.
pub const TRIES: usize = 20;

/// A chain of namespaces, each connected to the next by a veth pair from interface `right` to interface `left`.
pub struct Lab {
    pub agent: Agent,
    pub netns: Vec<String>,
}

impl Lab {
    pub fn new(agent: Agent, what: &str, length: usize) -> Self {
        Self::with_queues(agent, what, length, 1)
    }

    /// Create a chain whose interfaces have `queues` queues per direction.
    pub fn with_queues(mut agent: Agent, what: &str, length: usize, queues: u32) -> Self {
        let netns: Vec<String> = (0..length).map(|place| netns_name(&format!("{what}{place}"))).collect();
        for name in &netns {
            agent.call("netns.create", json!({"name": name}));
        }
        for pair in netns.windows(2) {
            let [one, other] = [&pair[0], &pair[1]];
            let shape = format!("mtu 2000 numtxqueues {queues} numrxqueues {queues}");
            let line = format!(
                "ip link add right netns {one} {shape} type veth peer name left {shape} netns {other}"
            );
            agent.run(&line.split(' ').collect::<Vec<_>>());
            for (name, interface) in [(one, "right"), (other, "left")] {
                let line = format!("ip -n {name} link set {interface} addrgenmode none up");
                agent.run(&line.split(' ').collect::<Vec<_>>());
            }
        }
        let mut lab = Self { agent, netns };
        for place in 1..length {
            lab.wait_for_carrier(place - 1, "right");
            lab.wait_for_carrier(place, "left");
        }
        lab
    }

    /// Wait until an interface is up, because the kernel reports a carrier up to a second late.
    fn wait_for_carrier(&mut self, place: usize, interface: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.link(place, interface).contains("state UP") {
            assert!(Instant::now() < deadline, "{interface} does not come up");
        }
    }

    /// Open a set of two ports: one in the first namespace and one in the last.
    pub fn open(&mut self, path: &str) -> Value {
        let (first, last) = (&self.netns[0], self.netns.last().unwrap());
        let ports = json!([
            {"name": "near", "netns": first, "interface": "right", "path": path, "send_cpu": 0},
            {"name": "far", "netns": last, "interface": "left", "path": path},
        ]);
        self.agent.call("traffic.open", json!({"id": "set", "ports": ports}))
    }

    /// Wait until a trial has begun: frames leave the first namespace.
    pub fn wait_for_frames(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let params = json!({"samplers": ["interfaces"], "netns": [self.netns[0]]});
        let sent = |read: &Value| {
            let interfaces = read["observations"][0]["interfaces"].as_array().unwrap();
            number(&interfaces.iter().find(|each| each["name"] == "right").unwrap()["tx_packets"])
        };
        while sent(&self.agent.call("sample.read", params.clone())) == 0 {
            assert!(Instant::now() < deadline, "no frame is sent");
        }
    }

    pub fn link(&mut self, place: usize, interface: &str) -> String {
        let netns = self.netns[place].clone();
        self.agent.run(&["ip", "-d", "-n", &netns, "link", "show", interface])
    }
}

pub fn sender(port: &str, tag: u16, to: &Value, frames_per_second: u64) -> Value {
    let flows = json!({
        "count": 16,
        "source_address": {"first": "198.18.0.1"}, "destination_address": {"first": "198.19.0.1", "count": 16},
        "source_port": {"first": 4096}, "destination_port": {"first": 9},
    });
    json!({
        "port": port, "tag": tag,
        "frames": {"sizes": [[64, 1]], "destination_mac": to["mac"], "flows": flows},
        "rate": {"frames": frames_per_second, "per_ns": SECOND_NS},
    })
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}
