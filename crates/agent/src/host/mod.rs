//! Shared state of the agent, and the rules that permit requests to change the host.

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
use crate::host::leases::{conflicts, lock_all, merged, Lease, HOST};
use crate::host::output::Output;
use crate::host::recording::Recording;
use crate::host::relay::Link;
use crate::host::state::{Left, StateFolder};
use crate::host::table::{Table, CAPTURES, DEVICES, PORTS, PROCESSES, RELAYS, SERIES, WATCHES, WIRES};
use crate::kernel::faults::{refused, Answer};
use crate::kernel::macvtap::Door;
use crate::kernel::sync::lock;
use crate::programs::child::{Child, Children};
use crate::programs::spawn::{Begun, Program, Ran, Spawner};

/// The agent's shared state.
pub struct Host {
    /// Folder of the lock and the journals.
    pub state: StateFolder,
    /// Journal of this agent.
    pub journal: Mutex<Journal>,
    /// Author of this agent's journal: the agent itself.
    pub author: Author,
    /// Queue of messages to the controller.
    pub output: Arc<Output>,
    /// All running processes.
    pub children: Arc<Children>,
    /// Supervised processes, which the controller named, until they are collected.
    pub processes: Table<Process>,
    /// Series of readings.
    pub series: Table<Recording>,
    /// Sets of ports.
    pub traffic: Table<Arc<PortSet>>,
    /// Devices under test.
    pub devices: Table<RunningDevice>,
    /// Emulated links between interfaces.
    pub wires: Table<RunningWire>,
    /// Watches, running or finished.
    pub watches: Table<RunningWatch>,
    /// Captures, running or finished.
    pub captures: Table<RunningCapture>,
    /// Connections to other agents through this agent.
    pub relays: Table<Arc<Link>>,
    /// Whether the agent is the first process of its machine.
    pub is_init: bool,
    /// Interfaces of the host, if the agent cannot read them from its namespaces.
    pub host_interfaces: Option<Vec<InterfaceFacts>>,
    /// Access to macvtap device nodes for an agent without root, if sudo permits it.
    pub door: Option<Door>,
    /// Lock that is held while changes are undone, so that undos run one at a time.
    pub undoing: Mutex<()>,
    /// Names of namespaces and undo keys of folders that are being created.
    pub making: Mutex<BTreeSet<String>>,
    spawner: Spawner,
    right: Mutex<Right>,
    /// Time at which each stopped agent was first detected as stopped, by journal ID.
    seen_stopped: Mutex<BTreeMap<String, Instant>>,
    /// Lock that requests hold for reading while they change the host, so that undos and shutdown wait for the
    /// requests; an undo holds the lock for writing.
    changing: RwLock<()>,
    /// Whether the agent is shutting down; no change starts afterwards.
    ending: AtomicBool,
    end: fn(&Self) -> !,
}

#[derive(Default)]
struct Right {
    lease: Option<Lease>,
    clean: bool,
}

/// The reason why a lease was not granted.
pub enum Obstacle {
    /// A different agent holds the resource with this name.
    Held(String),
    /// Changes that a dead agent made to the resources have not been undone yet.
    Left,
}

/// A supervised process, which the controller named.
#[derive(Clone)]
pub struct Process {
    /// The process.
    pub child: Arc<Child>,
    /// The namespace in which the process was started.
    pub netns: Option<String>,
    /// Sequence number of its undo in the journal.
    pub sequence: Option<u64>,
}

impl Host {
    /// Create the state of an agent that holds no lease; `end` undoes all changes and exits.
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

    /// Lock the wanted resources for a lab; changes of dead agents on these resources must have been undone.
    pub fn lease(&self, lab: &str, wanted: &[Resource]) -> Answer<Result<u64, Obstacle>> {
        let mut right = lock(&self.right);
        if right.lease.is_some() {
            let message = "this agent has its lease already; another agent takes another one";
            return Err(ErrorObject::new(ErrorCode::Busy, message));
        }
        let lease = match self.lock_resources(&merged(wanted))? {
            Ok(lease) => lease,
            Err(name) => return Ok(Err(Obstacle::Held(name))),
        };
        // Check again with the locks held, because a holder may have died and left changes. An exiting agent
        // releases its locks before it counts as dead, so a listed holder may hold nothing any more.
        if !self.in_the_way(wanted)?.is_empty() || !self.left_in_the_way(&merged(wanted))?.is_empty() {
            return Ok(Err(Obstacle::Left));
        }
        self.keep(&mut right, lease, lab, wanted.to_vec()).map(Ok)
    }

