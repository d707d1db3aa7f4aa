//! One session with a controller, from the greeting to the end: requests are read, passed to their module,
//! and answered.

pub mod answers;
pub mod ending;
pub mod greeting;
pub mod methods;
pub mod relays;
pub mod serve;
pub mod silence;
