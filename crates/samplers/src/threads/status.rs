//! What a thread's `status` says, see `proc_pid_status(5)`.

/// What is of interest in the text of a thread's `status`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Status {
    /// How often it gave up the CPU.
    pub voluntary_switches: u64,
    /// How often the CPU was taken from it.
    pub involuntary_switches: u64,
    /// The CPUs that it may run on, as a list.
    pub allowed_cpus: String,
}

impl Status {
    /// What the text says; what it does not say is nothing.
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
