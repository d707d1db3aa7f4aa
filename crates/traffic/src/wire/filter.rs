//! Classification of frames into the classes of a pacer, by filters on IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use iolab_frame::{ip_header, IpVersion};
use iolab_protocol::impairment::{Impairment, PacerFilter};
use iolab_protocol::ErrorObject;

use crate::faults::bad_params;

/// The filters of a pacer; the first match applies.
#[derive(Debug, Default)]
pub struct Classifier {
    filters: Vec<PacerFilter>,
    default: Option<u16>,
}

impl Classifier {
    /// Create the classifier of the pacer in `impairments`; return none if there is no pacer.
    ///
    /// # Errors
    /// Returns an error object for the reply, if there are two pacers or a filter refers to an unknown class.
    pub fn of(impairments: &[Impairment]) -> Result<Option<Self>, ErrorObject> {
        let mut found = None;
        for impairment in impairments {
            let Impairment::Pacer { classes, filters, default, .. } = impairment else { continue };
            let mut named = filters.iter().map(|filter| filter.class).chain(*default);
            if named.any(|class| usize::from(class) >= classes.len()) {
                return Err(bad_params("impairments", &"filters name classes by their places, from 0"));
            }
            if found.replace(Self { filters: filters.clone(), default: *default }).is_some() {
                return Err(bad_params("impairments", &"one pacer a way"));
            }
        }
        Ok(found)
    }

    /// Return the class of a frame; none if no filter matches and there is no default.
    pub fn class_of(&self, frame: &[u8]) -> Option<u16> {
        let Some((source, destination)) = addresses(frame) else { return self.default };
        let fits = |filter: &&PacerFilter| {
            filter.source.is_none_or(|one| one == source)
                && filter.destination.is_none_or(|one| one == destination)
        };
        self.filters.iter().find(fits).map_or(self.default, |filter| Some(filter.class))
    }
}

/// Return the source and destination address of an IP frame.
fn addresses(frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let (version, at) = ip_header(frame)?;
    let narrow = |at: usize| Some(Ipv4Addr::from(*frame.get(at..)?.first_chunk::<4>()?).into());
    let wide = |at: usize| Some(Ipv6Addr::from(*frame.get(at..)?.first_chunk::<16>()?).into());
    match version {
        IpVersion::V4 => Some((narrow(at + 12)?, narrow(at + 16)?)),
        IpVersion::V6 => Some((wide(at + 8)?, wide(at + 24)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACER: &str = r#"[{"kind":"pacer","rate_bps":9,"classes":[{"rate_bps":1,"ceil_bps":9},{"rate_bps":2,"ceil_bps":9}],
        "filters":[{"source":"198.18.0.1","class":1},{"source":"198.18.0.2","destination":"198.18.0.3","class":0}]"#;

    fn frame(tagged: bool, source: u8, destination: u8) -> Vec<u8> {
        let tag: &[u8] = if tagged { &[0x81, 0, 0, 5] } else { &[] };
        let addresses = [198, 18, 0, source, 198, 18, 0, destination];
        [&[2; 12], tag, &[8, 0, 0x45], &[0; 11], &addresses].concat()
    }

    fn classifier(rest: &str) -> Result<Option<Classifier>, ErrorObject> {
        Classifier::of(&serde_json::from_str::<Vec<Impairment>>(&format!("{PACER}{rest}}}]")).unwrap())
    }

    #[test]
    fn first_matching_filter_applies() {
        let without = classifier("").unwrap().unwrap();
        for (source, destination, class) in [(1, 9, Some(1)), (2, 3, Some(0)), (2, 4, None), (7, 3, None)] {
            assert_eq!(without.class_of(&frame(false, source, destination)), class);
            assert_eq!(without.class_of(&frame(true, source, destination)), class);
        }
        let with = classifier(r#","default":0"#).unwrap().unwrap();
        assert_eq!((with.class_of(&frame(false, 7, 3)), with.class_of(&[2; 60])), (Some(0), Some(0)));
    }

    #[test]
    fn ipv6_packets_are_classified() {
        let with = r#"[{"kind":"pacer","rate_bps":9,"classes":[{"rate_bps":1,"ceil_bps":9}],
            "filters":[{"source":"2001:2::1","destination":"2001:2::2","class":0}]}]"#;
        let classifier =
            Classifier::of(&serde_json::from_str::<Vec<Impairment>>(with).unwrap()).unwrap().unwrap();
        let address = |last: u8| [[0x20, 1, 0, 2].as_slice(), &[0; 11], &[last]].concat();
        let frame = |source: u8| {
            [&[2; 12], [0x86, 0xdd, 0x60].as_slice(), &[0; 7], &address(source), &address(2), &[0; 8]]
                .concat()
        };
        assert_eq!((classifier.class_of(&frame(1)), classifier.class_of(&frame(3))), (Some(0), None));
    }

    #[test]
    fn filter_that_refers_to_an_unknown_class_is_refused() {
        assert!(classifier(r#","default":2"#).is_err());
        assert!(Classifier::of(&[]).unwrap().is_none());
    }
}
