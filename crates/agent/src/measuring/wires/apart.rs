//! A dedicated CPU for the time-keeping thread of an emulated link, while other CPUs process the forwarded
//! frames through receive packet steering (RPS, Documentation/networking/scaling.rst). Without RPS, the stack
//! of the far end and its responses would run on the thread's CPU between two frames.

use std::fs::{File, OpenOptions};
use std::io::Write;

use iolab_protocol::wire::{WireEnd, WireStart};
use iolab_traffic::{Steered, Steering};
use nix::sched::{sched_getaffinity, CpuSet};
use nix::unistd::Pid;

use crate::kernel::faults::{refused, Answer};
use crate::kernel::netns;

/// Placement of a thread.
pub struct Seat {
    /// CPU of the thread.
    pub cpu: usize,
    /// RPS settings that the thread changes itself; `None` if they are already set.
    pub steering: Option<Steering>,
}

/// Choose the CPU for the thread of the `number`th emulated link, counted from 1, and steer the frames of both ends to
/// other CPUs. A thread without a priority enables and disables the steering itself at run time. An error contains the
/// reason why the thread has no dedicated CPU.
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

/// Split the CPUs: the lower half processes frames, the upper half runs time-keeping threads; `None` with a
/// single CPU.
fn halves(cpus: &[usize]) -> Option<(&[usize], &[usize])> {
    (cpus.len() > 1).then(|| cpus.split_at(cpus.len().div_ceil(2)))
}

/// Format a CPU mask for sysfs: 32-bit words in hexadecimal, highest first.
fn mask(cpus: impl Iterator<Item = usize>) -> String {
    let mut words = Vec::new();
    for cpu in cpus {
        words.resize(words.len().max(cpu / 32 + 1), 0u32);
        words[cpu / 32] |= 1 << (cpu % 32);
    }
    let shown: Vec<_> = words.iter().rev().map(|word| format!("{word:08x}")).collect();
    shown.join(",")
}

/// Set the RPS flow count of a link's end, so that watches detect possible steering before the steering starts. The
/// kernel uses the setting only with a global flow table.
fn announce(end: &WireEnd) -> Answer<()> {
    netns::within_with_sys(end.netns.as_deref(), || {
        let path = format!("/sys/class/net/{}/queues/rx-0/rps_flow_cnt", end.interface);
        std::fs::write(&path, "1").map_err(|error| refused("showing who takes frames in by", &path, &error))
    })
}

/// Open the RPS mask of a link's end; the setting is removed with the interface.
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
    fn delay_threads_get_the_higher_half_of_the_cpus() {
        assert_eq!(halves(&[5]), None);
        assert_eq!(halves(&[0, 1]), Some(([0].as_slice(), [1].as_slice())));
        assert_eq!(halves(&[0, 2, 5]), Some(([0, 2].as_slice(), [5].as_slice())));
    }

    #[test]
    fn cpu_mask_is_written_in_32_bit_words() {
        let shown = [vec![], vec![0], vec![0, 1, 31], vec![2, 33]].map(|cpus| mask(cpus.into_iter()));
        assert_eq!(shown, ["", "00000001", "80000003", "00000002,00000004"]);
    }
}
