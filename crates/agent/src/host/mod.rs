//! What the whole agent shares, and the rules for when a request may change the host.

pub mod journal;
pub mod leases;
pub mod output;
pub mod recording;
pub mod relay;
pub mod state;
pub mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use iolab_protocol::facts::InterfaceFacts;
use iolab_protocol::lease::Resource;
use iolab_protocol::{ErrorCode, ErrorData, ErrorObject, Predecessor, Undo};
use iolab_traffic::{PortSet, RunningCapture, RunningDevice, RunningWatch, RunningWire};

use crate::host::journal::{Author, Holding, Journal};
use crate::host::leases::{lock_all, merged, Lease, HOST};
use crate::host::output::Output;
use crate::host::recording::Recording;
use crate::host::relay::Link;
use crate::host::state::{Left, StateFolder};
use crate::host::table::{Kind, Table};
use crate::kernel::faults::{refused, Answer};
use crate::kernel::macvtap::Door;
use crate::kernel::sync::lock;
use crate::programs::child::{Child, Children};
use crate::programs::spawn::{Begun, Program, Ran, Spawner};

/// The agent's shared state.
pub struct Host {
    /// Where its lock and journals are.
    pub state: StateFolder,
    /// Its own journal.
    pub journal: Mutex<Journal>,
    /// Its journal's author: itself.
    pub author: Author,
    /// What waits to be written to the controller.
    pub output: Arc<Output>,
    /// All processes that run.
    pub children: Arc<Children>,
    /// Those the controller named, until they are collected.
    pub processes: Table<Process>,
    /// Series of readings.
    pub series: Table<Recording>,
    /// Sets of ports.
    pub traffic: Table<Arc<PortSet>>,
    /// Devices under test.
    pub devices: Table<RunningDevice>,
    /// Paths between interfaces.
    pub wires: Table<RunningWire>,
    /// Watches, running and over.
    pub watches: Table<RunningWatch>,
    /// Captures, running and over.
    pub captures: Table<RunningCapture>,
    /// Connections to others behind this agent.
    pub relays: Table<Arc<Link>>,
    /// Whether this is its machine's first process.
    pub is_init: bool,
    /// The host's interfaces, where the agent cannot see them from its own namespaces.
    pub host_interfaces: Option<Vec<InterfaceFacts>>,
    /// The way to macvtaps' devices of an agent without root, where sudo lets it.
    pub door: Option<Door>,
    /// Held while changes are taken back: one undoing at a time.
    pub undoing: Mutex<()>,
    /// The names of the namespaces and the undo keys of the folders that are being made.
    pub making: Mutex<BTreeSet<String>>,
    spawner: Spawner,
    right: Mutex<Right>,
    /// Since when other agents have been seen stopped, by their journals.
    seen_stopped: Mutex<BTreeMap<String, Instant>>,
    /// Read-held by requests that change the host, so that undoing and the end can wait for them; write-held while undoing.
    changing: RwLock<()>,
    /// Set once when the agent begins to end; no change begins afterwards.
    ending: AtomicBool,
    end: fn(&Self) -> !,
}

#[derive(Default)]
struct Right {
    lease: Option<Lease>,
    clean: bool,
}

/// A process that the controller named.
#[derive(Clone)]
pub struct Process {
    /// The process.
    pub child: Arc<Child>,
    /// The namespace it was started in.
    pub netns: Option<String>,
    /// Where its end is journalled.
    pub sequence: Option<u64>,
}

impl Host {
    /// An agent that has not claimed the host; `end` undoes everything and exits.
    pub fn new(
        state: StateFolder,
        author: Author,
        host_interfaces: Option<Vec<InterfaceFacts>>,
        is_init: bool,
        door: Option<Door>,
        end: fn(&Self) -> !,
    ) -> std::io::Result<Self> {
        let children = Arc::new(Children::default());
        Ok(Self {
            journal: Mutex::new(Journal::new(&state.journals(), author.clone())),
            spawner: Spawner::begin(author.journal(), Arc::clone(&children))?,
            state,
            author,
            host_interfaces,
            is_init,
            door,
            output: Arc::default(),
            children,
            processes: Table::new(PROCESSES),
            series: Table::new(SERIES),
            traffic: Table::new(PORTS),
            devices: Table::new(DEVICES),
            wires: Table::new(WIRES),
            watches: Table::new(WATCHES),
            captures: Table::new(CAPTURES),
            relays: Table::new(RELAYS),
            undoing: Mutex::default(),
            making: Mutex::default(),
            right: Mutex::default(),
            seen_stopped: Mutex::default(),
            changing: RwLock::default(),
            ending: AtomicBool::new(false),
            end,
        })
    }

