//! The verbs of this agent. Each verb is named once, in the function `verbs` of the module that answers it.

use std::sync::LazyLock;

use iolab_protocol::{Refusal, Request};

use crate::changes::{commands, folders, journals, leases, setting, supervise};
use crate::facts;
use crate::measuring::{captures, devices, series, traffic, watches, wires};
use crate::session::{ending, greeting, relays};
use crate::verbs::{Job, Verb};

/// Return all verbs.
pub fn all() -> Vec<Verb> {
    let rooms = [
        Vec::from(greeting::verbs()),
        leases::verbs().into(),
        commands::verbs().into(),
        supervise::verbs().into(),
        folders::verbs().into(),
        relays::verbs().into(),
        setting::verbs().into(),
        series::verbs().into(),
        traffic::verbs().into(),
        devices::verbs().into(),
        wires::verbs().into(),
        watches::verbs().into(),
        captures::verbs().into(),
        facts::verbs().into(),
        journals::verbs().into(),
        ending::verbs().into(),
    ];
    rooms.into_iter().flatten().collect()
}

static ALL: LazyLock<Vec<Verb>> = LazyLock::new(all);

/// Return the verb of a request, and the job with its parsed parameters.
pub fn read(request: &Request<'_>) -> Result<(&'static Verb, Job), Refusal> {
    let Some(verb) = ALL.iter().find(|verb| verb.name == request.method) else {
        return Err(request.refuse_method(&ALL.iter().map(|verb| verb.name).collect::<Vec<_>>()));
    };
    Ok((verb, verb.job(request)?))
}
