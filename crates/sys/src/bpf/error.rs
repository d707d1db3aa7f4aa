//! What can go wrong with a BPF map or program.

use std::io;

/// Why a map or program could not be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The kernel's verifier refused a program.
    #[error("loading the program {program}: refused by the kernel ({errno}): {log}")]
    ProgramRefused {
        /// which program
        program: &'static str,
        /// what the kernel said
        errno: io::Error,
        /// the verifier's last lines
        log: String,
    },
    /// Any other refusal of the kernel.
    #[error("{doing}: {syscall} failed: {errno}")]
    System {
        /// what was being done
        doing: &'static str,
        /// the call
        syscall: &'static str,
        /// what the kernel said
        errno: io::Error,
    },
}

impl BpfError {
    /// Turns the kernel's answer into an error that says what was being done.
    pub(crate) fn of(doing: &'static str, syscall: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |errno| Self::System { doing, syscall, errno }
    }
}