    /// Take what is wanted for a lab; the name of a resource that another agent has.
    pub fn lease(&self, lab: &str, wanted: Vec<Resource>) -> Answer<Result<u64, String>> {
        let mut right = lock(&self.right);
        if right.lease.is_some() {
            let message = "this agent has its lease already; another agent takes another one";
            return Err(ErrorObject::new(ErrorCode::Busy, message));
        }
        self.lease_as(&mut right, lab, wanted)
    }

    fn lease_as(&self, right: &mut Right, lab: &str, wanted: Vec<Resource>) -> Answer<Result<u64, String>> {
        let folder = self.state.here();
        let refused = |error| self.state_refused("leasing in", &error);
        let mut lease = match lock_all(&folder, &merged(&wanted)).map_err(refused)? {
            Ok(lease) => lease,
            Err(name) => return Ok(Err(name)),
        };
        lease.begin().map_err(refused)?;
        let holding = Holding { lab: lab.to_owned(), resources: wanted };
        lock(&self.journal).begin_lease(holding).map_err(refused)?;
        let number = lease.number;
        right.lease = Some(lease);
        Ok(Ok(number))
    }

    /// Lock what the dead agent of a journal held, as long as the answer is kept; what this agent holds itself is locked already.
    pub fn borrow(&self, journal: &str, holding: Option<&Holding>) -> Answer<Lease> {
        let all = [Resource { name: HOST.to_owned(), shared: false }];
        let mut wanted = merged(holding.map_or(&all[..], |holding| &holding.resources));
        wanted.insert(format!("journal:{journal}"), false);
        if let Some(own) = &lock(&self.right).lease {
            if own.is_of(HOST, false) {
                return Ok(Lease::default());
            }
            wanted.retain(|name, shared| !own.is_of(name, *shared));
        }
        let locked = lock_all(&self.state.here(), &wanted);
        locked.map_err(|error| self.state_refused("leasing in", &error))?.map_err(|name| {
            let message = format!("what a dead agent left cannot be undone now: another agent holds {name}");
            ErrorObject::new(ErrorCode::Busy, message)
        })
    }

    /// For how long another agent has been seen stopped, as it is `now`; none: it goes on.
    pub fn stopped_for(&self, author: &Author, stopped: bool, now: Instant) -> Option<Duration> {
        let mut seen = lock(&self.seen_stopped);
        if !stopped {
            seen.remove(&author.journal());
            return None;
        }
        Some(now.duration_since(*seen.entry(author.journal()).or_insert(now)))
    }

    /// The living agents that hold leases, other than this one.
    pub fn holders(&self) -> Answer<Vec<(Author, Holding)>> {
        let own = self.author.journal();
        self.state.holders(&own).map_err(|error| self.state_refused("reading", &error))
    }

    /// The journals of dead agents, and what these held.
    pub fn left(&self) -> Answer<Vec<Left>> {
        self.state.left().map_err(|error| self.state_refused("reading", &error))
    }

    /// The journals that are to be undone, for the greeting.
    pub fn predecessors(&self) -> Answer<Vec<Predecessor>> {
        Ok(self.left()?.into_iter().map(|left| left.predecessor).collect())
    }

    /// The agent that works here alone, or is in the way of one that would.
    pub fn busy_pid(&self) -> Answer<Option<u32>> {
        let alone = |one: &Resource| one.name == HOST && !one.shared;
        let found = self.holders()?.into_iter().find(|(_, holding)| holding.resources.iter().any(alone));
        Ok(found.map(|(author, _)| author.pid))
    }

