//! Requests for round trips. `contract/roundtrip-v1.md` defines them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::RoundTripError;

/// One end of a round-trip measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "program", rename_all = "kebab-case")]
pub enum Request {
    /// Answer the requests of all clients until the process is killed.
    Serve(Serve),
    /// Send a request, wait for the response, and repeat.
    Transactions(Transactions),
    /// Send echo requests at a constant rate, whether or not earlier requests were answered.
    Probes(Probes),
}

/// Protocol that carries requests and responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// A TCP connection.
    Tcp,
    /// UDP datagrams.
    Udp,
    /// ICMP echo requests, which the kernel of the other end answers.
    Icmp,
}

/// The end that answers requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// Protocol: TCP or UDP.
    pub protocol: Protocol,
    /// Local address to listen on.
    pub address: IpAddr,
    /// Local port to listen on.
    pub port: u16,
    /// Maximum number of connections or datagrams that are served in parallel.
    pub threads: u16,
    /// Length of a request in bytes.
    pub request_bytes: u32,
    /// Length of a response in bytes; 0 with UDP returns each datagram unchanged.
    pub response_bytes: u32,
}

/// The end that sends requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transactions {
    /// Protocol: TCP or UDP.
    pub protocol: Protocol,
    /// Local address.
    pub source: IpAddr,
    /// Address of the server.
    pub address: IpAddr,
    /// Port of the server.
    pub port: u16,
    /// Number of connections. Each has at most one request in flight.
    pub connections: u16,
    /// Length of a request in bytes.
    pub request_bytes: u32,
    /// Length of a response in bytes.
    pub response_bytes: u32,
    /// Whether each request uses a new connection.
    pub connect_each: bool,
    /// Intended time between consecutive requests of a connection, in ns; 0 sends the next request as soon as
    /// the response has arrived.
    pub interval_ns: u64,
    /// Duration of the warm-up, which the report excludes, in ns.
    pub warm_up_ns: u64,
    /// Duration of the reported time, in ns.
    pub duration_ns: u64,
    /// Timeout of a response in ns. A response that takes longer is lost (UDP), or the program fails (TCP).
    pub timeout_ns: u64,
    /// Length of a time slice of the report, in ns.
    pub slice_ns: u64,
}

/// The end that sends echo requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probes {
    /// Protocol: ICMP or UDP.
    pub protocol: Protocol,
    /// Local address.
    pub source: IpAddr,
    /// Address of the other end.
    pub address: IpAddr,
    /// UDP port of the other end; ignored with ICMP.
    pub port: u16,
    /// Time between consecutive requests, in ns.
    pub interval_ns: u64,
    /// Length of the payload after the ICMP or UDP header, in bytes.
    pub payload_bytes: u32,
    /// Duration of the warm-up, which the report excludes, in ns.
    pub warm_up_ns: u64,
    /// Duration of the reported time, in ns.
    pub duration_ns: u64,
    /// Maximum wait for replies after the last request, in ns.
    pub wait_ns: u64,
    /// Length of a time slice of the report, in ns.
    pub slice_ns: u64,
}

impl Transactions {
    /// Return an error if the request for transactions is invalid.
    pub fn check(&self) -> Result<(), RoundTripError> {
        let udp = self.protocol == Protocol::Udp;
        let least = if udp { LEAST_PAYLOAD } else { 1 };
        let most = if udp { MOST_DATAGRAM } else { MOST_STREAM };
        let fits = |bytes: u32| (least..=most).contains(&bytes);
        refuse(self.protocol == Protocol::Icmp, "transactions over ICMP", "tcp or udp")?;
        refuse(self.connections == 0, "no connection", "at least one connection")?;
        refuse(udp && self.connect_each, "a connection for each datagram", "connect_each with tcp")?;
        refuse(self.slice_ns == 0, "slices without length", "slice_ns from 1")?;
        refuse(self.timeout_ns == 0, "no time to wait", "timeout_ns from 1")?;
        let sizes = "request and response of 1 byte to 16 MiB over TCP, of 24 to 65507 bytes over UDP";
        refuse(!fits(self.request_bytes) || !fits(self.response_bytes), "a size that does not fit", sizes)
    }
}

impl Probes {
    /// Return an error if the request for probes is invalid.
    pub fn check(&self) -> Result<(), RoundTripError> {
        refuse(self.protocol == Protocol::Tcp, "echoes over TCP", "icmp or udp")?;
        refuse(self.interval_ns == 0, "no time between requests", "interval_ns from 1")?;
        refuse(self.slice_ns == 0, "slices without length", "slice_ns from 1")?;
        let fits = (LEAST_PAYLOAD..=MOST_DATAGRAM).contains(&self.payload_bytes);
        refuse(!fits, "a payload that does not fit", "payload_bytes from 24 to 65507")
    }
}

impl Serve {
    /// Return an error if the request for a server is invalid.
    pub fn check(&self) -> Result<(), RoundTripError> {
        refuse(self.protocol == Protocol::Icmp, "a server of ICMP", "tcp or udp: the kernel answers ICMP")?;
        refuse(self.threads == 0, "no thread", "at least one thread")?;
        let most = if self.protocol == Protocol::Udp { MOST_DATAGRAM } else { MOST_STREAM };
        let fits = self.request_bytes <= most && self.response_bytes <= most;
        refuse(!fits, "a size that does not fit", "at most 16 MiB over TCP, 65507 bytes over UDP")
    }
}

fn refuse(wrong: bool, seen: &str, allowed: &'static str) -> Result<(), RoundTripError> {
    if wrong {
        return Err(RoundTripError::Asked { seen: seen.to_owned(), allowed });
    }
    Ok(())
}

/// Minimum UDP payload in bytes: the header of `packet`.
const LEAST_PAYLOAD: u32 = 24;
const MOST_DATAGRAM: u32 = 65_507;
const MOST_STREAM: u32 = 16 << 20;
