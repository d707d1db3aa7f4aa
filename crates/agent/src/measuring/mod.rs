//! What measures and looks on: frames, wires, watches, captures, counters. Each module answers its methods.

pub mod captures;
pub mod devices;
pub mod readers;
pub mod series;
pub mod traffic;
pub mod watches;
pub mod wires;
