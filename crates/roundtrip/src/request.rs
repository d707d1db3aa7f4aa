//! What is asked for. `contract/roundtrip-v1.md` defines it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::RoundTripError;

/// One end of round trips.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "program", rename_all = "kebab-case")]
pub enum Request {
    /// Answer whoever asks, until ended.
    Serve(Serve),
    /// Ask, wait for the response, ask again.
    Transactions(Transactions),
    /// Send echo requests at a rate, whether or not the ones before were answered.
    Probes(Probes),
}

/// What carries requests and responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// A connection.
    Tcp,
    /// Datagrams.
    Udp,
    /// Echo requests, which the kernel at the other end answers.
    Icmp,
}

/// The end that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Where it listens.
    pub address: IpAddr,
    /// Where it listens.
    pub port: u16,
    /// Connections, or datagrams, that are served at the same time.
    pub threads: u16,
    /// Of a request. (bytes)
    pub request_bytes: u32,
    /// Of a response; 0: UDP sends back what came. (bytes)
    pub response_bytes: u32,
}

/// The end that asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transactions {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Of this end.
    pub source: IpAddr,
    /// Of the server.
    pub address: IpAddr,
    /// Of the server.
    pub port: u16,
    /// Each has one request under way at a time.
    pub connections: u16,
    /// Of a request. (bytes)
    pub request_bytes: u32,
    /// Of a response. (bytes)
    pub response_bytes: u32,
    /// Open a connection for each request.
    pub connect_each: bool,
    /// Intended time from one request of a connection to the next; 0: as soon as the response is there. (ns)
    pub interval_ns: u64,
    /// Left out of the report. (ns)
    pub warm_up_ns: u64,
    /// Of what is reported. (ns)
    pub duration_ns: u64,
    /// A response that takes longer counts as lost (UDP), or ends the program (TCP). (ns)
    pub timeout_ns: u64,
    /// Length of a slice of the report. (ns)
    pub slice_ns: u64,
}

/// The end that sends echo requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probes {
    /// ICMP or UDP.
    pub protocol: Protocol,
    /// Of this end.
    pub source: IpAddr,
    /// Of the other end.
    pub address: IpAddr,
    /// Of the other end; ICMP has none.
    pub port: u16,
    /// From one request to the next. (ns)
    pub interval_ns: u64,
    /// Behind the header of ICMP or UDP. (bytes)
    pub payload_bytes: u32,
    /// Left out of the report. (ns)
    pub warm_up_ns: u64,
    /// Of what is reported. (ns)
    pub duration_ns: u64,
    /// How long answers are waited for after the last request. (ns)
    pub wait_ns: u64,
    /// Length of a slice of the report. (ns)
    pub slice_ns: u64,
}

impl Transactions {
    /// Refuse what cannot be done.
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
    /// Refuse what cannot be done.
    pub fn check(&self) -> Result<(), RoundTripError> {
        refuse(self.protocol == Protocol::Tcp, "echoes over TCP", "icmp or udp")?;
        refuse(self.interval_ns == 0, "no time between requests", "interval_ns from 1")?;
        refuse(self.slice_ns == 0, "slices without length", "slice_ns from 1")?;
        let fits = (LEAST_PAYLOAD..=MOST_DATAGRAM).contains(&self.payload_bytes);
        refuse(!fits, "a payload that does not fit", "payload_bytes from 24 to 65507")
    }
}

impl Serve {
    /// Refuse what cannot be done.
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

/// A head (`packet`) fits.
const LEAST_PAYLOAD: u32 = 24;
const MOST_DATAGRAM: u32 = 65_507;
const MOST_STREAM: u32 = 16 << 20;
