//! Counters of the receive path of each CPU, from `/proc/net/softnet_stat`. The counters cover the whole
//! host.

use iolab_protocol::observations::SoftnetCounts;

use crate::{read_text, SampleError};

/// Read the receive path counters of all online CPUs.
///
/// # Errors
/// Returns an error if the file cannot be read or parsed.
pub fn read() -> Result<Vec<SoftnetCounts>, SampleError> {
    parse(&read_text("/proc/thread-self/net/softnet_stat")?)
}

/// Parse the counters in the text of `softnet_stat`: hexadecimal columns without names, see
/// `softnet_seq_show` in the kernel.
///
/// # Errors
/// Returns an error if a line contains anything but hexadecimal numbers.
pub fn parse(text: &str) -> Result<Vec<SoftnetCounts>, SampleError> {
    (0..).zip(text.lines()).map(|(row, line)| parse_line(row, line)).collect()
}

fn parse_line(row: u32, line: &str) -> Result<SoftnetCounts, SampleError> {
    let wrong = || SampleError::format("softnet_stat", "at least three hexadecimal numbers", line);
    let columns =
        line.split_ascii_whitespace().map(|word| u32::from_str_radix(word, 16).map_err(|_| wrong()));
    let columns = columns.collect::<Result<Vec<u32>, _>>()?;
    let [processed, dropped, time_squeeze, ..] = columns[..] else { return Err(wrong()) };
    Ok(SoftnetCounts {
        cpu: columns.get(CPU_COLUMN).copied().unwrap_or(row),
        processed: processed.into(),
        dropped: dropped.into(),
        time_squeeze: time_squeeze.into(),
        backlog: columns.get(BACKLOG_COLUMN).copied().unwrap_or(0).into(),
    })
}

/// Column of the CPU number, since Linux 5.10. In older kernels the row number is used, which is wrong after
/// an offline CPU.
const CPU_COLUMN: usize = 12;
const BACKLOG_COLUMN: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "\
00028a45 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000002 00000000 00000000 00000000
000290d6 00000003 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000004 00000000 00000000
";

    #[test]
    fn each_cpu_has_its_softnet_counters() {
        let cpus = parse(RECORDED).unwrap();
        let first = SoftnetCounts { cpu: 0, processed: 166_469, dropped: 0, time_squeeze: 0, backlog: 2 };
        let second = SoftnetCounts { cpu: 4, processed: 168_150, dropped: 3, time_squeeze: 1, backlog: 0 };
        assert_eq!(cpus, [first, second]);
    }

    #[test]
    fn softnet_rows_of_an_old_kernel_without_a_cpu_column_are_numbered() {
        let cpus = parse("01 02 03\n04 05 06\n").unwrap();
        assert_eq!(cpus[1], SoftnetCounts { cpu: 1, processed: 4, dropped: 5, time_squeeze: 6, backlog: 0 });
    }

    #[test]
    fn malformed_softnet_line_is_refused() {
        assert!(parse("01 zz 03\n").is_err());
        assert!(parse("01\n").is_err());
    }

    #[test]
    fn softnet_counters_of_the_running_kernel_are_parsed() {
        assert!(!read().unwrap().is_empty());
    }
}
