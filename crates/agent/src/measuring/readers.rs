//! Counters of the host and of namespaces, read by one thread that visits one namespace after the other.

use iolab_protocol::observations::{Observation, Sampler};
use iolab_samplers::{Reader, Supervised};

use crate::changes::supervise::supervised;
use crate::host::Host;
use crate::kernel::clock::now_ns;
use crate::kernel::faults::{not_sampled, Answer};
use crate::kernel::netns::{self, Identity, Namespace};

/// Sampler, namespace, and observation or error.
pub type Outcome = (Sampler, Option<String>, Answer<Observation>);

/// All samplers of one round of readings.
pub struct Readers {
    host: Place,
    inside: Vec<Place>,
}

/// The host, or a namespace.
struct Place {
    /// Name of the namespace; `None` for the host, or for the agent's namespace.
    netns: Option<String>,
    samplers: Vec<Sampler>,
    reader: Reader,
    /// Namespace in which the reader's open files were opened; `None` if no file is open.
    of: Option<Identity>,
}

impl Readers {
    /// Create the readers of `samplers`. Samplers with counters per namespace read each namespace in `netns`.
    pub fn new(samplers: &[Sampler], netns: &[Option<String>]) -> Self {
        let (inside, of_host): (Vec<_>, Vec<_>) = samplers.iter().partition(|sampler| sampler.is_per_netns());
        let place = |netns: &Option<String>| Place::new(netns.clone(), inside.clone());
        let inside = if inside.is_empty() { Vec::new() } else { netns.iter().map(place).collect() };
        Self { host: Place::new(None, of_host), inside }
    }

    /// Read all samplers, on the host and in all namespaces. The calling thread may change its namespace during the
    /// readings, and has its original namespace afterwards.
    ///
    /// # Errors
    /// Returns an error if the thread cannot return to its namespace.
    pub fn read(&mut self, host: &Host) -> Answer<Vec<Outcome>> {
        let supervised = supervised(host);
        let mut outcomes = self.host.read(&supervised);
        for place in &mut self.inside {
            outcomes.extend(match place.netns.clone() {
                Some(name) => place.read_inside(&name, &supervised)?,
                None => place.read(&supervised),
            });
        }
        Ok(outcomes)
    }
}

impl Place {
    fn new(netns: Option<String>, samplers: Vec<Sampler>) -> Self {
        Self { netns, samplers, reader: Reader::default(), of: None }
    }

    /// Read in the namespace `name`. The thread enters the namespace the first time, and whenever a sampler
    /// does not use open files. The open files are closed if the name belongs to a different namespace now,
    /// or to none.
    fn read_inside(&mut self, name: &str, supervised: &[Supervised]) -> Answer<Vec<Outcome>> {
        let found = netns::identity(name);
        let of = found.as_ref().ok().copied();
        let is_open = of.is_some() && self.of == of;
        if !is_open {
            self.reader = Reader::default();
            self.of = of;
        } else if self.samplers.iter().all(|&sampler| Reader::keeps(sampler)) {
            return Ok(self.read(supervised));
        }
        let home = Namespace::current()?;
        let outcomes = match found.and_then(|_| Namespace::open(name)?.enter()) {
            Ok(()) => self.read(supervised),
            Err(error) => {
                let refused = |&sampler| (sampler, self.netns.clone(), Err(error.clone()));
                self.samplers.iter().map(refused).collect()
            }
        };
        home.enter()?;
        Ok(outcomes)
    }

    /// Read in the current namespace of the thread, or from open files; after a failure the files are opened
    /// again in their namespace.
    fn read(&mut self, supervised: &[Supervised]) -> Vec<Outcome> {
        let netns = self.netns.as_deref();
        let observed = self.reader.observe(&self.samplers, netns, supervised, now_ns);
        if observed.iter().any(Result::is_err) {
            self.of = None;
        }
        let told = observed.into_iter().map(|each| each.map_err(|error| not_sampled(netns, &error)));
        self.samplers.iter().zip(told).map(|(&sampler, each)| (sampler, self.netns.clone(), each)).collect()
    }
}
