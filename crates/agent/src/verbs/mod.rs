//! The methods that this agent answers. Each is named once, by the module that answers it, in its `verbs`.

#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::sync::{Arc, LazyLock};

use iolab_protocol::{Refusal, Request, Response};
use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::faults::Answer;
use crate::host::Host;
use crate::serve::answer;
use crate::{
    captures, commands, devices, ending, facts, folders, greeting, journals, relays, series, setting,
    supervise, traffic, watches, wires,
};

/// The work on one request, its parameters read.
pub type Job = Box<dyn FnOnce(&Arc<Host>) + Send>;

type Reader = Box<dyn Fn(&Request<'_>) -> Result<Job, Refusal> + Send + Sync>;

/// A method by its name.
pub struct Verb {
    /// As the controller calls it.
    pub name: &'static str,
    /// Whether it is done before the next request is read; others have a thread each.
    pub in_order: bool,
    read: Reader,
    #[cfg(test)]
    messages: tests::Messages,
}

/// The answer that a request waits for.
pub struct Reply<R> {
    /// The request's id.
    pub id: i64,
    result: PhantomData<fn(R)>,
}

impl<R: Serialize> Reply<R> {
    /// Answer.
    pub fn give(self, host: &Host, outcome: Answer<R>) {
        answer(host, Some(self.id), outcome);
    }

    /// Answer as the last thing that the agent does.
    pub fn give_last(self, host: &Host, result: &R) {
        // When nobody reads the answer any more, the exit status still tells.
        let _ = host.output.send(&Response::<&R>::new(Some(self.id), Ok(result)));
        host.output.drain(ending::LAST_WORD_LIMIT);
    }
}

/// The method `name`, whose parameters are a `P` and whose result an `R`.
pub fn verb<P, R>(
    name: &'static str,
    work: impl Fn(&Arc<Host>, P) -> Answer<R> + Copy + Send + Sync + 'static,
) -> Verb
where
    P: DeserializeOwned + Serialize + Send + 'static,
    R: DeserializeOwned + Serialize + 'static,
{
    replying(name, move |host, params, reply: Reply<R>| reply.give(host, work(host, params)))
}

/// The method `name`, which gives its reply itself when it is time.
pub fn replying<P, R>(
    name: &'static str,
    work: impl Fn(&Arc<Host>, P, Reply<R>) + Copy + Send + Sync + 'static,
) -> Verb
where
    P: DeserializeOwned + Serialize + Send + 'static,
    R: DeserializeOwned + Serialize + 'static,
{
    let read = move |request: &Request<'_>| {
        let (params, id) = (request.read::<P>()?, request.id);
        let job: Job = Box::new(move |host| work(host, params, Reply { id, result: PhantomData }));
        Ok(job)
    };
    Verb {
        name,
        in_order: false,
        read: Box::new(read),
        #[cfg(test)]
        messages: tests::Messages::of::<P, R>(),
    }
}

impl Verb {
    /// The same, done before the next request is read. It must not wait.
    pub fn in_order(self) -> Self {
        Self { in_order: true, ..self }
    }
}

/// Every method.
fn all() -> Vec<Verb> {
    let rooms = [
        Vec::from(greeting::verbs()),
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

/// What a request asks for: its method, and the work on it.
pub fn read(request: &Request<'_>) -> Result<(&'static Verb, Job), Refusal> {
    let Some(verb) = ALL.iter().find(|verb| verb.name == request.method) else {
        return Err(request.refuse_method(&ALL.iter().map(|verb| verb.name).collect::<Vec<_>>()));
    };
    Ok((verb, (verb.read)(request)?))
}
