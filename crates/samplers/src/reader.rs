//! Repeated readings of the counters of the host or of one network namespace.

use iolab_protocol::observations::{Counters, Observation, Sampler};
use nix::sys::socket::SockProtocol;

use crate::kernel_file::KernelFile;
use crate::links::{self, Link};
use crate::netlink::{Announcements, Channel};
use crate::threads::{Supervised, Threads};
use crate::{cpu, drops, interfaces, qdiscs, settings, sockets, softirq, softnet, SampleError};

/// Open files and sockets for the counters of the host or of one network namespace. The first reading opens
/// them in the current namespace of the thread; later readings use the same namespace, even if the thread has
/// moved.
#[derive(Debug)]
pub struct Reader {
    cpus: KernelFile,
    threads: Threads,
    interfaces: KernelFile,
    route: Channel,
    diag: Channel,
    /// The interfaces as reported by rtnetlink after the last announced change.
    links: Option<Vec<Link>>,
    link_changes: Announcements,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            cpus: cpu::file(),
            threads: Threads::default(),
            interfaces: interfaces::file(),
            route: Channel::new(SockProtocol::NetlinkRoute),
            diag: Channel::new(SockProtocol::NetlinkSockDiag),
            links: None,
            link_changes: links::announcements(),
        }
    }
}

impl Reader {
    /// Whether a sampler reads through the open files and sockets, so that the calling thread need not enter
    /// the namespace.
    pub fn keeps(sampler: Sampler) -> bool {
        matches!(sampler, Sampler::Interfaces | Sampler::Qdiscs | Sampler::Sockets)
    }

    /// Read samplers in sequence, and label the observations with the namespace name `netns`.
    pub fn observe(
        &mut self,
        samplers: &[Sampler],
        netns: Option<&str>,
        supervised: &[Supervised],
        clock: impl Fn() -> u64,
    ) -> Vec<Result<Observation, SampleError>> {
        let of_links =
            |sampler: &Sampler| matches!(sampler, Sampler::Interfaces | Sampler::Qdiscs | Sampler::Settings);
        if samplers.iter().any(of_links) && self.link_changes.changed() {
            self.links = None;
        }
        let observe = |&sampler: &Sampler| {
            let begin_ns = clock();
            let counters = self.read(sampler, supervised, begin_ns)?;
            Ok(Observation { netns: netns.map(str::to_owned), begin_ns, end_ns: clock(), counters })
        };
        samplers.iter().map(observe).collect()
    }

    /// Read one sampler.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses or its answer does not have the documented format.
    fn read(
        &mut self,
        sampler: Sampler,
        supervised: &[Supervised],
        now_ns: u64,
    ) -> Result<Counters, SampleError> {
        Ok(match sampler {
            Sampler::Cpu => Counters::Cpu { cpus: cpu::read(&mut self.cpus)? },
            Sampler::Threads => Counters::Threads { threads: self.threads.read(supervised, now_ns) },
            Sampler::Softirq => Counters::Softirq { kinds: softirq::read()? },
            Sampler::Softnet => Counters::Softnet { cpus: softnet::read()? },
            Sampler::Drops => Counters::Drops { drops: drops::read(iolab_sys::driver_statistics)? },
            Sampler::Sockets => Counters::Sockets { sockets: sockets::read(&mut self.diag)? },
            Sampler::Settings => {
                Counters::Settings { settings: settings::read(known(&mut self.links, &mut self.route)?) }
            }
            Sampler::Processors => Counters::Processors { settings: settings::processors() },
            Sampler::Interfaces => {
                let links = known(&mut self.links, &mut self.route)?;
                Counters::Interfaces { interfaces: interfaces::read(&mut self.interfaces, links)? }
            }
            Sampler::Qdiscs => {
                let links = known(&mut self.links, &mut self.route)?;
                Counters::Qdiscs { qdiscs: qdiscs::read(&mut self.route, links)? }
            }
        })
    }
}

/// Return the interfaces as reported by rtnetlink; they are requested again only after a change.
fn known<'a>(links: &'a mut Option<Vec<Link>>, route: &mut Channel) -> Result<&'a [Link], SampleError> {
    let read = match links.take() {
        Some(known) => known,
        None => links::read(route)?,
    };
    Ok(links.insert(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return the indices and names of the interfaces that a reader reports.
    fn names(reader: &mut Reader) -> Vec<String> {
        let seen = reader.observe(&[Sampler::Qdiscs, Sampler::Interfaces], Some("here"), &[], || 7);
        let seen = seen.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(seen[0].netns.as_deref(), Some("here"));
        let Counters::Interfaces { interfaces } = &seen[1].counters else { panic!("{seen:?}") };
        assert!(interfaces.iter().all(|interface| interface.carrier_changes.is_some()));
        interfaces.iter().map(|interface| interface.name.clone()).collect()
    }

    #[test]
    fn each_reading_uses_the_current_interfaces() {
        let ip = |words: &[&str]| {
            std::process::Command::new("ip").args(words).status().is_ok_and(|it| it.success())
        };
        let alone = iolab_sys::thread::leave_network().is_ok();
        let mut reader = Reader::default();
        assert!(names(&mut reader).iter().any(|name| name == "lo"));
        assert_eq!(names(&mut reader), names(&mut Reader::default()));
        // Without root there is no namespace to change.
        if alone && ip(&["link", "add", "later0", "type", "veth", "peer", "name", "later1"]) {
            assert!(names(&mut reader).iter().any(|name| name == "later0"));
            assert!(ip(&["link", "set", "later0", "name", "other0"]));
            assert!(names(&mut reader).iter().any(|name| name == "other0"));
        }
    }
}