    /// The right to undo what this agent did. Waits for the changes in progress, which may not have happened yet although
    /// they are journalled, and lets none begin while it is held.
    pub fn may_undo(&self) -> Answer<RwLockWriteGuard<'_, ()>> {
        self.check_lease()?;
        let guard = self.changing.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.check_not_ending()?;
        Ok(guard)
    }

    /// That this agent may work here: by its lease, or, where it was asked for none, alone.
    fn check_lease(&self) -> Answer<()> {
        // Locked until the lease is had: of two first requests at once the second finds it.
        let mut right = lock(&self.right);
        if let Some(lease) = &right.lease {
            if lease.is_current() {
                return Ok(());
            }
            let message = "the lease of this agent has passed on: it changes nothing more";
            return Err(ErrorObject::new(ErrorCode::Busy, message));
        }
        let all = vec![Resource { name: HOST.to_owned(), shared: false }];
        if self.lease_as(&mut right, "", all)?.is_ok() {
            return Ok(());
        }
        drop(right);
        let busy_pid = self.holders()?.first().map(|(author, _)| author.pid);
        let other =
            busy_pid.map_or_else(|| "of an older version".to_owned(), |pid| format!("(process {pid})"));
        let message = format!("another agent {other} works on this host; end it or wait for it");
        let data = ErrorData { busy_pid, ..ErrorData::default() };
        Err(ErrorObject::new(ErrorCode::Busy, message).with(data))
    }

    /// The right to change this host: it has a lease, and nothing is left of dead agents that held the same.
    pub fn may_change(&self) -> Answer<RwLockReadGuard<'_, ()>> {
        self.check_lease()?;
        let guard = self.begin_change()?;
        if lock(&self.right).clean {
            return Ok(guard);
        }
        let wanted =
            lock(&self.journal).holding().map(|holding| merged(&holding.resources)).unwrap_or_default();
        let journals: Vec<String> = self
            .left()?
            .into_iter()
            .filter(|left| left.is_in_the_way(&wanted))
            .map(|left| left.predecessor.journal)
            .collect();
        if journals.is_empty() {
            lock(&self.right).clean = true;
            return Ok(guard);
        }
        let message = format!(
            "dead agents left changes on this host; undo their journals first: {}",
            journals.join(", ")
        );
        let data = ErrorData { journals: Some(journals), ..ErrorData::default() };
        Err(ErrorObject::new(ErrorCode::Busy, message).with(data))
    }

    /// The right to undo what a dead agent did: the end waits until it is done.
    pub fn begin_change(&self) -> Answer<RwLockReadGuard<'_, ()>> {
        let guard = self.changing.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.check_not_ending()?;
        Ok(guard)
    }

    /// To be asked while `changing` is held.
    fn check_not_ending(&self) -> Answer<()> {
        // Acquire pairs with the Release in `end_changes`: who sees the flag unset holds the guard the end waits for.
        if self.ending.load(Ordering::Acquire) {
            return Err(ErrorObject::new(ErrorCode::Busy, "the agent ends and changes nothing more"));
        }
        Ok(())
    }

    /// Whether the agent has begun to end.
    pub fn is_ending(&self) -> bool {
        // Acquire pairs with the Release in `end_changes`.
        self.ending.load(Ordering::Acquire)
    }

    /// Let no change begin any more, kill what runs, and wait (not for ever) until the changes in progress are over.
    pub fn end_changes(&self) {
        // Release pairs with the Acquire in `check_not_ending`.
        self.ending.store(true, Ordering::Release);
        self.children.close();
        let deadline = Instant::now() + END_LIMIT;
        while self.changing.try_write().is_err() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// End the agent: its controller has gone.
    pub fn hang_up(&self) -> ! {
        (self.end)(self)
    }

    /// Journal how a change is taken back, before it is made. The entry's place; none when the same one is there already.
    pub fn record(&self, undo_key: &str, undo: Undo) -> Answer<Option<u64>> {
        lock(&self.journal)
            .append(undo_key, undo)
            .map_err(|error| self.state_refused("journalling a change in", &error))
    }

    /// Journal that a change is taken back; nothing to do where nothing was recorded.
    pub fn mark_undone(&self, sequence: impl Into<Option<u64>>) -> Answer<()> {
        let Some(sequence) = sequence.into() else { return Ok(()) };
        lock(&self.journal)
            .mark_undone(sequence)
            .map_err(|error| self.state_refused("journalling an undo in", &error))
    }

    /// Start a program up to the point where it waits for permission.
    pub fn start(&self, program: Program) -> Answer<crate::programs::spawn::Held> {
        self.spawner.start(program)
    }

    /// Run a program to its end, at most for `limit`.
    pub fn run(&self, program: Program, limit: Duration) -> Answer<Ran> {
        self.begin(program)?.finish(limit)
    }

    /// Let a program begin; after an error it has done nothing.
    pub fn begin(&self, program: Program) -> Answer<Begun> {
        let ordered = Instant::now();
        let (child, pipes, _) = self.start(program)?.begin()?;
        Ok(Begun { child, pipes, ordered })
    }

    fn state_refused(&self, doing: &str, error: &std::io::Error) -> ErrorObject {
        refused(doing, &self.state.name.to_string_lossy(), error)
    }
}

/// How long the end waits for changes in progress; their programs have been killed, so this is for a stuck kernel only.
const END_LIMIT: Duration = Duration::from_secs(5);

const PROCESSES: Kind = Kind {
    name: "process",
    taken: "a process of that id runs or was not collected; wait for it or stop it",
    most: None,
};
const SERIES: Kind = Kind {
    name: "series",
    taken: "a series of that name is being read; stop it first",
    most: Some((64, "series are being read already")),
};
const PORTS: Kind =
    Kind { name: "set of ports", taken: "a set of that id is open; close it first", most: None };
const DEVICES: Kind =
    Kind { name: "device", taken: "a device of that id is in place; stop it first", most: None };
const WIRES: Kind = Kind { name: "wire", taken: "a wire of that id is in place; stop it first", most: None };
const WATCHES: Kind =
    Kind { name: "watch", taken: "a watch of that id is there; close it first", most: None };
const CAPTURES: Kind =
    Kind { name: "capture", taken: "a capture of that id is there; close it first", most: None };
const RELAYS: Kind = Kind {
    name: "relay",
    taken: "a relay of that id is open; close it first",
    most: Some((256, "relays are open already")),
};
