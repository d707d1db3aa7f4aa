//! Tests that devices made of XDP programs, on veth pairs between namespaces, pass exactly the frames that their rule
//! allows. The tests are skipped, with a message, without root.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::unwrap_used)] // small numbers of a check

mod lab;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use iolab_engine::impairment::{Chain, Impairment, Loss, Outcome, Passing};
use iolab_engine::Nanos;
use iolab_port::{AfXdp, Attach, Device, Direction, Interface, PortError, Rule, Then, TxPort};
use lab::{collect, frame, inside, run, send, Lab};

fn sender(lab: &Lab) -> Box<dyn TxPort> {
    inside(&lab.tx, || Box::new(AfXdp::new("west", Direction::Send).open_tx().unwrap()))
}

/// Return the numbers of the frames that a reflecting device returns.
fn returned(lab: &Lab, rule: Rule, frames: u64) -> (Vec<u64>, Device) {
    let device = inside(&lab.rx, || Device::attach("east", rule, Then::Reflect, Attach::Native).unwrap());
    let (mut tx, mut rx) = inside(&lab.tx, || AfXdp::new("west", Direction::Both).open_both().unwrap());
    let mut numbers = Vec::new();
    for first in (0..frames).step_by(50) {
        send(&mut tx, first..first + 50, |_| 64);
        let deadline = Instant::now() + Duration::from_secs(20);
        // The device has counted all frames that it will return.
        while device.stats().unwrap().passed_frames + device.stats().unwrap().dropped_frames < first + 50 {
            assert!(Instant::now() < deadline, "the device has not seen frame {first}");
        }
        let due = usize::try_from(device.stats().unwrap().passed_frames).unwrap() - numbers.len();
        for (bytes, _) in collect(&mut rx, due) {
            let number = u64::from_be_bytes(bytes[14..22].try_into().unwrap());
            let mut expected = frame(number, 64);
            expected[..12].rotate_left(6);
            assert_eq!(bytes, expected);
            numbers.push(number);
        }
    }
    (numbers, device)
}

/// A reflector returns every frame with swapped addresses and no other change.
#[test]
fn reflector_returns_every_frame() {
    let Some(lab) = Lab::new() else { return };
    let (numbers, device) = returned(&lab, Rule::All, 1000);
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    assert_eq!(device.mode(), ("native", None));
}

/// A device that loses every seventh frame loses frames 7, 14, 21, ... of those sent, and no other.
#[test]
fn every_nth_frame_is_lost() {
    let Some(lab) = Lab::new() else { return };
    let (numbers, device) = returned(&lab, Rule::LoseEvery { frames: 7 }, 1000);
    assert_eq!(numbers, (0..1000).filter(|number| (number + 1) % 7 != 0).collect::<Vec<_>>());
    assert_eq!((device.stats().unwrap().passed_frames, device.stats().unwrap().dropped_frames), (858, 142));
}

/// A random device loses exactly the frames that the same loss in user space loses.
#[test]
fn random_loss_in_bpf_equals_the_loss_in_user_space() {
    let Some(lab) = Lab::new() else { return };
    let (frames_per_billion, seed) = (100_000_000, 20_240_607);
    let (numbers, _) = returned(&lab, Rule::LoseRandomly { frames_per_billion, seed }, 2000);
    let mut chain =
        Chain::new([Box::new(Loss::random(frames_per_billion, seed).unwrap()) as Box<dyn Impairment>]);
    (0..2000).for_each(|id| chain.push(Passing::new(id, 64, Nanos(id))));
    let leaves = |outcome| if let Outcome::Leaves(frame) = outcome { Some(frame.id) } else { None };
    let expected: Vec<_> = chain.decided().filter_map(leaves).collect();
    assert_eq!(numbers, expected);
    assert!((150..250).contains(&(2000 - expected.len())));
}

