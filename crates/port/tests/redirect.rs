//! Tests of a redirection of a port's frames through two taps and back, between two namespaces; they need root.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

#[allow(dead_code)] // this test uses only a part of the module
mod lab;

use std::os::fd::OwnedFd;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use iolab_port::{Given, Interface, Mechanism, Network, PortError, PortRedirect, Selection, TapPort};
use iolab_sys::bpf::{Assembler, Link, Place, Program};
use iolab_sys::tap::Unfinished;
use iolab_sys::{clock, socket};
use lab::{inside, run, Lab};

const TAPS: [&str; 2] = ["out", "in"];

/// Return namespaces whose ports have addresses inside and outside the selected networks, of both IP versions.
fn lab() -> Option<Lab> {
    let lab = Lab::new()?;
    for (namespace, port, host) in [(&lab.tx, "west", 1), (&lab.rx, "east", 2)] {
        run(&format!("ip netns exec {namespace} sysctl -qw net.ipv6.conf.{port}.disable_ipv6=0"));
        for network in ["198.18.0.HOST/24", "198.18.9.HOST/24", "fd00:18::HOST/64", "fd00:19::HOST/64"] {
            let address = network.replace("HOST", &host.to_string());
            let nodad = if address.contains(':') { "nodad" } else { "" };
            run(&format!("ip -n {namespace} addr add {address} dev {port} {nodad}"));
        }
    }
    Some(lab)
}

/// Create the taps. Taps of these names may still exist for a moment: a program that another test starts briefly holds
/// copies of all descriptors.
fn open_taps() -> [TapPort; 2] {
    TAPS.map(|name| {
        let mut tries = (0..100).map(|_| TapPort::open(name, Unfinished::SuperFrames));
        let opened = tries.find(|opened| {
            let is_open = opened.is_ok();
            thread::sleep(Duration::from_millis(if is_open { 0 } else { 10 }));
            is_open
        });
        opened.unwrap().unwrap()
    })
}

fn selection(vlan: u16) -> Selection {
    let network = |text: &str, prefix_bits| Network { address: text.parse().unwrap(), prefix_bits };
    Selection { vlan, networks: vec![network("198.18.0.0", 24), network("fd00:18::", 64)] }
}

