//! Tests with both ends on the loopback interface: every request is answered, counted and timed.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use iolab_roundtrip::{
    run, Probes, ProbesReport, Protocol, Report, Request, Serve, Transactions, TransactionsReport,
};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
const MS: u64 = 1_000_000;

/// Start a server on a free port; the server runs until the tests end.
fn serve(protocol: Protocol, address: IpAddr, threads: u16, response_bytes: u32) -> u16 {
    let port = match protocol {
        Protocol::Tcp => TcpListener::bind((address, 0)).unwrap().local_addr().unwrap().port(),
        _ => UdpSocket::bind((address, 0)).unwrap().local_addr().unwrap().port(),
    };
    let (ready, is_ready) = mpsc::channel();
    let asked = Serve { protocol, address, port, threads, request_bytes: 64, response_bytes };
    thread::spawn(move || run(&Request::Serve(asked), &|| ready.send(()).unwrap()));
    is_ready.recv().unwrap();
    port
}

fn asked(protocol: Protocol, address: IpAddr, port: u16) -> Transactions {
    Transactions {
        protocol,
        source: address,
        address,
        port,
        connections: 3,
        request_bytes: 64,
        response_bytes: 64,
        connect_each: false,
        interval_ns: 0,
        warm_up_ns: 20 * MS,
        duration_ns: 200 * MS,
        timeout_ns: 20_000 * MS,
        slice_ns: 50 * MS,
    }
}

fn transactions(asked: Transactions) -> TransactionsReport {
    match run(&Request::Transactions(asked), &|| ()).unwrap() {
        Report::Transactions(report) => report,
        other => panic!("{other:?}"),
    }
}

fn probes(protocol: Protocol, address: IpAddr, port: u16) -> ProbesReport {
    let asked = Probes {
        protocol,
        source: address,
        address,
        port,
        interval_ns: MS,
        payload_bytes: 56,
        warm_up_ns: 20 * MS,
        duration_ns: 200 * MS,
        wait_ns: 5_000 * MS,
        slice_ns: 50 * MS,
    };
    match run(&Request::Probes(asked), &|| ()).unwrap() {
        Report::Probes(report) => report,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_transaction_has_a_latency() {
    for (protocol, address) in
        [(Protocol::Tcp, V4), (Protocol::Udp, V4), (Protocol::Tcp, V6), (Protocol::Udp, V6)]
    {
        let port = serve(protocol, address, 3, 64);
        let report = transactions(asked(protocol, address, port));
        assert!(report.transactions > 0, "{protocol:?} {address}");
        assert_eq!(report.latency_ns.count(), report.transactions);
        assert_eq!(report.slices.iter().map(|slice| slice.count).sum::<u64>(), report.transactions);
        assert_eq!((report.lost, report.late, report.unsent), (0, 0, 0));
    }
}

#[test]
fn each_request_may_use_a_new_connection() {
    let port = serve(Protocol::Tcp, V4, 3, 64);
    let report = transactions(Transactions { connect_each: true, ..asked(Protocol::Tcp, V4, port) });
    assert!(report.transactions > 0);
    assert!(report.connect_ns.count().abs_diff(report.transactions) <= 3);
}

#[test]
fn late_requests_have_higher_latency_and_skipped_requests_are_counted() {
    let port = serve(Protocol::Tcp, V4, 1, 64);
    // Send ten times as many requests as there is time for.
    let often =
        Transactions { connections: 1, interval_ns: 100, warm_up_ns: 0, ..asked(Protocol::Tcp, V4, port) };
    let report = transactions(often);
    assert!(report.unsent > 0);
    assert!(report.latency_ns.quantile(900_000).unwrap() > 50 * MS, "latency is that of a closed loop");
}

/// A server that does nothing for a while delays all requests that were due in that time, not only one.
#[test]
fn server_stall_delays_every_request_that_was_due_during_the_stall() {
    let socket = UdpSocket::bind((V4, 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut buffer = [0; 64];
        for number in 0.. {
            let (length, from) = socket.recv_from(&mut buffer).unwrap();
            if number == 100 {
                thread::sleep(Duration::from_millis(200));
            }
            socket.send_to(&buffer[..length], from).unwrap();
        }
    });
    let often = Transactions {
        connections: 1,
        interval_ns: MS,
        warm_up_ns: 0,
        duration_ns: 500 * MS,
        ..asked(Protocol::Udp, V4, port)
    };
    let report = transactions(often);
    assert_eq!((report.transactions + report.unsent, report.lost), (500, 0));
    // Two of five requests were due in the 200 ms and waited for 100 ms on average. A closed loop would have one slow
    // response.
    let slow = report.latency_ns.quantile(800_000).unwrap();
    assert!(slow > 50 * MS, "the 80th percentile is {slow} ns");
    assert!(report.latency_ns.max().unwrap() >= 199 * MS);
}

#[test]
fn unreachable_server_is_named() {
    let port = TcpListener::bind((V4, 0)).unwrap().local_addr().unwrap().port();
    let said = run(&Request::Transactions(asked(Protocol::Tcp, V4, port)), &|| ()).unwrap_err().to_string();
    assert!(said.starts_with(&format!("connecting to 127.0.0.1:{port}")), "{said}");
}

#[test]
fn unanswered_datagrams_are_lost() {
    let silent = UdpSocket::bind((V4, 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let alone = Transactions { connections: 1, timeout_ns: 20 * MS, ..asked(Protocol::Udp, V4, port) };
    let report = transactions(alone);
    assert_eq!(report.transactions, 0);
    assert!(report.lost > 0);
}

#[test]
fn each_echo_is_counted_once() {
    let port = serve(Protocol::Udp, V4, 1, 0);
    let report = probes(Protocol::Udp, V4, port);
    assert_eq!(report.sent + report.unsent, 200, "{report:?}");
    assert_eq!((report.received, report.duplicate, report.refused), (report.sent, 0, 0));
    assert_eq!(report.rtt_ns.count(), report.received);
    assert!(report.stamped);
}

#[test]
fn kernel_answers_echo_requests() {
    for address in [V4, V6] {
        let raw = run(&Request::Probes(Probes { duration_ns: 0, warm_up_ns: 0, ..icmp(address) }), &|| ());
        if raw.as_ref().is_err_and(|error| error.to_string().contains("ermitted")) {
            continue; // an ordinary user's
        }
        let report = probes(Protocol::Icmp, address, 0);
        assert_eq!(report.received, report.sent, "{address}");
        assert!(report.received > 0);
    }
}

fn icmp(address: IpAddr) -> Probes {
    Probes {
        protocol: Protocol::Icmp,
        source: address,
        address,
        port: 0,
        interval_ns: MS,
        payload_bytes: 56,
        warm_up_ns: 0,
        duration_ns: MS,
        wait_ns: MS,
        slice_ns: MS,
    }
}
