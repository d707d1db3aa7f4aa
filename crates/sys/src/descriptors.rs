//! Numbers of descriptors, for a process that is about to become another program.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Descriptors that a process inherited, where they are now.
#[derive(Debug)]
pub struct Rearranged {
    /// Those that it keeps for itself, in the order in which they were asked for; closed when another program begins.
    pub kept: Vec<OwnedFd>,
    /// Whether all others have the numbers under which the next program finds them.
    pub passed: io::Result<()>,
}

/// Takes the inherited descriptors `kept` over, under new numbers of at least `least`, and gives each of `passed` (a number
/// and another) its other number, where the next program finds it. What had that number is closed.
///
/// # Errors
/// When one of `kept` is not open or there are no numbers left.
///
/// # Safety
/// The process has one thread and has opened nothing yet: what is open from number 3 on was inherited and has no owner.
pub unsafe fn rearrange(kept: &[RawFd], passed: &[(RawFd, RawFd)], least: RawFd) -> io::Result<Rearranged> {
    // SAFETY: none of them has an owner (the caller's promise).
    let raise = |&number: &RawFd| unsafe { adopt(number) }.and_then(|file| raised(file, least));
    let kept = kept.iter().map(raise).collect::<io::Result<_>>()?;
    // All are out of the way before the first gets its number, which may be that of another.
    let raise = |&(number, target): &(RawFd, RawFd)| Ok((raise(&number)?, target));
    let passed = passed.iter().map(raise).collect::<io::Result<Vec<_>>>().and_then(|files| {
        // SAFETY: all that this process owns has numbers from `least` on.
        files.iter().try_for_each(|(file, target)| unsafe { pass_as(file, *target) })
    });
    Ok(Rearranged { kept, passed })
}

/// Takes an open descriptor over.
///
/// # Safety
/// If it is open, nothing else owns it.
unsafe fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes integers only; a number that is not open is an error.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and the caller promises that it has no owner.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The same file under another number of at least `least`, closed when another program begins.
fn raised(file: OwnedFd, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is open; the rest are integers.
    let number = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor for us, and nothing else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Gives a file the number `target` as well, open when another program begins; what had that number is closed.
///
/// # Safety
/// Nothing owns `target`.
unsafe fn pass_as(file: &OwnedFd, target: RawFd) -> io::Result<()> {
    // SAFETY: takes integers only; what it closes has no owner (the caller's promise).
    if unsafe { libc::dup2(file.as_raw_fd(), target) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Another descriptor for what this process was started with under a number.
///
/// # Errors
/// Nothing is open under that number.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes integers only, and changes nothing that anybody owns.
    let copy = super::check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just opened this descriptor for us.
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

    /// Numbers as a parent would have left them, here given up by their owners.
    #[test]
    fn a_file_is_found_under_the_number_it_was_passed_as() {
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
    fn what_is_not_open_is_refused() {
        // SAFETY: no descriptor has that number.
        assert!(unsafe { rearrange(&[-1], &[], 300) }.is_err());
        let own = opened();
        // SAFETY: it was given up just now.
        let rearranged = unsafe { rearrange(&[own], &[(-1, 291)], 300) }.unwrap();
        assert_eq!((rearranged.kept.len(), rearranged.passed.is_err()), (1, true));
    }
}
