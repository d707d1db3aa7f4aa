//! Parser of a thread's `status`, see `proc_pid_status(5)`.

/// The relevant values of a thread's `status`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Status {
    /// Number of voluntary context switches.
    pub voluntary_switches: u64,
    /// Number of involuntary context switches.
    pub involuntary_switches: u64,
    /// List of the CPUs on which the thread may run.
    pub allowed_cpus: String,
}

impl Status {
    /// Parse the text of `status`; missing values are 0 or empty.
    pub fn parse(text: &str) -> Self {
        let mut status = Self::default();
        for (label, value) in text.lines().filter_map(|line| line.split_once(':')) {
            match label {
                "voluntary_ctxt_switches" => status.voluntary_switches = value.trim().parse().unwrap_or(0),
                "nonvoluntary_ctxt_switches" => {
                    status.involuntary_switches = value.trim().parse().unwrap_or(0);
                }
                "Cpus_allowed_list" => value.trim().clone_into(&mut status.allowed_cpus),
                _ => {}
            }
        }
        status
    }
}