/// Run `work` while a thread returns the frames of both taps, in the port's namespace; return the number of frames of
/// each tap.
fn redirected(
    lab: &Lab,
    vlan: u16,
    mechanism: Option<Mechanism>,
    beats: bool,
    work: impl FnOnce(&PortRedirect) + Send,
) -> [u64; 2] {
    let begun = AtomicBool::new(false);
    let (stop, frames) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
    inside(&lab.tx, || {
        let mut taps = open_taps();
        let mut redirect = PortRedirect::prepare("west", TAPS, &selection(vlan), mechanism).unwrap();
        redirect.attach().unwrap();
        thread::scope(|scope| {
            let (redirect, stop, frames, begun) = (&redirect, &stop, &frames, &begun);
            scope.spawn(move || {
                let mut room = vec![0; 70_000];
                while !stop.load(Ordering::Relaxed) {
                    if beats {
                        redirect.beat(clock::now_ns());
                    }
                    begun.store(true, Ordering::Relaxed);
                    for (tap, count) in taps.iter_mut().zip(frames) {
                        while let Some(frame) = tap.read(&mut room).unwrap() {
                            assert_eq!(tap.write(&[], &room[..frame.length]).unwrap(), Given::Taken);
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    thread::sleep(Duration::from_micros(100));
                }
            });
            while !begun.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
            let done = catch_unwind(AssertUnwindSafe(|| work(redirect)));
            stop.store(true, Ordering::Relaxed);
            done.unwrap_or_else(|panic| resume_unwind(panic));
        });
    });
    frames.map(AtomicU64::into_inner)
}

fn ping(lab: &Lab, address: &str) {
    run(&format!("ip netns exec {} ping -qc3 -i0.01 -W1 {address}", lab.tx));
}

/// Run a check with TCX links, if the kernel supports them, and with clsact filters.
fn by_each_mechanism(check: impl Fn(&Lab, Option<Mechanism>)) {
    for mechanism in [None, Some(Mechanism::Clsact)] {
        let Some(lab) = lab() else { return };
        check(&lab, mechanism);
    }
}

#[test]
fn selected_packets_pass_the_taps_once_in_each_direction() {
    by_each_mechanism(|lab, mechanism| {
        for address in ["198.18.0.2", "fd00:18::2"] {
            assert_eq!(redirected(lab, 0, mechanism, true, |_| ping(lab, address)), [3, 3], "{address}");
        }
        assert_eq!(run(&format!("tc -n {} filter show dev west egress", lab.tx)), "", "nothing remains");
        assert!(!run(&format!("tc -n {} qdisc show dev west", lab.tx)).contains("clsact"));
    });
}

/// Return a frame in VLAN 7 between the selected addresses, with the tag in the frame.
fn tagged() -> [u8; 60] {
    let mut frame = [0u8; 60];
    frame[..12].fill(0xff); // broadcast: no address has to match
    frame[12..18].copy_from_slice(&[0x81, 0, 0x60, 7, 8, 0]); // priority 3, VLAN 7
    frame[18..38].copy_from_slice(&[69, 0, 0, 42, 0, 0, 0, 0, 64, 1, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
    frame
}

/// Return a socket that sends frames from a port of the calling thread's namespace.
fn sender(port: &str) -> OwnedFd {
    let socket = socket::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).unwrap();
    let protocol = u16::try_from(libc::ETH_P_ALL).unwrap().to_be();
    let index = i32::try_from(Interface::find(port).unwrap().index).unwrap();
    let family = u16::try_from(libc::AF_PACKET).unwrap();
    let address = libc::sockaddr_ll {
        sll_family: family,
        sll_protocol: protocol,
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    socket::bind(&socket, &address).unwrap();
    socket
}

#[test]
fn tagged_packets_pass_the_taps_in_both_directions() {
    by_each_mechanism(|lab, mechanism| {
        let senders = [inside(&lab.tx, || sender("west")), inside(&lab.rx, || sender("east"))];
        for (vlan, frames) in [(7, [1, 1]), (8, [0, 0]), (0, [0, 0])] {
            let found = redirected(lab, vlan, mechanism, true, |_| {
                senders.iter().for_each(|sender| socket::send(sender, &tagged()).unwrap());
                thread::sleep(Duration::from_millis(200)); // on a busy host, the reader runs late
            });
            assert_eq!(found, frames, "VLAN {vlan}");
        }
    });
}

#[test]
fn other_packets_and_those_of_a_different_vlan_do_not_pass_the_taps() {
    by_each_mechanism(|lab, mechanism| {
        for address in ["198.18.9.2", "fd00:19::2"] {
            assert_eq!(redirected(lab, 0, mechanism, true, |_| ping(lab, address)), [0, 0], "{address}");
        }
        assert_eq!(redirected(lab, 7, mechanism, true, |_| ping(lab, "198.18.0.2")), [0, 0]);
    });
}

#[test]
fn packets_pass_untouched_and_are_counted_without_a_heartbeat() {
    by_each_mechanism(|lab, mechanism| {
        let mut passed = [0, 0];
        let count = |redirect: &PortRedirect| {
            ping(lab, "198.18.0.2");
            passed = redirect.passed_packets();
        };
        assert_eq!(redirected(lab, 0, mechanism, false, count), [0, 0]);
        assert_eq!(passed, [3, 3]);
    });
}

#[test]
fn networks_of_one_ip_version_make_a_valid_program() {
    let Some(lab) = lab() else { return };
    inside(&lab.tx, || {
        let _taps = open_taps();
        for network in ["198.18.0.0/24", "fd00:18::/64"] {
            let selection = Selection { vlan: 0, networks: vec![network.parse().unwrap()] };
            PortRedirect::prepare("west", TAPS, &selection, None).unwrap();
        }
    });
}

#[test]
fn tap_that_is_down_or_elsewhere_is_detected() {
    let Some(lab) = lab() else { return };
    redirected(&lab, 0, None, true, |redirect| {
        assert!(redirect.is_intact());
        run(&format!("ip -n {} link set out down", lab.tx));
        assert!(!redirect.is_intact());
        run(&format!("ip -n {} link set out up", lab.tx));
        assert!(redirect.is_intact());
        run(&format!("ip -n {} link set in netns {}", lab.tx, lab.rx));
        assert!(!redirect.is_intact());
    });
}

#[test]
fn programs_and_filters_of_others_are_refused_by_name() {
    let Some(lab) = lab() else { return };
    let refused = || {
        inside(&lab.tx, || {
            let _taps = open_taps();
            let error = PortRedirect::prepare("west", TAPS, &selection(0), None).unwrap_err();
            assert!(matches!(error, PortError::Conflict { .. }), "{error}");
            error.to_string()
        })
    };
    let link = inside(&lab.tx, || {
        let mut code = Assembler::default();
        code.exit_with(-1);
        let program = Program::load_classifier("of_others", &code.finish()).unwrap();
        let index = Interface::find("west").unwrap().index;
        Link::new(&program, index, Place::StackOut, 0).ok()
    });
    if link.is_some() {
        assert!(refused().contains("(of_others) at tcx egress"), "{}", refused());
    }
    drop(link);
    let tc = |words: &str| Command::new("tc").args(["-n", &lab.tx]).args(words.split(' ')).status().unwrap();
    if tc("qdisc add dev west clsact").success()
        && tc("filter add dev west ingress matchall action drop").success()
    {
        assert!(refused().contains("(matchall) at ingress"), "{}", refused());
    }
}
