//! Connection to the peer of a relay: a Unix socket, or a terminal in raw mode. Attempts are repeated until
//! the peer is available.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use iolab_protocol::relay::Place;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::socket::{connect, socket, AddressFamily, SockFlag, SockType, UnixAddr};
use nix::sys::termios::{cfmakeraw, tcgetattr, tcsetattr, SetArg, Termios};

use crate::kernel::sync::lock;

/// The open connection to the peer, in non-blocking mode.
pub struct Line {
    descriptor: OwnedFd,
    /// Previous settings of a terminal.
    settings: Mutex<Option<Termios>>,
}

impl Line {
    /// Restore the settings of a terminal.
    pub fn restore(&self) {
        if let Some(settings) = &*lock(&self.settings) {
            // Restoring the settings fails if the terminal no longer exists.
            let _ = tcsetattr(&self.descriptor, SetArg::TCSANOW, settings);
        }
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The reason why the peer was not reached.
#[derive(Debug)]
pub enum Unreached {
    /// A permanent error.
    Never(Errno),
    /// A temporary error that lasted until the deadline.
    Late(Errno),
    /// The relay was closed in the meantime.
    Abandoned,
}

/// Connect to the peer, and repeat attempts until `deadline` or until `is_over` returns true.
pub fn reach(place: &Place, deadline: Instant, is_over: impl Fn() -> bool) -> Result<Line, Unreached> {
    loop {
        let errno = match try_once(place) {
            Ok(line) => return Ok(line),
            Err(errno) if may_come(errno) => errno,
            Err(errno) => return Err(Unreached::Never(errno)),
        };
        if is_over() {
            return Err(Unreached::Abandoned);
        }
        if Instant::now() >= deadline {
            return Err(Unreached::Late(errno));
        }
        // The kernel sends no event when a socket starts to listen.
        std::thread::sleep(TRY_AGAIN.min(deadline.saturating_duration_since(Instant::now())));
    }
}

/// Whether a retry may succeed: the peer is not available yet, or its backlog is full.
fn may_come(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ENOENT
            | Errno::ECONNREFUSED
            | Errno::EAGAIN
            | Errno::EINTR
            | Errno::EIO
            | Errno::ENXIO
            | Errno::EBUSY
    )
}

fn try_once(place: &Place) -> nix::Result<Line> {
    match place {
        Place::Socket { path } => {
            Ok(Line { descriptor: connect_to(Path::new(path))?, settings: Mutex::new(None) })
        }
        Place::Terminal { path } => open_terminal(path),
    }
}

fn connect_to(path: &Path) -> nix::Result<OwnedFd> {
    if !fs::metadata(path).map_err(errno)?.file_type().is_socket() {
        return Err(Errno::ENOTSOCK);
    }
    // A path through the folder's descriptor is short enough for a socket address.
    let folder = File::open(path.parent().ok_or(Errno::EINVAL)?).map_err(errno)?;
    let name = path.file_name().ok_or(Errno::EINVAL)?;
    let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let made = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(made.as_raw_fd(), &UnixAddr::new(&short)?)?;
    Ok(made)
}

fn open_terminal(path: &str) -> nix::Result<Line> {
    let flags = OFlag::O_NOCTTY | OFlag::O_NONBLOCK;
    let opened = File::options().read(true).write(true).custom_flags(flags.bits()).open(path);
    let descriptor = OwnedFd::from(opened.map_err(errno)?);
    let before = tcgetattr(&descriptor)?;
    let mut raw = before.clone();
    cfmakeraw(&mut raw);
    tcsetattr(&descriptor, SetArg::TCSANOW, &raw)?;
    Ok(Line { descriptor, settings: Mutex::new(Some(before)) })
}

fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

const TRY_AGAIN: Duration = Duration::from_millis(20);
