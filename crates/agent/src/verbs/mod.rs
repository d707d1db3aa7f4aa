//! What a method is: its name, how its parameters are read, and who works on it. `methods` has all of them.

#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::sync::Arc;

use iolab_protocol::{Refusal, Request};
#[cfg(not(test))]
use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::host::Host;
use crate::kernel::faults::Answer;
use crate::session::answers::{answer, give_last};

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

/// What parameters and results are: read and written; tests also see their schema.
#[cfg(not(test))]
pub trait Message: DeserializeOwned + Serialize {}
#[cfg(not(test))]
impl<M: DeserializeOwned + Serialize> Message for M {}
#[cfg(test)]
pub use tests::Message;

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
        give_last(host, self.id, result);
    }
}

/// The method `name`, whose parameters are a `P` and whose result an `R`.
pub fn verb<P, R>(
    name: &'static str,
    work: impl Fn(&Arc<Host>, P) -> Answer<R> + Copy + Send + Sync + 'static,
) -> Verb
where
    P: Message + Send + 'static,
    R: Message + 'static,
{
    replying(name, move |host, params, reply: Reply<R>| reply.give(host, work(host, params)))
}

/// The method `name`, which gives its reply itself when it is time.
pub fn replying<P, R>(
    name: &'static str,
    work: impl Fn(&Arc<Host>, P, Reply<R>) + Copy + Send + Sync + 'static,
) -> Verb
where
    P: Message + Send + 'static,
    R: Message + 'static,
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
    /// The work on a request of this method, its parameters read.
    pub fn job(&self, request: &Request<'_>) -> Result<Job, Refusal> {
        (self.read)(request)
    }

    /// The same, done before the next request is read. It must not wait.
    pub fn in_order(self) -> Self {
        Self { in_order: true, ..self }
    }
}
