//! CPU time of each CPU by class, including steal, from `/proc/stat`. The controller computes the shares.

use iolab_protocol::observations::CpuTimes;

use crate::kernel_file::KernelFile;
use crate::SampleError;

/// Length of one tick of the times in `/proc`, in ns. `USER_HZ` is 100 on all Linux architectures that iolab
/// supports.
pub const TICK_NS: u64 = 10_000_000;

/// Return the file `/proc/stat`, not yet open.
pub fn file() -> KernelFile {
    KernelFile::of_one_record("/proc/stat")
}

/// Read the times of all online CPUs.
///
/// # Errors
/// Returns an error if `/proc/stat` cannot be read or parsed.
pub fn read(file: &mut KernelFile) -> Result<Vec<CpuTimes>, SampleError> {
    parse(&file.read()?)
}

/// Parse the CPU times in the text of `/proc/stat`.
///
/// # Errors
/// Returns an error if the line of a CPU contains anything but numbers.
pub fn parse(text: &str) -> Result<Vec<CpuTimes>, SampleError> {
    let lines = text.lines().take_while(|line| line.starts_with("cpu"));
    lines.filter(|line| !line.starts_with("cpu ")).map(parse_line).collect()
}

fn parse_line(line: &str) -> Result<CpuTimes, SampleError> {
    let wrong = || SampleError::format("/proc/stat", "cpuN and its times", line);
    let mut words = line["cpu".len()..].split_ascii_whitespace();
    let cpu = words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
    let mut times_ns = [0; 10];
    for (time_ns, word) in times_ns.iter_mut().zip(words) {
        *time_ns = word.parse::<u64>().map_err(|_| wrong())?.saturating_mul(TICK_NS);
    }
    let [user_ns, nice_ns, system_ns, idle_ns, iowait_ns, irq_ns, softirq_ns, steal_ns, guest_ns, guest_nice_ns] =
        times_ns;
    Ok(CpuTimes {
        cpu,
        user_ns,
        nice_ns,
        system_ns,
        idle_ns,
        iowait_ns,
        irq_ns,
        softirq_ns,
        steal_ns,
        guest_ns,
        guest_nice_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "\
cpu  9164 0 4332 230393 1361 0 448 29 0 0
cpu0 2026 0 1314 119267 122 0 161 5 0 0
cpu3 7138 1 3017 111126 1238 2 287 23 4 5
intr 1297870 0 9
ctxt 2340000
";

    #[test]
    fn each_online_cpu_has_its_times_in_ns() {
        let cpus = parse(RECORDED).unwrap();
        assert_eq!(cpus.iter().map(|times| times.cpu).collect::<Vec<_>>(), [0, 3]);
        let last = CpuTimes {
            cpu: 3,
            user_ns: 71_380_000_000,
            nice_ns: 10_000_000,
            system_ns: 30_170_000_000,
            idle_ns: 1_111_260_000_000,
            iowait_ns: 12_380_000_000,
            irq_ns: 20_000_000,
            softirq_ns: 2_870_000_000,
            steal_ns: 230_000_000,
            guest_ns: 40_000_000,
            guest_nice_ns: 50_000_000,
        };
        assert_eq!(cpus[1], last);
    }

    #[test]
    fn missing_guest_times_of_an_old_kernel_read_as_zero() {
        assert_eq!(parse("cpu0 1 2 3 4 5 6 7 8\n").unwrap()[0].guest_ns, 0);
    }

    #[test]
    fn malformed_cpu_line_is_named_in_the_error() {
        let error = parse("cpu0 1 x 3\n").unwrap_err().to_string();
        assert_eq!(error, "reading /proc/stat: expected cpuN and its times, saw \"cpu0 1 x 3\"");
    }

    #[test]
    fn cpu_times_of_the_running_kernel_are_parsed() {
        assert!(!read(&mut file()).unwrap().is_empty());
    }
}
