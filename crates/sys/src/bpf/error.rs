//! Errors of BPF maps and programs.

use std::io;

/// The failure of an operation on a BPF map or program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The kernel's verifier rejected a program.
    #[error("loading the program {program}: refused by the kernel ({errno}): {log}")]
    ProgramRefused {
        /// Name of the program.
        program: &'static str,
        /// Error from the kernel.
        errno: io::Error,
        /// Last lines of the verifier's log.
        log: String,
    },
    /// A different system call failed.
    #[error("{doing}: {syscall} failed: {errno}")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// Name of the system call.
        syscall: &'static str,
        /// Error from the kernel.
        errno: io::Error,
    },
}

impl BpfError {
    /// Return a function that converts the kernel's error into a [`BpfError`] with the operation that failed.
    pub(crate) fn of(doing: &'static str, syscall: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |errno| Self::System { doing, syscall, errno }
    }
}
