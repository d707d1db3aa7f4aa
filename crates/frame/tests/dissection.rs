//! Tests that tshark, an independent implementation, reads the addresses, tags, lengths and checksums of a template's
//! frames correctly.

mod common;

use common::tshark::{dissect, Row};
use common::{v4, v6};
use iolab_frame::{FrameTemplate, SizeMix, SizeShare, TemplateConfig};

const FIELDS: [&str; 13] = [
    "frame.len",
    "eth.src",
    "eth.dst",
    "vlan.id",
    "ip.src",
    "ip.dst",
    "ip.checksum.status",
    "ip.len",
    "ipv6.src",
    "udp.srcport",
    "udp.length",
    "udp.checksum.status",
    "ieee8021ad.id",
];
const GOOD: &str = "1";

fn frames(config: &TemplateConfig, flows: &[u32]) -> Vec<Vec<u8>> {
    let template = FrameTemplate::new(config).expect("a template");
    let sizes = config.sizes.shares().len();
    let emit = |flow: u32, size: usize| {
        let mut buffer = vec![0; template.largest_bytes()];
        let sequence = u64::from(flow) * 0x0101_0101;
        let length = template.emit(size, flow, sequence, sequence << 7, &mut buffer).expect("a frame");
        buffer.truncate(length);
        buffer
    };
    flows.iter().flat_map(|&flow| (0..sizes).map(move |size| (flow, size))).map(|(f, s)| emit(f, s)).collect()
}

fn sizes() -> SizeMix {
    SizeMix::new(&[92, 128, 1518, 9216].map(|frame_bytes| SizeShare { frame_bytes, weight: 1 }))
        .expect("a mix")
}

#[test]
fn smallest_frame_is_dissected_as_configured() {
    let config = v4(SizeMix::single(64).expect("a size"), 0);
    let Some(rows) = dissect(&FIELDS, &frames(&config, &[0, 250])) else { return };
    let meant = |source: &str, destination: &str, port: &str| {
        let fields = [
            "60",
            "02:00:00:00:00:01",
            "02:00:00:00:00:fe",
            "",
            source,
            destination,
            GOOD,
            "46",
            "",
            port,
            "26",
            GOOD,
            "",
        ];
        Row(fields.map(String::from).to_vec())
    };
    assert_eq!(
        rows,
        [meant("198.18.0.1", "198.19.0.1", "49152"), meant("198.18.0.51", "198.19.48.1", "49202")]
    );
}

#[test]
fn every_header_combination_has_valid_checksums_and_lengths() {
    for tags in 0..=2u16 {
        for (config, ip_bytes) in [(v4(sizes(), tags), 20), (v6(sizes(), tags), 40)] {
            let Some(rows) = dissect(&FIELDS, &frames(&config, &[0, 1, 99, 5000, 10_099])) else { return };
            assert_eq!(rows.len(), 20);
            for (Row(row), frame_bytes) in rows.iter().zip([92u16, 128, 1518, 9216].into_iter().cycle()) {
                assert_eq!(row[0], (frame_bytes - 4).to_string());
                let (outer, inner) = [("", ""), ("", "100"), ("100", "101")][usize::from(tags)];
                assert_eq!((&*row[12], &*row[3]), (outer, inner));
                assert_eq!(row[6], if ip_bytes == 20 { GOOD } else { "" }, "{row:?}");
                assert_eq!(row[8].is_empty(), ip_bytes == 20);
                assert_eq!(row[10], (frame_bytes - 4 - 14 - 4 * tags - ip_bytes).to_string());
                assert_eq!(row[11], GOOD, "{row:?}");
            }
        }
    }
}
