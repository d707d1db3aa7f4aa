//! A CPU for the thread of a wire that keeps times, while other CPUs handle the frames that it gives: the stack of the far end,
//! with all that its answers set off, would run on the thread's own CPU between two frames (Documentation/networking/scaling.rst,
//! receive packet steering).

use std::fs::{File, OpenOptions};
use std::io::Write;

use iolab_protocol::wire::{WireEnd, WireStart};
use iolab_traffic::{Steered, Steering};
use nix::sched::{sched_getaffinity, CpuSet};
use nix::unistd::Pid;

use crate::kernel::faults::{refused, Answer};
use crate::kernel::netns;

/// Where a thread sits.
pub struct Seat {
    /// Its CPU.
    pub cpu: usize,
    /// What it does itself about the CPUs that take frames in; absent: others do.
    pub steering: Option<Steering>,
}

/// The thread's CPU, as the `number`th wire, from 1 on. Other CPUs take in the frames that both ends are given from now on; a
/// thread without a priority chooses itself when they do. An error says why that cannot be.
pub fn seat(params: &WireStart, number: usize) -> Result<Seat, String> {
    let allowed =
        sched_getaffinity(Pid::from_raw(0)).map_err(|errno| format!("asking for its CPUs: {errno}"))?;
    let cpus: Vec<usize> = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu) == Ok(true)).collect();
    let (others, seats) = halves(&cpus).ok_or("it has one CPU, which others need, too")?;
    let cpu = params.cpu.unwrap_or_else(|| seats[number.saturating_sub(1) % seats.len()]);
    let mask = mask(others.iter().copied().filter(|&other| other != cpu));
    let [first, second] = params.ends.each_ref().map(|end| cpus_of(end).map_err(|error| error.message));
    let files = [first?, second?];
    if params.priority.is_none() {
        params.ends.iter().try_for_each(announce).map_err(|error| error.message)?;
        let ends = files.map(|file| Steered::new(file, mask.clone()));
        return Ok(Seat { cpu, steering: Some(Steering::new(ends)) });
    }
    for mut file in files {
        file.write_all(mask.as_bytes())
            .map_err(|error| format!("setting the CPUs that take frames in: {error}"))?;
    }
    Ok(Seat { cpu, steering: None })
}

/// The lower CPUs handle frames, the higher ones have threads that keep times; none where there is one only.
fn halves(cpus: &[usize]) -> Option<(&[usize], &[usize])> {
    (cpus.len() > 1).then(|| cpus.split_at(cpus.len().div_ceil(2)))
}

/// CPUs as sysfs takes them: words of 32 in hexadecimal, the highest first.
fn mask(cpus: impl Iterator<Item = usize>) -> String {
    let mut words = Vec::new();
    for cpu in cpus {
        words.resize(words.len().max(cpu / 32 + 1), 0u32);
        words[cpu / 32] |= 1 << (cpu % 32);
    }
    let shown: Vec<_> = words.iter().rev().map(|word| format!("{word:08x}")).collect();
    shown.join(",")
}

/// Show those who watch an end that other CPUs may take in what it is given, before any does: by a table of flows, which the
/// kernel looks at only where it also has one for all interfaces.
fn announce(end: &WireEnd) -> Answer<()> {
    netns::within_with_sys(end.netns.as_deref(), || {
        let path = format!("/sys/class/net/{}/queues/rx-0/rps_flow_cnt", end.interface);
        std::fs::write(&path, "1").map_err(|error| refused("showing who takes frames in by", &path, &error))
    })
}

/// Where the CPUs are set that take in what an end is given; the setting goes with the interface.
fn cpus_of(end: &WireEnd) -> Answer<File> {
    netns::within_with_sys(end.netns.as_deref(), || {
        let path = format!("/sys/class/net/{}/queues/rx-0/rps_cpus", end.interface);
        let file = OpenOptions::new().write(true).open(&path);
        file.map_err(|error| refused("setting the CPUs that take frames in by", &path, &error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_keep_times_have_the_higher_cpus() {
        assert_eq!(halves(&[5]), None);
        assert_eq!(halves(&[0, 1]), Some(([0].as_slice(), [1].as_slice())));
        assert_eq!(halves(&[0, 2, 5]), Some(([0, 2].as_slice(), [5].as_slice())));
    }

    #[test]
    fn cpus_are_words_of_32() {
        let shown = [vec![], vec![0], vec![0, 1, 31], vec![2, 33]].map(|cpus| mask(cpus.into_iter()));
        assert_eq!(shown, ["", "00000001", "80000003", "00000002,00000004"]);
    }
}