    /// If this agent has no lease, lock a resource until the result is dropped; an agent with a lease already holds the
    /// resource.
    pub fn lock_briefly(&self, name: &str) -> Answer<Lease> {
        if lock(&self.right).lease.is_some() {
            return Ok(Lease::default());
        }
        let wanted = merged(&[Resource { name: name.to_owned(), shared: false }]);
        let lease = self.lock_resources(&wanted)?;
        if !self.left_in_the_way(&wanted)?.is_empty() {
            return Err(ErrorObject::new(ErrorCode::Busy, "what a dead agent left is not undone"));
        }
        lease.map_err(|name| ErrorObject::new(ErrorCode::Busy, format!("another agent holds {name}")))
    }

    fn lock_resources(&self, wanted: &BTreeMap<String, bool>) -> Answer<Result<Lease, String>> {
        lock_all(&self.state.here(), wanted).map_err(|error| self.state_refused("leasing in", &error))
    }

    fn keep(&self, right: &mut Right, mut lease: Lease, lab: &str, wanted: Vec<Resource>) -> Answer<u64> {
        let refused = |error| self.state_refused("leasing in", &error);
        lease.begin().map_err(refused)?;
        let holding = Holding { lab: lab.to_owned(), resources: wanted };
        lock(&self.journal).begin_lease(holding).map_err(refused)?;
        let number = lease.number;
        right.lease = Some(lease);
        Ok(number)
    }

    /// Return the running agents that hold wanted resources, each with the conflicting resources.
    pub fn in_the_way(&self, wanted: &[Resource]) -> Answer<Vec<(Author, Holding)>> {
        let wanted = merged(wanted);
        let found = self.holders()?.into_iter().filter_map(|(author, holding)| {
            let resources = conflicts(&wanted, &holding.resources);
            (!resources.is_empty()).then_some((author, Holding { resources, ..holding }))
        });
        Ok(found.collect())
    }

    /// Return the journals of dead agents that held wanted resources.
    pub fn left_in_the_way(&self, wanted: &BTreeMap<String, bool>) -> Answer<Vec<String>> {
        let left = self.left()?.into_iter().filter(|left| left.is_in_the_way(wanted));
        Ok(left.map(|left| left.predecessor.journal).collect())
    }

