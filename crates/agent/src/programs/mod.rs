//! Programs that the agent starts: their user, namespace, open files, confinement, output and exit.

pub mod capture;
pub mod child;
pub mod confine;
pub mod files;
pub mod launch;
pub mod launched;
pub mod own_user;
pub mod ready;
pub mod spawn;
