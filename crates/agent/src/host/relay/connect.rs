//! Reach the other side of a relay: connect to a unix socket, or open a terminal in raw mode. Tries until it is there.

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

/// The open other side; reads and writes do not wait.
pub struct Line {
    descriptor: OwnedFd,
    /// A terminal's settings from before.
    settings: Mutex<Option<Termios>>,
}

impl Line {
    /// Put a terminal's settings back.
    pub fn restore(&self) {
        if let Some(settings) = &*lock(&self.settings) {
            // A terminal that has gone has no settings.
            let _ = tcsetattr(&self.descriptor, SetArg::TCSANOW, settings);
        }
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Why the other side was not reached.
#[derive(Debug)]
pub enum Unreached {
    /// It never will be.
    Never(Errno),
    /// It was not there in time.
    Late(Errno),
    /// Nobody waits for it any more.
    Abandoned,
}

/// Try until the other side is there, at most until `deadline` or until `is_over` says so.
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
        // Nothing tells of a socket that begins to listen.
        std::thread::sleep(TRY_AGAIN.min(deadline.saturating_duration_since(Instant::now())));
    }
}

/// Whether waiting may help: nobody is there yet, or too many are.
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
    // Through the folder's descriptor the address is short, however long the path is.
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
