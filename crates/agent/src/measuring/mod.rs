//! Measurements and observations: frames, emulated links, watches, captures, counters. Each module answers the verbs of
//! its measurement.

pub mod captures;
pub mod devices;
pub mod readers;
pub mod series;
pub mod traffic;
pub mod watches;
pub mod wires;
