//! Tests of ports on a veth pair between two namespaces. Every send path sends to every receive path, and refused
//! requests change nothing. The tests are skipped, with a message, without root.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::unwrap_used)] // small numbers of a check

mod lab;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;

use iolab_port::{
    receive, AfPacket, AfXdp, Attach, BpfLive, Direction, Interface, PortError, RxPort, TxPort,
};
use iolab_sys::clock;
use lab::{collect, frame, inside, run, send, skipped, Lab};

const FRAMES: u64 = 3000;

fn senders(name: &str) -> Vec<Box<dyn TxPort>> {
    let packet = AfPacket::new(name);
    vec![Box::new(AfXdp::new(name, Direction::Send).open_tx().unwrap()), Box::new(packet.open_tx().unwrap())]
}

fn receiver(name: &str, kind: &str) -> Box<dyn RxPort> {
    let xdp = AfXdp::new(name, Direction::Receive);
    match kind {
        "native" => Box::new(AfXdp { attach: Attach::Native, ..xdp }.open_rx().unwrap()),
        "generic" => Box::new(AfXdp { attach: Attach::Generic, ..xdp }.open_rx().unwrap()),
        _ => Box::new(AfPacket::new(name).open_rx().unwrap()),
    }
}

fn size(number: u64) -> usize {
    [60, 61, 128, 777, 1514][number as usize % 5]
}

fn exchange(tx: &mut dyn TxPort, rx: &mut dyn RxPort) {
    let (mut seen, begun_ns) = (Vec::new(), clock::now_ns());
    for first in (0..FRAMES).step_by(50) {
        send(tx, first..first + 50, size);
        seen.extend(collect(rx, 50));
    }
    let ended_ns = clock::now_ns();
    let pair = format!("{} to {}", tx.path(), rx.path());
    assert_eq!(seen.len() as u64, FRAMES, "{pair}");
    let mut last_ns = begun_ns;
    for (number, (bytes, stamp_ns)) in (0u64..).zip(&seen) {
        assert_eq!(bytes, &frame(number, size(number)), "{pair}: frame {number}");
        // On a busy machine, the offset to the wall clock may be wrong by half a millisecond.
        assert!(
            *stamp_ns + 500_000 >= last_ns && *stamp_ns <= ended_ns + 500_000,
            "{pair}: stamp of frame {number}"
        );
        last_ns = *stamp_ns;
    }
    let (sent, got) = (tx.stats().unwrap(), rx.stats().unwrap());
    assert_eq!(
        (sent.committed_frames, sent.accepted_frames, sent.pending_frames),
        (FRAMES, FRAMES, 0),
        "{pair}"
    );
    assert_eq!((got.received_frames, got.dropped_frames, got.truncated_frames), (FRAMES, 0, 0), "{pair}");
    assert_eq!((got.foreign_frames, got.poll_stamped_frames), (0, 0), "{pair}");
}

/// Every receive path receives the frames of every send path: whole, in order, once, and stamped.
#[test]
fn every_receive_path_receives_from_every_send_path() {
    let Some(lab) = Lab::new() else { return };
    for kind in ["native", "generic", "packet"] {
        let before = inside(&lab.tx, || Interface::find("west").unwrap()).counters;
        for mut tx in inside(&lab.tx, || senders("west")) {
            exchange(&mut *tx, &mut *inside(&lab.rx, || receiver("east", kind)));
        }
        let after = inside(&lab.tx, || Interface::find("west").unwrap()).counters;
        assert_eq!(after.tx_frames - before.tx_frames, 2 * FRAMES);
    }
}

