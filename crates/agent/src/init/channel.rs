//! The machine's channel to its controller: a virtio-serial port with a fixed name, or a terminal. The
//! channel becomes standard input and output.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::termios::{cfmakeraw, tcgetattr, tcsetattr, SetArg};
use rustix::stdio::{dup2_stdin, dup2_stdout};

use crate::log;

/// Open the channel, and wait until a peer has connected. With `again`, the channel is already standard
/// input.
pub fn take(terminal: Option<&str>, again: bool) -> Result<()> {
    if !again {
        let channel = match terminal {
            Some(path) => {
                quieten_kernel();
                open_terminal(path).with_context(|| format!("opening terminal '{path}'"))?
            }
            None => open_port()?,
        };
        dup2_stdin(&channel)?;
        dup2_stdout(&channel)?;
    }
    if terminal.is_none() {
        wait_for_company();
    }
    Ok(())
}

fn open_terminal(path: &str) -> Result<File> {
    let file = wait_for(|| File::options().read(true).write(true).open(path).ok())
        .map_or_else(|| File::options().read(true).write(true).open(path), Ok)?;
    let mut settings = tcgetattr(&file)?;
    cfmakeraw(&mut settings);
    tcsetattr(&file, SetArg::TCSANOW, &settings)?;
    Ok(file)
}

/// Suppress kernel messages on the console except panics: the terminal may also be the console, and a kernel message
/// would corrupt a line of the protocol.
fn quieten_kernel() {
    if let Err(error) = fs::write("/proc/sys/kernel/printk", "1") {
        log(&format!("keeping the kernel's words off the channel: {error}"));
    }
}

fn open_port() -> Result<File> {
    let Some(path) = wait_for(find_port) else {
        bail!("there is no virtio-serial port called {PORT_NAME}, and no iolab.channel= on the kernel's command line");
    };
    File::options()
        .read(true)
        .write(true)
        .open(&path)
        .with_context(|| format!("opening '{}'", path.display()))
}

fn find_port() -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?.flatten();
    let is_ours =
        |folder: &PathBuf| fs::read_to_string(folder.join("name")).is_ok_and(|name| name.trim() == PORT_NAME);
    let folder = ports.map(|entry| entry.path()).find(is_ours)?;
    let device = PathBuf::from("/dev").join(folder.file_name()?);
    device.exists().then_some(device)
}

fn wait_for<T>(find: impl Fn() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + CHANNEL_LIMIT;
    loop {
        if let Some(found) = find() {
            return Some(found);
        }
        if Instant::now() > deadline {
            return None;
        }
        // Without a listener for kernel events, polling is the only way to detect a new port.
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Wait until a peer has connected: a port without a peer reports a hang-up, and a read returns the end of
/// file.
fn wait_for_company() {
    loop {
        let input = io::stdin();
        let mut polled = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        let hung_up = poll(&mut polled, PollTimeout::ZERO).is_ok()
            && polled[0].revents().is_some_and(|seen| seen.contains(PollFlags::POLLHUP));
        if !hung_up {
            return;
        }
        // The driver wakes readers when data arrive, but not when a peer connects.
        std::thread::sleep(LOOK_AGAIN);
    }
}

const PORT_NAME: &str = "org.iolab.agent";
const CHANNEL_LIMIT: Duration = Duration::from_secs(15);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
