//! Nanoseconds per frame.
fn main() {}
