//! Verbs `relay.open`, `relay.send` and `relay.close`, with the table of relays. The agent does not interpret
//! the relayed messages.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use iolab_protocol::hello::NotificationLine;
use iolab_protocol::relay::{Ended, Place, RelayClose, RelayOpen, RelayOpened, RelaySend};
use iolab_protocol::results::Done;
use iolab_protocol::{ErrorCode, ErrorData, ErrorObject, Notification};
use nix::errno::Errno;

use crate::host::relay::{reach, Line, Link, Listener, Offer, Ticket, Unreached, TAKEN_BYTES};
use crate::host::Host;
use crate::kernel::clock::now_ns;
use crate::kernel::faults::{describe, refused, refused_errno, Answer};
use crate::session::answers::work_aside;
use crate::verbs::{replying, verb, Reply, Verb};

/// Return the verbs for relays.
pub fn verbs() -> [Verb; 3] {
    [
        replying("relay.open", open_and_begin),
        replying("relay.send", send_in_order).in_order(),
        verb("relay.close", |host, params| close(host, &params)),
    ]
}

/// Answer `relay.open`. The relay sends no notifications before [`Link::begin`].
pub fn open(host: &Arc<Host>, params: &RelayOpen) -> Answer<RelayOpened> {
    check(params)?;
    // Do not hold the permission while connecting, because the peer may become available much later.
    drop(host.may_change()?);
    let reserved = host.relays.reserve(&params.id)?;
    let begin_ns = now_ns();
    reserved.fill(open_reserved(host, params)?);
    Ok(RelayOpened { begin_ns, end_ns: now_ns() })
}

fn check(params: &RelayOpen) -> Answer<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if !(1..=64).contains(&params.id.len()) || !params.id.bytes().all(plain) {
        let message = "a relay's id is 1 to 64 letters, digits, '-', '_', '.', ':'";
        return Err(ErrorObject::params(message, params.id.as_str()));
    }
    let path = path(&params.at);
    if !path.starts_with('/') || path.contains('\0') {
        return Err(ErrorObject::params("the path of a relay begins with '/'", path));
    }
    Ok(())
}

fn path(place: &Place) -> &str {
    match place {
        Place::Socket { path } | Place::Terminal { path } => path,
    }
}

fn open_reserved(host: &Arc<Host>, params: &RelayOpen) -> Answer<Arc<Link>> {
    let deadline = Instant::now() + Duration::from_millis(params.timeout_ms).min(FOREVER);
    let line = reach(&params.at, deadline, || host.is_ending())
        .map_err(|unreached| not_reached(params, &unreached))?;
    serve_aside(host, &params.id, line).map_err(|error| refused("starting a relay in", "the agent", &error))
}

fn not_reached(params: &RelayOpen, unreached: &Unreached) -> ErrorObject {
    let path = path(&params.at);
    match unreached {
        Unreached::Never(errno) => refused_errno("opening a relay to", path, *errno),
        Unreached::Abandoned => refused_errno("opening a relay to", path, Errno::ECANCELED),
        Unreached::Late(errno) => {
            let timeout_ms = params.timeout_ms;
            let seen = describe(*errno as i32);
            let message = format!("opening a relay to '{path}': {seen}, and {timeout_ms} ms have passed");
            let data = ErrorData {
                timeout_ms: Some(timeout_ms),
                errno: Some(*errno as i32),
                path: Some(path.to_owned()),
                ..ErrorData::default()
            };
            ErrorObject::new(ErrorCode::Deadline, message).with(data)
        }
    }
}

fn serve_aside(host: &Arc<Host>, id: &str, line: Line) -> std::io::Result<Arc<Link>> {
    let link = Arc::new(Link::new(line)?);
    let (host, served, id) = (Arc::clone(host), Arc::clone(&link), id.to_owned());
    thread::Builder::new().name("relay".to_owned()).stack_size(STACK_BYTES).spawn(move || {
        let outcome = served.serve(&id, &*host);
        let ended = Ended { id: id.clone(), reason: outcome.reason, dropped: outcome.dropped };
        // Send the notification and free the ID together: the controller may reuse the ID after the
        // notification, but not before.
        host.relays.take_and_tell(&id, || {
            // Ignore a failure: other threads detect that the controller has disconnected.
            let _ = host.output.send(&NotificationLine::from(Notification::RelayEnded(ended)));
        });
        served.set_ended();
    })?;
    Ok(link)
}