    /// Lock the resources of a dead agent until the result is dropped, except those that this agent already
    /// holds.
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
        self.lock_resources(&wanted)?.map_err(|name| {
            let message = format!("what a dead agent left cannot be undone now: another agent holds {name}");
            ErrorObject::new(ErrorCode::Busy, message)
        })
    }

    /// Return the time for which a different agent has been stopped, as of `now`; `None` if it runs.
    pub fn stopped_for(&self, author: &Author, stopped: bool, now: Instant) -> Option<Duration> {
        let mut seen = lock(&self.seen_stopped);
        if !stopped {
            seen.remove(&author.journal());
            return None;
        }
        Some(now.duration_since(*seen.entry(author.journal()).or_insert(now)))
    }

    /// Return all other running agents that hold leases.
    pub fn holders(&self) -> Answer<Vec<(Author, Holding)>> {
        let own = self.author.journal();
        self.state.holders(&own).map_err(|error| self.state_refused("reading", &error))
    }

    /// Return the journals of dead agents with their resources.
    pub fn left(&self) -> Answer<Vec<Left>> {
        self.state.left().map_err(|error| self.state_refused("reading", &error))
    }

    /// Return the journals that must be undone, for the greeting.
    pub fn predecessors(&self) -> Answer<Vec<Predecessor>> {
        Ok(self.left()?.into_iter().map(|left| left.predecessor).collect())
    }

    /// Return permission to undo changes of this agent. The function waits for changes in progress, which may
    /// be in the journal but not made yet; no change starts while the result is held.
    pub fn may_undo(&self) -> Answer<RwLockWriteGuard<'_, ()>> {
        self.check_lease()?;
        let guard = self.changing.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.check_not_ending()?;
        Ok(guard)
    }

    /// Return an error if this agent's lease, if any, has passed to a different agent.
    pub fn check_current(&self) -> Answer<()> {
        if lock(&self.right).lease.as_ref().is_none_or(Lease::is_current) {
            return Ok(());
        }
        let message = "the lease of this agent has passed on: it changes nothing more";
        Err(ErrorObject::new(ErrorCode::Busy, message))
    }

    /// Return an error unless this agent may work: it needs a valid lease, or exclusive use of the host.
    fn check_lease(&self) -> Answer<()> {
        // The lock is held until the lease is granted: of two concurrent first requests, the second uses the
        // lease of the first.
        self.check_current()?;
        let mut right = lock(&self.right);
        if right.lease.is_some() {
            return Ok(());
        }
        let all = vec![Resource { name: HOST.to_owned(), shared: false }];
        if let Ok(lease) = self.lock_resources(&merged(&all))? {
            return self.keep(&mut right, lease, "", all).map(drop);
        }
        drop(right);
        let busy_pid = self.holders()?.first().map(|(author, _)| author.pid);
        let other =
            busy_pid.map_or_else(|| "of an older version".to_owned(), |pid| format!("(process {pid})"));
        let message = format!("another agent {other} works on this host; end it or wait for it");
        let data = ErrorData { busy_pid, ..ErrorData::default() };
        Err(ErrorObject::new(ErrorCode::Busy, message).with(data))
    }

    /// Return permission to change this host. The agent must have a lease, and changes of dead agents on the
    /// same resources must have been undone.
    pub fn may_change(&self) -> Answer<RwLockReadGuard<'_, ()>> {
        self.check_lease()?;
        let guard = self.begin_change()?;
        if lock(&self.right).clean {
            return Ok(guard);
        }
        let wanted =
            lock(&self.journal).holding().map(|holding| merged(&holding.resources)).unwrap_or_default();
        let journals = self.left_in_the_way(&wanted)?;
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

    /// Return permission to undo changes of a dead agent; shutdown waits until the result is dropped.
    pub fn begin_change(&self) -> Answer<RwLockReadGuard<'_, ()>> {
        let guard = self.changing.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.check_not_ending()?;
        Ok(guard)
    }

    /// Return an error if the agent is shutting down. The caller must hold `changing`.
    fn check_not_ending(&self) -> Answer<()> {
        // Shutdown waits for the guard, so a caller that reads the flag as unset may continue.
        if self.is_ending() {
            return Err(ErrorObject::new(ErrorCode::Busy, "the agent ends and changes nothing more"));
        }
        Ok(())
    }

    /// Whether the agent is shutting down.
    pub fn is_ending(&self) -> bool {
        // Acquire pairs with the Release in `end_changes`.
        self.ending.load(Ordering::Acquire)
    }

    /// Refuse new changes, kill the running programs, and wait for the changes in progress with a timeout.
    pub fn end_changes(&self) {
        // Release pairs with the Acquire in `check_not_ending`.
        self.ending.store(true, Ordering::Release);
        self.children.close();
        let deadline = Instant::now() + END_LIMIT;
        while self.changing.try_write().is_err() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Shut the agent down because its controller has disconnected.
    pub fn hang_up(&self) -> ! {
        (self.end)(self)
    }

    /// Record the undo of a change in the journal, before the change is made. Return the sequence number of a
    /// new entry.
    pub fn record(&self, undo_key: &str, undo: Undo) -> Answer<Option<u64>> {
        lock(&self.journal)
            .append(undo_key, undo)
            .map_err(|error| self.state_refused("journalling a change in", &error))
    }

    /// Record in the journal that a change was undone; do nothing without a sequence number.
    pub fn mark_undone(&self, sequence: impl Into<Option<u64>>) -> Answer<()> {
        let Some(sequence) = sequence.into() else { return Ok(()) };
        lock(&self.journal)
            .mark_undone(sequence)
            .map_err(|error| self.state_refused("journalling an undo in", &error))
    }

    /// Start a launcher, which waits for permission to execute the program.
    pub fn start(&self, program: Program) -> Answer<crate::programs::spawn::Held> {
        self.spawner.start(program)
    }

    /// Run a program until it exits, for at most `limit`.
    pub fn run(&self, program: Program, limit: Duration) -> Answer<Ran> {
        self.begin(program)?.finish(limit)
    }

    /// Start a program; if this fails, the program has not run.
    pub fn begin(&self, program: Program) -> Answer<Begun> {
        let ordered = Instant::now();
        let (child, pipes, _) = self.start(program)?.begin()?;
        Ok(Begun { child, pipes, ordered })
    }

    fn state_refused(&self, doing: &str, error: &std::io::Error) -> ErrorObject {
        refused(doing, &self.state.name.to_string_lossy(), error)
    }
}

/// Maximum time for which shutdown waits for changes in progress. The programs of these changes have been killed, so
/// the wait takes this long only if the kernel hangs.
const END_LIMIT: Duration = Duration::from_secs(5);
