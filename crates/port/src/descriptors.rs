//! Numbers of descriptors, for a process that is about to become another program.

use std::io;
use std::os::fd::RawFd;

/// Gives each of `descriptors` a new number of at least `least`, under which it is closed when another program begins, and
/// closes the old one. For a process with a single thread that owns all its descriptors.
///
/// # Errors
/// When one is not open or there are no numbers left.
pub fn raise(descriptors: &mut [RawFd], least: RawFd) -> io::Result<()> {
    for descriptor in descriptors {
        // SAFETY: takes integers only; a number that is not open is an error.
        let raised = unsafe { libc::fcntl(*descriptor, libc::F_DUPFD_CLOEXEC, least) };
        if raised < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the process owns all its descriptors (the caller's promise) and knows this one by its new number from now on.
        unsafe { libc::close(*descriptor) };
        *descriptor = raised;
    }
    Ok(())
}

/// Gives `descriptor` the number `target` as well, where the next program finds it; what had that number is closed.
///
/// # Errors
/// When it is not open or the number cannot be given.
pub fn pass_as(descriptor: RawFd, target: RawFd) -> io::Result<()> {
    // SAFETY: takes integers only; what `target` named is given up by the caller, who owns all descriptors.
    if unsafe { libc::dup2(descriptor, target) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::IntoRawFd;

    use super::*;

    #[test]
    fn a_file_is_found_under_the_number_it_was_passed_as() {
        let file = File::open("/proc/self/comm").unwrap();
        let mut numbers = [file.into_raw_fd()];
        raise(&mut numbers, 300).unwrap();
        assert!(numbers[0] >= 300);
        pass_as(numbers[0], 290).unwrap();
        let mut text = String::new();
        File::open("/proc/self/fd/290").unwrap().read_to_string(&mut text).unwrap();
        assert!(!text.is_empty());
        assert!(raise(&mut [-1], 300).is_err());
    }
}