impl Listener for Host {
    fn has_room(&self) -> bool {
        self.output.has_room()
    }

    fn tell(&self, notification: Notification) {
        if self.output.send(&NotificationLine::from(notification)).is_err() && !self.is_ending() {
            // This thread cannot wait for the shutdown, because the shutdown waits for this thread.
            self.output.give_up();
        }
    }
}

fn open_and_begin(host: &Arc<Host>, params: RelayOpen, reply: Reply<RelayOpened>) {
    reply.give(host, open(host, &params));
    // Notifications start after the reply.
    if let Ok(link) = host.relays.find(&params.id) {
        link.begin();
    }
}

/// A message that waits for room in the outbox.
struct Waiting {
    link: Arc<Link>,
    ticket: Ticket,
    limit: Duration,
}

/// Send messages over a relay in order; only the wait for room runs on a separate thread.
fn send_in_order(host: &Arc<Host>, params: RelaySend, reply: Reply<Done>) {
    match send(host, &params) {
        Ok(None) => reply.give(host, Ok(Done {})),
        Ok(Some(waiting)) => work_aside(host, reply.id, move |host| {
            reply.give(host, finish_sending(&waiting, &params.id));
        }),
        Err(error) => reply.give(host, Err(error)),
    }
}

/// Queue a message. Return the waiting message if the outbox has no room yet.
fn send(host: &Host, params: &RelaySend) -> Answer<Option<Waiting>> {
    if !params.message.is_object_on_a_line() {
        return Err(ErrorObject::params(
            "'message' is a JSON object without carriage returns between its words",
            "",
        ));
    }
    let link = host.relays.find(&params.id)?;
    let mut line = params.message.text().as_bytes().to_vec();
    line.push(b'\n');
    match link.offer(line) {
        Offer::Taken => Ok(None),
        Offer::Full => Err(no_room(&params.id)),
        Offer::Waits(ticket) => {
            let limit = Duration::from_millis(params.timeout_ms).min(FOREVER);
            Ok(Some(Waiting { link, ticket, limit }))
        }
    }
}

fn finish_sending(waiting: &Waiting, id: &str) -> Answer<Done> {
    if waiting.link.wait_until_taken(waiting.ticket, waiting.limit) {
        return Ok(Done {});
    }
    Err(no_room(id))
}

fn no_room(id: &str) -> ErrorObject {
    let message =
        format!("sending over relay '{id}': the other side does not read, and too much waits for it");
    let data = ErrorData { limit: Some(TAKEN_BYTES as u64), ..ErrorData::default() };
    ErrorObject::new(ErrorCode::Busy, message).with(data)
}

/// Close all relays when the agent shuts down.
pub fn close_all(host: &Host) {
    let links = host.relays.each(|_, link| Some(Arc::clone(link)));
    links.iter().for_each(|link| link.close());
    for link in links {
        link.wait_for_end(CLOSE_LIMIT);
    }
}

/// Answer `relay.close`.
pub fn close(host: &Host, params: &RelayClose) -> Answer<Done> {
    let link = host.relays.find(&params.id)?;
    link.close();
    if link.wait_for_end(CLOSE_LIMIT) {
        return Ok(Done {});
    }
    let limit_ms = u64::try_from(CLOSE_LIMIT.as_millis()).unwrap_or(u64::MAX);
    Err(ErrorObject::deadline(format!("closing relay '{}': it does not end", params.id), limit_ms))
}

const STACK_BYTES: usize = 512 * 1024;
/// Maximum wait for the end of a relay, whose thread never blocks for longer than one iteration of its loop.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// Upper limit of all timeouts, so that a deadline never overflows the clock.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 86_400);
