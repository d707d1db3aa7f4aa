//! Two namespaces connected by a veth pair, for one trial; removed on drop. The namespaces need root; without root, a
//! message is printed.
#![allow(unsafe_code)] // Tests enter a namespace by setns(2).

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use iolab_port::{receive, reserve, RxPort, TxPort};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Two namespaces: `tx` has interface `west`, `rx` has interface `east`.
pub struct Lab {
    pub tx: String,
    pub rx: String,
}

/// Runs a command that must succeed.
pub fn run(command: &str) -> String {
    let words: Vec<_> = command.split_whitespace().collect();
    let done = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Prints which test is skipped and why, even if the test runner hides the output of tests that pass.
pub fn skipped(why: &str) {
    let _ = writeln!(
        std::io::stderr(),
        "skipped {}: {}",
        thread::current().name().unwrap_or("a test"),
        why.trim()
    );
}

impl Lab {
    /// Creates the namespaces; if this is not permitted, prints the reason and returns none.
    pub fn new() -> Option<Self> {
        // Root in a container without privileges may not create namespaces.
        let tried = Command::new("unshare").args(["--mount", "--net", "true"]).output().unwrap();
        if !tried.status.success() {
            skipped(&String::from_utf8_lossy(&tried.stderr));
            return None;
        }
        // Relaxed: only uniqueness matters.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("iolab-b-{}-{number}{end}", std::process::id());
        let lab = Self { tx: name("t"), rx: name("r") };
        run(&format!("ip netns add {}", lab.tx));
        run(&format!("ip netns add {}", lab.rx));
        for namespace in [&lab.tx, &lab.rx] {
            run(&format!("ip netns exec {namespace} sysctl -qw net.ipv6.conf.all.disable_ipv6=1"));
            run(&format!("ip netns exec {namespace} sysctl -qw net.ipv6.conf.default.disable_ipv6=1"));
        }
        let (tx, rx) = (&lab.tx, &lab.rx);
        run(&format!("ip -n {tx} link add west address 02:00:00:00:00:01 type veth peer name east address 02:00:00:00:00:02 netns {rx}"));
        run(&format!("ip -n {tx} link set west up"));
        run(&format!("ip -n {rx} link set east up"));
        Some(lab)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for namespace in [&self.tx, &self.rx] {
            let _ = Command::new("ip").args(["netns", "del", namespace]).output();
        }
    }
}

/// Runs a function inside a namespace, with the `/sys` of that namespace: descriptors opened there stay there.
pub fn inside<R: Send>(namespace: &str, work: impl FnOnce() -> R + Send) -> R {
    let file = File::open(format!("/run/netns/{namespace}")).unwrap();
    std::thread::scope(|scope| {
        let inner = scope.spawn(|| {
            // SAFETY: takes a descriptor and a flag; moves this new thread only.
            assert_eq!(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
            own_sys();
            work()
        });
        inner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Mounts the `/sys` of the calling thread's network namespace, visible only to this thread.
fn own_sys() {
    let (nothing, kept) = (std::ptr::null(), libc::MS_SLAVE | libc::MS_REC);
    // SAFETY: the names are literals that end with a zero; the mounts are this new thread's only.
    let done = unsafe {
        libc::unshare(libc::CLONE_NEWNS)
            + libc::mount(nothing, c"/".as_ptr(), nothing, kept, std::ptr::null())
            + libc::mount(c"sysfs".as_ptr(), c"/sys".as_ptr(), c"sysfs".as_ptr(), 0, std::ptr::null())
    };
    assert_eq!(done, 0, "mounting /sys");
}

/// Return frame `number` of a trial: addresses, an experimental type, the number, and bytes that depend on the number.
pub fn frame(number: u64, bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    frame.extend_from_slice(&number.to_be_bytes());
    frame.extend((frame.len()..bytes).map(|place| (number as usize * 31 + place) as u8));
    frame
}

/// Sends `range` of numbered frames of mixed sizes; all of them are committed and flushed, as fast as the port accepts
/// them.
pub fn send(tx: &mut dyn TxPort, range: std::ops::Range<u64>, size: impl Fn(u64) -> usize) {
    let mut number = range.start;
    let started = std::time::Instant::now();
    while number < range.end {
        assert!(started.elapsed().as_secs() < 60, "frame {number} could not be sent");
        let mut batch = reserve(tx, (range.end - number) as usize);
        let granted = batch.granted();
        for index in 0..granted {
            let bytes = frame(number, size(number));
            batch.frame(index, bytes.len()).copy_from_slice(&bytes);
            number += 1;
        }
        batch.commit(granted);
        tx.flush().unwrap();
    }
}

/// One received frame: its bytes and its timestamp.
pub type Seen = (Vec<u8>, u64);

/// Receives until `frames` have arrived, or many consecutive polls have found none: polls are counted instead of time,
/// because a machine may stall for a while.
pub fn collect(rx: &mut dyn RxPort, frames: usize) -> Vec<Seen> {
    let (mut seen, mut in_vain) = (Vec::new(), 0);
    while seen.len() < frames && in_vain < 1000 {
        let mut batch = receive(rx, 64).unwrap();
        in_vain += 1;
        while let Some(frame) = batch.next() {
            seen.push((frame.bytes.to_vec(), frame.stamp_ns));
            in_vain = 0;
        }
        if in_vain > 0 {
            std::thread::sleep(std::time::Duration::from_micros(500)); // frames on their way come meanwhile
        }
    }
    seen
}