/// A token bucket passes exactly the frames within its rate plus one burst.
#[test]
fn token_bucket_passes_its_rate() {
    let Some(lab) = Lab::new() else { return };
    let (rate_pps, burst_frames) = (20_000, 100);
    let mut tx = sender(&lab);
    let rule = Rule::TokenBucket { rate_pps, burst_frames };
    let device = inside(&lab.rx, || Device::attach("east", rule, Then::Drop, Attach::Native).unwrap());
    let (begun, mut sent, mut wasted_s) = (Instant::now(), 0, 0.0);
    // The time of the first frame is measured by the test: the bucket is full at that time.
    while begun.elapsed() < Duration::from_millis(300) {
        let before = Instant::now();
        send(&mut *tx, sent..sent + 64, |_| 60);
        sent += 64;
        // A full bucket lasts for 5 ms; frames that arrive while the sender is stopped for longer are lost.
        wasted_s += (before.elapsed().as_secs_f64() - 0.005).max(0.0);
    }
    let elapsed_s = begun.elapsed().as_secs_f64();
    let stats = device.stats().unwrap();
    assert_eq!(stats.passed_frames + stats.dropped_frames, sent);
    let most = f64::from(rate_pps) * elapsed_s + f64::from(burst_frames);
    let passed = stats.passed_frames as f64;
    assert!(passed <= most, "{passed} of at most {most}");
    let least = 0.8 * (most - f64::from(rate_pps) * wasted_s);
    assert!(passed > least, "{passed} of {least} to {most}");
}

/// A forwarder sends frames to another interface, with new addresses if requested.
#[test]
fn forwarder_sends_frames_to_the_other_interface() {
    let Some(lab) = Lab::new() else { return };
    let rx = &lab.rx;
    run(&format!("ip -n {rx} link add out0 type veth peer name out1"));
    run(&format!("ip -n {rx} link set out0 up"));
    run(&format!("ip -n {rx} link set out1 up"));
    let (mut port, index) = inside(rx, || {
        (AfXdp::new("out1", Direction::Receive).open_rx().unwrap(), Interface::find("out0").unwrap().index)
    });
    for addresses in [None, Some(([2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 1, 2]))] {
        let then = Then::Redirect { index, addresses };
        let device = inside(rx, || Device::attach("east", Rule::All, then, Attach::Native).unwrap());
        let mut tx = sender(&lab);
        let mut seen = Vec::new();
        for first in (0..500).step_by(50) {
            send(&mut *tx, first..first + 50, |_| 128);
            seen.extend(collect(&mut port, 50));
        }
        assert_eq!((seen.len(), device.stats().unwrap().passed_frames), (500, 500));
        for (number, (bytes, _)) in (0u64..).zip(seen) {
            let mut expected = frame(number, 128);
            if let Some((source, destination)) = addresses {
                expected[..6].copy_from_slice(&destination);
                expected[6..12].copy_from_slice(&source);
            }
            assert_eq!(bytes, expected);
        }
    }
}

/// Every combination of rule and action passes the verifier; impossible values are refused before anything is created.
#[test]
fn every_rule_and_action_passes_the_verifier() {
    let Some(lab) = Lab::new() else { return };
    let rules = [
        Rule::All,
        Rule::TokenBucket { rate_pps: 100_000_000, burst_frames: 1_000_000 },
        Rule::LoseEvery { frames: 1 },
        Rule::LoseRandomly { frames_per_billion: 1, seed: 1 },
    ];
    let addresses = Some(([2; 6], [4; 6]));
    let redirects = [Then::Redirect { index: 1, addresses: None }, Then::Redirect { index: 1, addresses }];
    let mut lengths = HashSet::new();
    inside(&lab.rx, || {
        for rule in rules {
            for then in [Then::Drop, Then::Pass, Then::Reflect, redirects[0], redirects[1]] {
                for attach in [Attach::Native, Attach::Generic] {
                    let device = Device::attach("east", rule, then, attach).unwrap();
                    assert!(device.instructions() <= 60);
                    lengths.insert(device.instructions());
                }
            }
        }
        let refused = |rule| Device::attach("east", rule, Then::Drop, Attach::Native).map(drop).unwrap_err();
        for rule in [
            Rule::TokenBucket { rate_pps: 0, burst_frames: 1 },
            Rule::TokenBucket { rate_pps: 1, burst_frames: 0 },
            Rule::LoseEvery { frames: 0 },
            Rule::LoseRandomly { frames_per_billion: 1_000_000_001, seed: 1 },
        ] {
            assert!(matches!(refused(rule), PortError::BadValue { seen: 0 | 1_000_000_001, .. }), "{rule:?}");
        }
        let missing =
            Device::attach("nothing0", Rule::All, Then::Drop, Attach::Native).map(drop).unwrap_err();
        assert!(matches!(missing, PortError::NoInterface { .. }));
        assert_eq!(Interface::find("east").unwrap().program, None);
    });
    assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&7), Some(&53)));
}
