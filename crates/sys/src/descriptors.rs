//! Renumbering of inherited descriptors, for a process that is about to execute a different program.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Inherited descriptors after renumbering.
#[derive(Debug)]
pub struct Rearranged {
    /// Descriptors that this process keeps, in the requested order; the kernel closes them on exec.
    pub kept: Vec<OwnedFd>,
    /// Whether all other descriptors have the numbers that the next program expects, or the error.
    pub passed: io::Result<()>,
}

/// Take over the inherited descriptors `kept` under new numbers of at least `least`, and duplicate each
/// descriptor of `passed` (pairs of current number and target number) to its target number, which the next
/// program expects. A descriptor that had the target number is closed.
///
/// # Errors
/// Returns an error if a descriptor of `kept` is not open or no numbers are free.
///
/// # Safety
/// The process has one thread and has opened no files: all open descriptors from number 3 on are inherited
/// and have no owner.
pub unsafe fn rearrange(kept: &[RawFd], passed: &[(RawFd, RawFd)], least: RawFd) -> io::Result<Rearranged> {
    // SAFETY: the caller guarantees that none of the descriptors has an owner.
    let raise = |&number: &RawFd| unsafe { adopt(number) }.and_then(|file| raised(file, least));
    let kept = kept.iter().map(raise).collect::<io::Result<_>>()?;
    // All descriptors move to high numbers first, because a target number may be the current number of a
    // different descriptor.
    let raise = |&(number, target): &(RawFd, RawFd)| Ok((raise(&number)?, target));
    let passed = passed.iter().map(raise).collect::<io::Result<Vec<_>>>().and_then(|files| {
        // SAFETY: all descriptors that this process owns have numbers of at least `least`.
        files.iter().try_for_each(|(file, target)| unsafe { pass_as(file, *target) })
    });
    Ok(Rearranged { kept, passed })
}

/// Take ownership of an open descriptor.
///
/// # Safety
/// If the descriptor is open, it must have no other owner.
unsafe fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call takes only integers; a number that is not open causes an error.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and the caller guarantees that it has no owner.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Duplicate a descriptor to a number of at least `least`, with close-on-exec, and close the original.
fn raised(file: OwnedFd, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is open; the other arguments are integers.
    let number = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor for this process, and no other code knows its
    // number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Duplicate a descriptor to the number `target`, which stays open on exec. A descriptor that had this number
/// is closed.
///
/// # Safety
/// `target` must have no owner.
unsafe fn pass_as(file: &OwnedFd, target: RawFd) -> io::Result<()> {
    // SAFETY: the call takes only integers; the caller guarantees that the descriptor which the call closes
    // has no owner.
    if unsafe { libc::dup2(file.as_raw_fd(), target) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Duplicate the inherited descriptor with the given number.
///
/// # Errors
/// Returns an error if no descriptor with this number is open.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call takes only integers and changes no existing descriptor.
    let copy = super::check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just opened this descriptor for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::IntoRawFd;

    use super::*;

    fn opened() -> RawFd {
        File::open("/proc/self/comm").unwrap().into_raw_fd()
    }

    /// Use descriptors as a parent process would leave them: open and without an owner.
    #[test]
    fn passed_file_is_found_under_its_number() {
        let (own, other) = (opened(), opened());
        // SAFETY: both were given up just now, and no other test uses number 290.
        let rearranged = unsafe { rearrange(&[own], &[(other, 290)], 300) }.unwrap();
        rearranged.passed.unwrap();
        assert!(rearranged.kept[0].as_raw_fd() >= 300);
        let mut text = String::new();
        File::open("/proc/self/fd/290").unwrap().read_to_string(&mut text).unwrap();
        assert!(!text.is_empty());
    }

    #[test]
    fn closed_descriptor_is_refused() {
        // SAFETY: no descriptor has that number.
        assert!(unsafe { rearrange(&[-1], &[], 300) }.is_err());
        let own = opened();
        // SAFETY: it was given up just now.
        let rearranged = unsafe { rearrange(&[own], &[(-1, 291)], 300) }.unwrap();
        assert_eq!((rearranged.kept.len(), rearranged.passed.is_err()), (1, true));
    }
}
