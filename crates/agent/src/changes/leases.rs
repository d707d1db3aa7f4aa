//! Verb `lease.take`: kill stopped holders, undo the changes of dead holders, then lock all requested
//! resources or none.

use std::thread;
use std::time::{Duration, Instant};

use iolab_protocol::lease::{Holder, LeaseTake, Leased, Resource};
use iolab_protocol::{ErrorCode, ErrorData, ErrorObject};

use crate::changes::journals::undo_dead;
use crate::host::journal::{Author, Holding};
use crate::host::leases::{is_name, merged, HOST};
use crate::host::{Host, Obstacle};
use crate::kernel::faults::Answer;
use crate::kernel::procfs::{end_process, stat};
use crate::verbs::{verb, Verb};

/// Return the verb for leases.
pub fn verbs() -> [Verb; 1] {
    [verb("lease.take", |host, params| take(host, &params))]
}

/// Return all agents that hold leases, in the form shown to the user.
pub fn holders(host: &Host) -> Answer<Vec<Holder>> {
    Ok(host.holders()?.into_iter().map(|(author, holding)| shown(&author, holding)).collect())
}

/// Return the process ID of the agent that has exclusive use of the host.
pub fn busy_pid(holders: &[Holder]) -> Option<u32> {
    let alone = |one: &Resource| one.name == HOST && !one.shared;
    holders.iter().find(|holder| holder.resources.iter().any(alone)).map(|holder| holder.pid)
}

fn take(host: &Host, params: &LeaseTake) -> Answer<Leased> {
    if let Some(wrong) = params.resources.iter().find(|one| !is_name(&one.name)) {
        let message =
            "a resource's name has 1 to 120 letters, digits or : . , + _ - @ and begins with no dot";
        return Err(ErrorObject::params(message, wrong.name.clone()));
    }
    if params.resources.is_empty() || params.resources.len() > MOST {
        let message = format!("a lease is on 1 to {MOST} resources");
        return Err(ErrorObject::params(message, params.resources.len()));
    }
    let mut leased = Leased { number: 0, ended: Vec::new(), undone: 0 };
    for _ in 0..TRIES {
        leased.undone += undo_what_is_in_the_way(host, params)?;
        match host.lease(&params.lab, &params.resources)? {
            Ok(number) => return Ok(Leased { number, ..leased }),
            Err(Obstacle::Left) => thread::sleep(PAUSE), // an exited holder is detected after a short delay
            Err(Obstacle::Held(name)) => {
                let ended = end_stopped(host, params)?;
                if ended.is_empty() {
                    return Err(held_by_others(host, params, &name)?);
                }
                leased.ended.extend(ended);
            }
        }
    }
    Err(held_by_others(host, params, "what is asked for")?)
}

fn undo_what_is_in_the_way(host: &Host, params: &LeaseTake) -> Answer<u64> {
    let mut undone = 0;
    for journal in host.left_in_the_way(&merged(&params.resources))? {
        let report = match undo_dead(host, &journal, None) {
            Ok(report) => report,
            // A different agent has undone the journal or is undoing it now.
            Err(error) if error.code == ErrorCode::Unknown => continue,
            Err(error) if error.code == ErrorCode::Busy => {
                return Err(held_by_others(host, params, "what a dead agent left")?);
            }
            Err(error) => return Err(error),
        };
        undone += report.undone;
        if let Some(first) = report.failed.first() {
            let message = format!(
                "a dead agent left changes that cannot be undone: {}: {}",
                first.entry.undo_key, first.reason
            );
            let data = ErrorData { journals: Some(vec![journal]), ..ErrorData::default() };
            return Err(ErrorObject::new(ErrorCode::Busy, message).with(data));
        }
    }
    Ok(undone)
}

/// Kill the holders of the requested resources that have been stopped for at least `stopped_ms`. Return their
/// process IDs.
fn end_stopped(host: &Host, params: &LeaseTake) -> Answer<Vec<u32>> {
    let limit = Duration::from_millis(params.stopped_ms);
    let in_the_way = host.in_the_way(&params.resources)?;
    let mut ended = Vec::new();
    for (author, _) in in_the_way {
        if host.stopped_for(&author, is_stopped(&author), Instant::now()).is_none_or(|time| time < limit) {
            continue;
        }
        if !end_process(author.pid, author.start_ticks, END_LIMIT) {
            return Err(held_by_others(host, params, "what a stopped agent holds, which does not end,")?);
        }
        ended.push(author.pid);
    }
    Ok(ended)
}

fn held_by_others(host: &Host, params: &LeaseTake, name: &str) -> Answer<ErrorObject> {
    let in_the_way = host.in_the_way(&params.resources)?;
    let holders: Vec<Holder> =
        in_the_way.into_iter().map(|(author, holding)| shown(&author, holding)).collect();
    let of = holders.iter().map(|one| format!("'{}' (process {})", one.lab, one.pid)).collect::<Vec<_>>();
    let of = if of.is_empty() { "another agent".to_owned() } else { of.join(", ") };
    let busy_pid = holders.first().map(|one| one.pid);
    let data = ErrorData { busy_pid, holders: Some(holders), ..ErrorData::default() };
    Ok(ErrorObject::new(ErrorCode::Busy, format!("{name} is held by {of}")).with(data))
}

fn shown(author: &Author, holding: Holding) -> Holder {
    Holder { pid: author.pid, lab: holding.lab, resources: holding.resources, stopped: is_stopped(author) }
}

fn is_stopped(author: &Author) -> bool {
    stat(author.pid).is_some_and(|seen| seen.start_ticks == author.start_ticks && seen.stopped)
}

const MOST: usize = 4096;
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(5);
const END_LIMIT: Duration = Duration::from_secs(5);