/// Live frames of every size arrive whole, in order and once, if the other end has an XDP program.
#[test]
fn live_frames_reach_a_program() {
    let Some(lab) = Lab::new() else { return };
    let before = inside(&lab.tx, || Interface::find("west").unwrap()).counters;
    for _ in 0..2 {
        let mut rx = inside(&lab.rx, || receiver("east", "native"));
        let mut tx = inside(&lab.tx, || BpfLive::new("west").open_tx().unwrap());
        assert_eq!(tx.path().to_string(), "BPF live frames");
        exchange(&mut tx, &mut *rx);
        // Send twice as many frames as there are slots, many in each call.
        send(&mut tx, 0..2500, |_| 60);
        let seen = collect(&mut *rx, 2500);
        assert!((0u64..).zip(&seen).all(|(number, (bytes, _))| *bytes == frame(number, 60)));
        assert_eq!(seen.len(), 2500);
    }
    let after = inside(&lab.tx, || Interface::find("west").unwrap()).counters;
    assert_eq!(after.tx_frames - before.tx_frames, 2 * (FRAMES + 2500));
}

/// Live frames in a queue at the far end keep no page pool in use: this test makes more calls than the kernel has page
/// pool ids, and holds each frame until all are sent.
#[test]
fn live_frames_held_in_a_queue_keep_no_page_pool_in_use() {
    const CALLS: u64 = 66_000;
    let Some(lab) = Lab::new() else { return };
    run(&format!("ip netns exec {} ethtool -K east gro on", lab.rx));
    let mut queue = inside(&lab.rx, || held_frames(1 << 30));
    let mut tx = inside(&lab.tx, || BpfLive::new("west").open_tx().unwrap());
    for number in 0..CALLS {
        send(&mut tx, number..number + 1, |_| 60);
    }
    let stats = inside(&lab.tx, || tx.stats()).unwrap();
    assert_eq!((stats.accepted_frames, stats.busy_answers), (CALLS, 0), "{stats:?}");
    let mut bytes = [0; 64];
    let numbers = std::iter::from_fn(|| match queue.read(&mut bytes) {
        Ok(60) => Some(u64::from_be_bytes(bytes[14..22].try_into().unwrap())),
        _ => None,
    });
    assert!(numbers.eq(0..CALLS));
}

/// Return a socket that keeps the frames received on any interface, up to `most_bytes`.
fn held_frames(most_bytes: i32) -> File {
    let all = i32::from(u16::to_be(libc::ETH_P_ALL as u16));
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
    let socket = iolab_sys::socket::socket(libc::AF_PACKET, kind, all).unwrap();
    iolab_sys::socket::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &most_bytes).unwrap();
    File::from(socket)
}

/// Live frames that no program receives are not counted as accepted, because the interface has not counted them.
#[test]
fn lost_live_frames_are_not_counted_as_accepted() {
    let Some(lab) = Lab::new() else { return };
    run(&format!("ip netns exec {} ethtool -K east gro off", lab.rx));
    let mut tx = inside(&lab.tx, || BpfLive::new("west").open_tx().unwrap());
    send(&mut tx, 0..100, |_| 60);
    let stats = inside(&lab.tx, || tx.stats()).unwrap();
    assert_eq!((stats.committed_frames, stats.accepted_frames), (100, 0), "{stats:?}");
    assert_eq!(stats.refused_frames + stats.pending_frames, 100, "{stats:?}");
}

/// Frames that do not fit into a page with the kernel's own data are refused, so that a caller can fall back.
#[test]
fn live_frames_longer_than_a_page_are_refused() {
    let Some(lab) = Lab::new() else { return };
    run(&format!("ip -n {} link set west mtu 9000", lab.tx));
    inside(&lab.tx, || {
        let seen = BpfLive { frame_bytes: 4000, ..BpfLive::new("west") }.open_tx().map(drop).unwrap_err();
        assert!(matches!(seen, PortError::FrameOverPath { most_bytes: 3200, .. }) && seen.may_fall_back());
    });
    run(&format!("ip -n {} link set west mtu 3300", lab.tx));
    run(&format!("ip -n {} link set east mtu 3300", lab.rx));
    let mut rx = inside(&lab.rx, || {
        AfXdp { frame_bytes: 3200, ..AfXdp::new("east", Direction::Receive) }.open_rx().unwrap()
    });
    let mut tx = inside(&lab.tx, || BpfLive { frame_bytes: 3200, ..BpfLive::new("west") }.open_tx().unwrap());
    send(&mut tx, 0..10, |number| 3191 + number as usize);
    let seen = collect(&mut rx, 10);
    assert_eq!(seen.len(), 10);
    assert!((0u64..).zip(&seen).all(|(number, (bytes, _))| *bytes == frame(number, 3191 + number as usize)));
}

