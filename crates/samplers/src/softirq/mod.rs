//! Number of runs of each softirq kind on each CPU, from `/proc/softirqs`.

use iolab_protocol::observations::SoftirqCounts;

use crate::{read_text, SampleError};

/// Read the softirq counts.
///
/// # Errors
/// Returns an error if `/proc/softirqs` cannot be read or parsed.
pub fn read() -> Result<Vec<SoftirqCounts>, SampleError> {
    parse(&read_text("/proc/softirqs")?)
}

/// Parse the counts in the text of `/proc/softirqs`.
///
/// # Errors
/// Returns an error if a line is not a kind with its counts.
pub fn parse(text: &str) -> Result<Vec<SoftirqCounts>, SampleError> {
    text.lines().skip(1).map(parse_line).collect()
}

fn parse_line(line: &str) -> Result<SoftirqCounts, SampleError> {
    let wrong = || SampleError::format("/proc/softirqs", "KIND: and a count per CPU", line);
    let (kind, counts) = line.split_once(':').ok_or_else(wrong)?;
    let per_cpu = counts.split_ascii_whitespace().map(|word| word.parse().map_err(|_| wrong()));
    Ok(SoftirqCounts { kind: kind.trim().to_owned(), per_cpu: per_cpu.collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "                    CPU0       CPU1
          HI:          0          0
      NET_TX:         13          2
      NET_RX:     167000     168342
";

    #[test]
    fn each_softirq_kind_has_a_count_per_cpu() {
        let kinds = parse(RECORDED).unwrap();
        assert_eq!(kinds.len(), 3);
        assert_eq!(kinds[2], SoftirqCounts { kind: "NET_RX".to_owned(), per_cpu: vec![167_000, 168_342] });
    }

    #[test]
    fn softirq_line_without_a_kind_is_named_in_the_error() {
        assert!(parse("CPU0\n12 13\n").unwrap_err().to_string().contains("saw \"12 13\""));
    }

    #[test]
    fn softirq_counts_of_the_running_kernel_are_parsed() {
        assert!(read().unwrap().iter().any(|counts| counts.kind == "NET_RX"));
    }
}
