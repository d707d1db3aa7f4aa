//! Definition of a verb: its name, the parser of its parameters, and the function that answers it. `methods`
//! lists all verbs.

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

/// The execution of one request with its parsed parameters.
pub type Job = Box<dyn FnOnce(&Arc<Host>) + Send>;

type Reader = Box<dyn Fn(&Request<'_>) -> Result<Job, Refusal> + Send + Sync>;

/// A verb with its name.
pub struct Verb {
    /// Name of the method in requests.
    pub name: &'static str,
    /// Whether the verb runs before the next request is read; other verbs run on separate threads.
    pub in_order: bool,
    read: Reader,
    #[cfg(test)]
    messages: tests::Messages,
}

/// Parameters and results, which are deserialized and serialized; tests also use their schema.
#[cfg(not(test))]
pub trait Message: DeserializeOwned + Serialize {}
#[cfg(not(test))]
impl<M: DeserializeOwned + Serialize> Message for M {}
#[cfg(test)]
pub use tests::Message;

/// The pending reply to a request.
pub struct Reply<R> {
    /// ID of the request.
    pub id: i64,
    result: PhantomData<fn(R)>,
}

impl<R: Serialize> Reply<R> {
    /// Send the reply.
    pub fn give(self, host: &Host, outcome: Answer<R>) {
        answer(host, Some(self.id), outcome);
    }

    /// Send the reply before the agent exits.
    pub fn give_last(self, host: &Host, result: &R) {
        give_last(host, self.id, result);
    }
}

/// Create the verb `name` with parameters of type `P` and a result of type `R`.
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

/// Create the verb `name`, whose function sends the reply itself.
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
    /// Return the job of a request for this verb, with its parsed parameters.
    pub fn job(&self, request: &Request<'_>) -> Result<Job, Refusal> {
        (self.read)(request)
    }

    /// Return this verb, changed so that it runs before the next request is read; such a verb must not wait.
    pub fn in_order(self) -> Self {
        Self { in_order: true, ..self }
    }
}