/// Both halves of one port work in both directions at once, each in a thread.
#[test]
fn both_halves_of_a_port_work_concurrently() {
    let Some(lab) = Lab::new() else { return };
    let (mut west_tx, mut west_rx) =
        inside(&lab.tx, || AfXdp::new("west", Direction::Both).open_both().unwrap());
    let (mut east_tx, mut east_rx) =
        inside(&lab.rx, || AfXdp::new("east", Direction::Both).open_both().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| send(&mut west_tx, 0..1500, |_| 100));
        scope.spawn(|| send(&mut east_tx, 0..1500, |_| 200));
        let there = scope.spawn(|| collect(&mut east_rx, 1500));
        let back = scope.spawn(|| collect(&mut west_rx, 1500));
        for (seen, bytes) in [(there.join().unwrap(), 100), (back.join().unwrap(), 200)] {
            assert_eq!(seen.len(), 1500);
            assert!((0u64..).zip(&seen).all(|(number, (seen, _))| *seen == frame(number, bytes)));
        }
    });
}

/// No program remains when its port closes, and the same queue can be opened immediately, again and again.
#[test]
fn closed_port_leaves_no_program() {
    let Some(lab) = Lab::new() else { return };
    inside(&lab.rx, || {
        for _ in 0..5 {
            let rx = AfXdp::new("east", Direction::Receive).open_rx().unwrap();
            assert!(Interface::find("east").unwrap().program.is_some());
            assert_eq!(rx.path().to_string(), "AF_XDP native copy");
            drop(rx);
            assert_eq!(Interface::find("east").unwrap().program, None);
        }
    });
}

/// Only frames that match reach the port; all other frames reach the host and are counted.
#[test]
fn frames_that_do_not_match_the_filter_are_left_to_the_host() {
    let Some(lab) = Lab::new() else { return };
    let word = iolab_port::WordMatch { offset_bytes: 18, mask: [0, 0, 0, 1], value: [0, 0, 0, 1] };
    let only = Some(iolab_port::FrameMatch { words: vec![word] });
    let (mut odd, mut host) = inside(&lab.rx, || {
        let odd = AfXdp { only, ..AfXdp::new("east", Direction::Receive) }.open_rx().unwrap();
        (odd, AfPacket::new("east").open_rx().unwrap())
    });
    let mut tx = inside(&lab.tx, || AfXdp::new("west", Direction::Send).open_tx().unwrap());
    send(&mut tx, 0..100, |_| 60);
    let numbers = |seen: Vec<lab::Seen>| seen.iter().map(|(bytes, _)| bytes[21]).collect::<Vec<_>>();
    assert_eq!(numbers(collect(&mut odd, 50)), (0..100).filter(|number| number % 2 == 1).collect::<Vec<_>>());
    assert_eq!(
        numbers(collect(&mut host, 50)),
        (0..100).filter(|number| number % 2 == 0).collect::<Vec<_>>()
    );
    assert_eq!(odd.stats().unwrap().foreign_frames, 50);
}

/// A VLAN tag that the kernel removed from a frame is inserted again, at its original position.
#[test]
fn vlan_tags_of_received_frames_are_restored() {
    let Some(lab) = Lab::new() else { return };
    for kind in ["native", "packet"] {
        let mut rx = inside(&lab.rx, || receiver("east", kind));
        let mut tx = inside(&lab.tx, || AfPacket::new("west").open_tx().unwrap());
        let mut tagged = frame(7, 90);
        tagged.splice(12..12, [0x81, 0, 0x20, 100]);
        let mut batch = iolab_port::reserve(&mut tx, 1);
        batch.frame(0, 94).copy_from_slice(&tagged);
        batch.commit(1);
        tx.flush().unwrap();
        assert_eq!(collect(&mut *rx, 1)[0].0, tagged, "{kind}");
    }
}

