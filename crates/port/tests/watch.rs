//! Tests of a program that counts the frames on an interface between two namespaces; they need root.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

#[allow(dead_code)] // this test uses only a part of the module
mod lab;

use std::time::{Duration, Instant};

use iolab_port::{reserve, AfPacket, Hook, Interface, KernelWatch, Mechanism, RxPort, TxPort, Way};
use lab::{inside, Lab};

/// Return a UDP frame over IPv4 from the given source port.
fn datagram(port: u16, bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend(((bytes - 14) as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
    frame.extend(port.to_be_bytes());
    frame.extend([0x14, 0x51]);
    frame.resize(bytes, 0);
    frame
}

fn send(frames: &[Vec<u8>]) {
    send_with_gaps(frames, Duration::ZERO);
}

fn send_with_gaps(frames: &[Vec<u8>], gap: Duration) {
    let mut port = AfPacket::new("west").open_tx().unwrap();
    for frame in frames {
        let begin = Instant::now();
        while begin.elapsed() < gap {} // sleeping would make it much longer
        while reserve(&mut port, 1).granted() == 0 {}
        let mut batch = reserve(&mut port, 1);
        batch.frame(0, frame.len()).copy_from_slice(frame);
        batch.commit(1);
        port.flush().unwrap();
    }
}

/// Return the frames and bytes of all bins, and the flow, frames and bytes of each bin of a flow.
type Totals = ((u64, u64), Vec<(usize, u64, u64)>);

fn totals(watch: &mut KernelWatch) -> Totals {
    let until_us = iolab_sys::clock::now_ns() / 1_000 + 1;
    let (mut all, mut flows) = ((0, 0), Vec::new());
    watch.read(
        until_us,
        |_, frames, bytes| all = (all.0 + u64::from(frames), all.1 + bytes),
        |flow, _, frames, bytes| flows.push((flow, u64::from(frames), bytes)),
    );
    (all, flows)
}

#[test]
fn every_frame_is_in_a_bin_of_its_flow_even_if_it_bypasses_the_qdisc() {
    let Some(lab) = Lab::new() else { return };
    inside(&lab.rx, || {
        let mut watch = KernelWatch::open("east", Hook::Ingress, Some((2, 12))).unwrap();
        let before = Interface::find("east").unwrap().counters;
        let frames: Vec<_> =
            (0..300).map(|number| datagram(1000 + number % 3, 100 + number as usize)).collect();
        inside(&lab.tx, || send(&frames));
        std::thread::sleep(Duration::from_millis(20)); // frames in transit arrive
        watch.detach();
        let after = Interface::find("east").unwrap().counters;
        let bytes: u64 = frames.iter().map(|frame| frame.len() as u64).sum();
        let ((seen_frames, seen_bytes), flows) = totals(&mut watch);
        assert_eq!((seen_frames, seen_bytes), (300, bytes));
        assert_eq!((after.rx_frames - before.rx_frames, after.rx_bytes - before.rx_bytes), (300, bytes));
        assert_eq!(watch.beyond(), iolab_port::Beyond::default());
        let of = |number| flows.iter().filter(|flow| flow.0 == number).map(|flow| flow.1).sum::<u64>();
        assert_eq!((of(0), of(1), of(15)), (100, 100, 100), "two flows, and the rest");
        let keys = watch.flows();
        assert_eq!(
            (keys.len(), keys[0].source_port, keys[1].source_port, keys[0].protocol),
            (2, 1000, 1001, 17)
        );
        assert_eq!(keys[0].destination.to_string(), "198.18.0.2");
    });
}

/// `AF_PACKET` gives the timestamps of the kernel: the watch counts each frame in the microsecond of its timestamp,
/// although another CPU reads the frames much later.
#[test]
fn steered_frames_are_in_the_bins_of_their_arrival_time() {
    const FRAMES: u16 = 200;
    const MOST_APART_US: u64 = 1;
    let Some(lab) = Lab::new() else { return };
    inside(&lab.rx, || {
        let cpus = std::thread::available_parallelism().unwrap().get();
        std::fs::write("/sys/class/net/east/queues/rx-0/rps_cpus", format!("{:x}", (1u64 << cpus) - 1))
            .unwrap();
        let mut watch = KernelWatch::open("east", Hook::Ingress, None).unwrap();
        let mut stamps = AfPacket::look("east", Way::In, 64).unwrap();
        std::thread::sleep(Duration::from_millis(50)); // the kernel begins to stamp
        let frames: Vec<_> = (0..FRAMES).map(|port| datagram(port, 100)).collect();
        inside(&lab.tx, || send_with_gaps(&frames, Duration::from_micros(50)));
        std::thread::sleep(Duration::from_millis(50)); // frames in transit arrive
        let mut bins = Vec::new();
        watch.read(
            iolab_sys::clock::now_ns() / 1_000,
            |us, frames, _| bins.extend((0..frames).map(|_| us)),
            |_, _, _, _| {},
        );
        let mut stamped = Vec::new();
        while let count @ 1.. = stamps.poll(64).unwrap() {
            stamped.extend((0..count).map(|index| stamps.seen(index).stamp_ns / 1_000));
        }
        stamped.sort_unstable(); // by several CPUs
        assert_eq!((bins.len(), stamped.len()), (usize::from(FRAMES), usize::from(FRAMES)));
        assert_eq!(watch.beyond().unstamped_frames, Some(0));
        let apart = bins.iter().zip(&stamped).map(|(bin, stamp)| bin.abs_diff(*stamp)).max();
        assert!(apart <= Some(MOST_APART_US), "{apart:?} us");
    });
}

/// The programs that the watch attached are removed with it, and another watch can be opened.
#[test]
fn closed_watch_leaves_no_program_in_the_kernel() {
    let Some(lab) = Lab::new() else { return };
    inside(&lab.rx, || {
        let programs = || lab::run("tc filter show dev east ingress");
        for _ in 0..3 {
            let watch = KernelWatch::open("east", Hook::Egress, None).unwrap();
            assert!(matches!(watch.mechanism(), Mechanism::Tcx | Mechanism::Clsact));
            let _idle = KernelWatch::idle("east", Hook::Egress).unwrap();
        }
        assert_eq!(programs(), "");
    });
}

#[test]
fn frames_lost_by_a_slow_watch_reader_are_counted() {
    let Some(lab) = Lab::new() else { return };
    inside(&lab.rx, || {
        let mut watch = KernelWatch::open("east", Hook::Ingress, None).unwrap();
        std::thread::sleep(Duration::from_millis(600)); // longer than the ring
        inside(&lab.tx, || send(&[datagram(1, 60)]));
        std::thread::sleep(Duration::from_millis(20)); // frames in transit arrive
        assert_eq!(totals(&mut watch).0, (0, 0));
        assert_eq!((watch.beyond().lost_frames, watch.beyond().lost_bytes), (1, 60));
    });
}

/// `AF_PACKET` sees the same frames, and none of the other direction.
#[test]
fn packets_of_one_direction_are_observed_without_being_consumed() {
    let Some(lab) = Lab::new() else { return };
    inside(&lab.rx, || {
        let mut coming = AfPacket::look("east", Way::In, 64).unwrap();
        let mut leaving = AfPacket::look("east", Way::Out, 64).unwrap();
        let frames: Vec<_> = (0..300).map(|number| datagram(1000, 100 + number)).collect();
        inside(&lab.tx, || send(&frames));
        std::thread::sleep(Duration::from_millis(50)); // frames in transit arrive
        let mut seen = Vec::new();
        loop {
            let count = coming.poll(64).unwrap();
            if count == 0 {
                break;
            }
            for index in 0..count {
                let packet = coming.seen(index);
                assert_eq!((packet.bytes.len(), packet.segment_bytes), (64, 0));
                assert_eq!(packet.bytes, &frames[seen.len()][..64]);
                seen.push(packet.whole_bytes);
            }
        }
        assert_eq!(seen, (100..400).collect::<Vec<_>>());
        assert_eq!(leaving.poll(64).unwrap(), 0);
    });
}