/// On every path, the loss by a slow receiver is counted as the receiver's loss: sent = received + dropped.
#[test]
fn loss_by_a_slow_receiver_is_counted_as_loss_of_the_receiver() {
    let Some(lab) = Lab::new() else { return };
    for (kind, attach) in [("native", Attach::Native), ("generic", Attach::Generic)] {
        let port = AfXdp { attach, receive_frames: 2048, ..AfXdp::new("east", Direction::Receive) };
        let mut rx = inside(&lab.rx, || port.open_rx().unwrap());
        let mut tx = inside(&lab.tx, || AfPacket::new("west").open_tx().unwrap());
        for first in (0..6000).step_by(50) {
            send(&mut tx, first..first + 50, |_| 60);
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        let seen = collect(&mut rx, 6000).len() as u64;
        let stats = rx.stats().unwrap();
        assert_eq!((stats.received_frames, stats.dropped_frames), (seen, 6000 - seen), "{kind}: {stats:?}");
        assert!(stats.dropped_frames > 3000);
    }
}

/// Starts a thread that receives the frames of `east` on the CPU of the calling thread, so that the thread runs only
/// while the caller sleeps.
fn let_east_wait_for_this_cpu(lab: &Lab) {
    run(&format!("ip netns exec {} ethtool -K west tso off gso off", lab.tx));
    run(&format!("ip netns exec {} ethtool -K east gro on", lab.rx));
    let before = napi_threads();
    let threaded = "echo 1 > /sys/class/net/east/threaded";
    let done = std::process::Command::new("ip")
        .args(["netns", "exec", &lab.rx, "sh", "-c", threaded])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    iolab_sys::thread::pin(0).unwrap();
    for thread in napi_threads().difference(&before) {
        run(&format!("taskset -c -p 0 {thread}"));
    }
}

/// Return the process ids of the threads that receive the frames of an interface `east`, in any namespace.
fn napi_threads() -> BTreeSet<String> {
    let listed = run("ps -e -o pid=,comm=");
    let rows = listed.lines().filter_map(|line| line.trim().split_once(' '));
    rows.filter(|(_, name)| name.trim().starts_with("napi/east")).map(|(pid, _)| pid.to_owned()).collect()
}

/// Frames for which the far ring has no room are lost there: they are counted as often as the interface counts them,
/// and never retransmitted.
#[test]
fn frames_lost_in_a_full_ring_are_counted_once() {
    let Some(lab) = Lab::new() else { return };
    let_east_wait_for_this_cpu(&lab);
    let mut rx = inside(&lab.rx, || AfPacket::new("east").open_rx().unwrap());
    for mut tx in inside(&lab.tx, || senders("west")) {
        let before = inside(&lab.tx, || Interface::find("west").unwrap()).counters;
        let (mut seen, mut asked, mut dropped) = (Vec::new(), 0, 0);
        // On a busy host the receiver may run between two batches; then no frame is lost, and the test sends more
        // frames.
        while dropped == 0 && asked < 20 * FRAMES {
            send(&mut *tx, asked..asked + FRAMES, |_| 60);
            asked += FRAMES;
            seen.extend(collect(&mut rx, FRAMES as usize));
            let after = inside(&lab.tx, || Interface::find("west").unwrap()).counters;
            let sent = after.tx_frames - before.tx_frames;
            dropped = after.tx_dropped - before.tx_dropped;
            let stats = tx.stats().unwrap();
            assert_eq!(
                (stats.accepted_frames, stats.refused_frames, stats.discarded_frames, stats.pending_frames),
                (sent, dropped, 0, 0),
                "{}: {stats:?}",
                tx.path()
            );
            assert_eq!((sent + dropped, seen.len() as u64), (asked, sent), "{}", tx.path());
        }
        assert!(dropped > 0, "{}: nothing was lost of {asked} frames", tx.path());
        let numbers: Vec<_> = seen.iter().map(|(bytes, _)| bytes[14..22].to_vec()).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{}: in order, once", tx.path());
    }
}

/// Frames for a queue that the interface has stopped never reach the interface, which counts none of them.
#[test]
fn frames_of_a_stopped_queue_are_not_counted_by_the_interface() {
    let Some(lab) = Lab::new() else { return };
    let_east_wait_for_this_cpu(&lab);
    run(&format!("tc -n {} qdisc replace dev west root pfifo limit 1000", lab.tx));
    let mut rx = inside(&lab.rx, || AfPacket::new("east").open_rx().unwrap());
    let mut tx = inside(&lab.tx, || AfPacket::new("west").open_tx().unwrap());
    let before = inside(&lab.tx, || Interface::find("west").unwrap()).counters;
    send(&mut tx, 0..FRAMES, |_| 60);
    let seen = collect(&mut rx, FRAMES as usize).len() as u64;
    let (counted, stats) =
        (inside(&lab.tx, || Interface::find("west").unwrap()).counters, tx.stats().unwrap());
    assert_eq!(seen, stats.accepted_frames, "{stats:?}");
    // Kernels before 6.16 never stop the queue of a veth.
    assert_eq!(stats.refused_frames, counted.tx_dropped - before.tx_dropped, "{stats:?}");
    assert_eq!(stats.accepted_frames + stats.refused_frames + stats.discarded_frames, FRAMES, "{stats:?}");
}

/// Interfaces that cannot be used are refused with the cause and the values, and remain unchanged.
#[test]
fn refused_interfaces_are_reported_with_the_cause() {
    let Some(lab) = Lab::new() else { return };
    run(&format!("ip -n {} link add idle0 type veth peer name idle1", lab.tx));
    inside(&lab.tx, || {
        let before = run("ip -d link");
        for direction in [Direction::Send, Direction::Receive] {
            let open = |port: AfXdp| match direction {
                Direction::Send => port.open_tx().map(drop).unwrap_err(),
                _ => port.open_rx().map(drop).unwrap_err(),
            };
            let seen = open(AfXdp::new("nothing0", direction));
            assert!(matches!(&seen, PortError::NoInterface { name } if name == "nothing0"), "{seen:?}");
            let seen = open(AfXdp::new("idle0", direction));
            assert!(matches!(&seen, PortError::Down { name } if name == "idle0"), "{seen:?}");
            let seen = open(AfXdp { frame_bytes: 1515, ..AfXdp::new("west", direction) });
            assert!(
                matches!(seen, PortError::FrameOverMtu { frame_bytes: 1515, most_bytes: 1514, .. }),
                "{seen:?}"
            );
            let seen = open(AfXdp { queues: 3..4, ..AfXdp::new("west", direction) });
            assert!(matches!(seen, PortError::NoQueue { queue: 3, .. }), "{seen:?}");
            let seen = open(AfXdp { send_frames: 100, ..AfXdp::new("west", direction) });
            assert!(matches!(seen, PortError::BadValue { seen: 100, .. }), "{seen:?}");
        }
        let seen = AfPacket { frame_bytes: 9000, ..AfPacket::new("west") }.open_tx().map(drop).unwrap_err();
        assert!(seen.to_string().contains("9000 B") && seen.to_string().contains("at most 1514 B"), "{seen}");
        assert!(matches!(AfPacket::new("idle0").open_rx(), Err(PortError::Down { .. })));
        assert_eq!(run("ip -d link"), before);
    });
}

/// Frames longer than a page need `AF_PACKET`; `AF_XDP` refuses such frames with this cause, and `AF_PACKET` carries
/// frames of 9212 B.
#[test]
fn jumbo_frames_use_af_packet() {
    let Some(lab) = Lab::new() else { return };
    run(&format!("ip -n {} link set west mtu 9216", lab.tx));
    run(&format!("ip -n {} link set east mtu 9216", lab.rx));
    inside(&lab.tx, || {
        let seen = AfXdp { frame_bytes: 9212, ..AfXdp::new("west", Direction::Send) }
            .open_tx()
            .map(drop)
            .unwrap_err();
        assert!(
            matches!(seen, PortError::FrameOverPath { most_bytes: 4096, .. }) && seen.may_fall_back(),
            "{seen:?}"
        );
    });
    let port = AfPacket { frame_bytes: 9212, ..AfPacket::new("west") };
    let mut rx =
        inside(&lab.rx, || AfPacket { frame_bytes: 9212, ..AfPacket::new("east") }.open_rx().unwrap());
    let mut tx = inside(&lab.tx, || port.open_tx().unwrap());
    send(&mut tx, 0..20, |_| 9212);
    let seen = collect(&mut rx, 20);
    assert_eq!(seen.len(), 20);
    assert!((0u64..).zip(&seen).all(|(number, (bytes, _))| *bytes == frame(number, 9212)));
}

/// An XDP program that is already attached stays, unless it may be replaced; then it is restored when the port closes.
#[test]
fn xdp_programs_of_other_owners_are_kept() {
    let Some(lab) = Lab::new() else { return };
    inside(&lab.rx, || {
        let first = AfXdp::new("east", Direction::Receive).open_rx().unwrap();
        let theirs = Interface::find("east").unwrap().program.unwrap();
        for force in [false, true] {
            // This program is attached through a BPF link, which only its owner can remove; even force cannot replace
            // the program.
            let seen =
                AfXdp { force, ..AfXdp::new("east", Direction::Receive) }.open_rx().map(drop).unwrap_err();
            assert!(
                matches!(seen, PortError::ProgramPresent { program_id, .. } if program_id == theirs.program_id)
            );
        }
        assert_eq!(Interface::find("east").unwrap().program, Some(theirs));
        drop(first);
    });
}

/// A dropped or partly used reservation sends exactly the committed frames.
#[test]
fn dropped_reservations_send_no_frame() {
    let Some(lab) = Lab::new() else { return };
    let mut rx = inside(&lab.rx, || receiver("east", "native"));
    for mut tx in inside(&lab.tx, || senders("west")) {
        for (number, frames) in [(1, 0), (2, 3), (3, 0)] {
            let mut batch = iolab_port::reserve(&mut *tx, 8);
            assert_eq!(batch.granted(), 8);
            for index in 0..8 {
                batch.frame(index, 60).copy_from_slice(&frame(number, 60));
            }
            if frames > 0 {
                batch.commit(frames);
            }
        }
        tx.flush().unwrap();
        let numbers: Vec<_> = collect(&mut *rx, 4).iter().map(|(bytes, _)| bytes[21]).collect();
        assert_eq!(numbers, [2, 2, 2], "{}", tx.path());
        assert_eq!(tx.stats().unwrap().committed_frames, 3);
    }
    assert!(receive(&mut *rx, 8).unwrap().is_empty());
}

/// Without root, in a user namespace: frames are sent by every path and received by `AF_PACKET`; receiving by `AF_XDP`
/// is refused with the missing permission, so that a caller can fall back.
#[test]
fn ports_work_without_root() {
    let this = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--net"])
        .arg(this)
        .args(["--exact", "ports_work_inside_a_user_namespace"]);
    let done = command.args(["--ignored", "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    if said.starts_with("unshare:") {
        return skipped(&said);
    }
    let said = format!("{}{said}", String::from_utf8_lossy(&done.stdout));
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

/// The part of `ports_work_without_root` that runs in its namespace.
#[test]
#[ignore = "run by ports_work_without_root"]
fn ports_work_inside_a_user_namespace() {
    run("ip link add west type veth peer name east");
    for command in ["ip link set west up", "ip link set east up"] {
        run(command);
    }
    for name in ["all", "default", "west", "east"] {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").unwrap();
    }
    let seen = AfXdp::new("east", Direction::Receive).open_rx().map(drop).unwrap_err();
    assert!(matches!(seen, PortError::NotPermitted { .. }) && seen.may_fall_back(), "{seen:?}");
    for mut tx in senders("west") {
        exchange(&mut *tx, &mut *receiver("east", "packet"));
    }
}
