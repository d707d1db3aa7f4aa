//! Conversion of the results of all threads to the reply: closes the frame counts and combines stalls with kernel
//! statistics.

use iolab_engine::{self as engine, Departures};
use iolab_port::TxStats;
use iolab_protocol::histogram::Histogram;
use iolab_protocol::traffic::{
    FlowReport, FlowSummary, ReceiverReport, SenderReport, SocketCounts, Stall, StallCause, TrafficRun,
};
use iolab_protocol::ErrorObject;

use crate::cast::{Cast, ReceiverRole, SenderRole};
use crate::faults::bad_params;
use crate::observe::{Moment, StealLog};
use crate::ports::OpenPort;
use crate::receive::{Lapse, Received};
use crate::send::Sent;

/// Maximum number of individually listed flows.
const WORST_FLOWS: usize = 16;

/// The results of all threads of a trial.
pub struct Books {
    /// Results of each sender's threads, at least one per sender.
    pub sent: Vec<Vec<Sent>>,
    pub received: Vec<Received>,
    pub steal: StealLog,
}

/// Counts of one sender for the reports of its receivers.
struct Balance {
    sent_per_account: Box<[u64]>,
    /// Number of frames that were passed to the interface but not accepted.
    refused_frames: u64,
}

/// Create the reports of all senders and receivers.
pub fn assemble(
    cast: &Cast<'_>,
    params: &TrafficRun,
    books: Books,
) -> Result<(Vec<SenderReport>, Vec<ReceiverReport>), ErrorObject> {
    let Books { sent, received, steal } = books;
    let mut balances = Vec::new();
    let mut senders = Vec::new();
    for ((role, asked), sent) in cast.senders.iter().zip(&params.senders).zip(sent) {
        let (report, balance) = sender(role, asked.tag, sent, &steal);
        senders.push(report);
        balances.push(balance);
    }
    let receivers = (cast.receivers.iter().zip(received))
        .map(|(role, received)| receiver(role, received, &balances[role.of], &steal))
        .collect::<Result<_, _>>()?;
    Ok((senders, receivers))
}

/// Create one report for all threads of a sender: sums, the stalls of each thread, and the gaps of the combined
/// stream.
fn sender(role: &SenderRole<'_>, tag: u16, threads: Vec<Sent>, steal: &StealLog) -> (SenderReport, Balance) {
    let port = role.port;
    let count = threads.len() as u64;
    let stalls = stalls(port, &threads, steal);
    let mut uses = threads.iter().zip(port.send_cpus()).map(|(sent, cpu)| sent.used.used(cpu));
    let (thread, further_threads) = (uses.next().unwrap_or_default(), uses.collect());
    let logs: Vec<_> = threads.iter().filter_map(|sent| sent.departures.as_ref()).collect();
    let merged_gaps = (count > 1).then(|| Departures::gaps(&logs));
    let mut threads = threads.into_iter();
    let Some(mut whole) = threads.next() else { unreachable!("a sender has a thread") };
    threads.for_each(|further| whole.merge(further));
    let Sent { books, handed_bytes, gap_frames, port: counts, begin_ns, end_ns, slices, .. } = whole;
    let TxStats {
        refused_frames, discarded_frames, invalid_frames, pending_frames, busy_answers, kicks, ..
    } = counts;
    let pacing = books.pacing;
    let lost_frames = refused_frames + discarded_frames + invalid_frames + pending_frames;
    let lost_frames = lost_frames.min(pacing.sent_frames);
    let offered_frames = pacing.sent_frames - lost_frames;
    let unsent_frames = pacing.intended_frames.saturating_sub(offered_frames);
    let dropped_by_us_frames = unsent_frames.saturating_sub(refused_frames + invalid_frames);
    let sent_per_account = role.plan.contents.per_account(books.sent_per_flow);
    let report = SenderReport {
        port: port.params.name.clone(),
        tag,
        begin_ns,
        end_ns,
        intended_frames: pacing.intended_frames,
        gap_frames,
        unstamped_frames: role
            .plan
            .contents
            .unstamped_flow()
            .map_or(0, |flow| sent_per_account[flow as usize]),
        offered_frames,
        offered_bytes: share(handed_bytes, offered_frames, pacing.sent_frames),
        unsent_frames,
        refused_frames,
        invalid_frames,
        dropped_by_us_frames,
        busy_answers,
        blocked_polls: pacing.blocked_polls,
        kicks,
        slipped_ns: pacing.slipped.0 / count,
        gap_ns: histogram(merged_gaps.as_ref().unwrap_or(&pacing.gaps)),
        lateness_ns: histogram(&pacing.lateness),
        bursts: (0..).zip(pacing.bursts.iter().copied()).filter(|&(_, times)| times > 0).collect(),
        stalls,
        stall_count: pacing.stall_count,
        slices_frames: slices.counts().into(),
        thread,
        further_threads,
    };
    (report, Balance { sent_per_account, refused_frames: lost_frames })
}

/// Return the stalls of all threads, oldest first. The schedule shift of a thread is divided by the number of
/// threads, as its share of the whole schedule.
fn stalls(port: &OpenPort, threads: &[Sent], steal: &StealLog) -> Vec<Stall> {
    let mut all = Vec::new();
    for ((thread, sent), cpu) in (0..).zip(threads).zip(port.send_cpus()) {
        all.extend(sent.books.pacing.stalls.iter().enumerate().map(|(number, entry)| {
            let used = sent.in_stalls.get(number).copied().unwrap_or_default();
            let found = stall(*entry, used, cpu, steal);
            Stall { slipped_ns: found.slipped_ns / threads.len() as u64, thread, ..found }
        }));
    }
    all.sort_by_key(|stall| stall.begin_ns);
    all.truncate(engine::STALL_LOG_ENTRIES);
    all
}

/// Scale the bytes by the accepted fraction of frames: the interface does not report which frames it refused, so
/// their mean size is used.
fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(bytes) * u128::from(part);
    u64::try_from(product / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

fn receiver(
    role: &ReceiverRole<'_>,
    received: Received,
    balance: &Balance,
    steal: &StealLog,
) -> Result<ReceiverReport, ErrorObject> {
    let Received { account, port, drained, begin_ns, end_ns, used, lapses, lapse_count } = received;
    let books = account.finish(&balance.sent_per_account).map_err(|error| bad_params("receivers", &error))?;
    let totals = books.totals.without_refused(balance.refused_frames);
    let cpu = role.port.params.receive_cpu;
    Ok(ReceiverReport {
        port: role.port.params.name.clone(),
        of: role.of,
        waiting: role.manner.waiting,
        drained,
        begin_ns,
        end_ns,
        first_ns: books.first_at.map(|at| at.0),
        last_ns: books.last_at.map(|at| at.0),
        received_frames: totals.received_frames,
        unstamped_frames: role.unstamped_flow.map_or(0, |flow| books.flows[flow as usize].received_frames),
        received_bytes: books.arrived_bytes,
        lost_frames: totals.lost_frames,
        surplus_frames: totals.surplus_frames,
        duplicate_frames: totals.duplicate_frames,
        reordered_frames: totals.reordered_frames,
        late_frames: totals.too_late_frames,
        negative_latency_frames: totals.negative_latency_frames,
        corrupted_frames: books.stray.corrupted_frames(),
        foreign_frames: books.stray.foreign_frames,
        other_tag_frames: books.stray.other_tag_frames,
        unknown_flow_frames: books.stray.unknown_flow_frames,
        latency_ns: histogram(&books.latency),
        reorder_extent_frames: histogram(&books.reorder_extent),
        reorder_density: books.reorder_density.into(),
        flows: flows(&books.flows[..role.stamped_flows()]),
        socket: SocketCounts {
            received_frames: port.received_frames,
            filtered_frames: port.foreign_frames,
            dropped_frames: port.dropped_frames,
            ring_full_frames: port.ring_full_frames,
            no_buffer_frames: port.no_buffer_frames,
            truncated_frames: port.truncated_frames,
            poll_stamped_frames: port.poll_stamped_frames,
        },
        stalls: lapses.iter().map(|lapse| lapse_stall(lapse, cpu, steal)).collect(),
        stall_count: lapse_count,
        slices_frames: books.slices.into(),
        arrived_slices_frames: books.arrivals.frames.into(),
        least_latency_slices_ns: books.arrivals.least_latency_ns.into(),
        after_end_frames: books.arrivals.after_end_frames,
        thread: used.used(cpu),
    })
}

fn stall(entry: engine::StallEntry, used: Moment, cpu: Option<usize>, steal: &StealLog) -> Stall {
    let (begin_ns, end_ns) = (entry.begin.0, entry.end.0);
    Stall {
        begin_ns,
        end_ns,
        late_ns: entry.late.0,
        slipped_ns: entry.slipped.0,
        cause: match entry.cause {
            engine::StallCause::NotAsked => StallCause::NotAsked,
            engine::StallCause::NoRoom => StallCause::NoRoom,
        },
        steal_ns: cpu.and_then(|cpu| steal.between(cpu, begin_ns, end_ns)),
        wait_ns: used.wait_ns,
        involuntary_switches: used.involuntary_switches,
        thread: 0,
    }
}

fn lapse_stall(lapse: &Lapse, cpu: Option<usize>, steal: &StealLog) -> Stall {
    let Lapse { begin_ns, end_ns, used } = *lapse;
    Stall {
        begin_ns,
        end_ns,
        late_ns: end_ns - begin_ns,
        slipped_ns: 0,
        cause: StallCause::NotAsked,
        steal_ns: cpu.and_then(|cpu| steal.between(cpu, begin_ns, end_ns)),
        wait_ns: used.wait_ns,
        involuntary_switches: used.involuntary_switches,
        thread: 0,
    }
}

fn flows(reports: &[engine::FlowReport]) -> FlowSummary {
    let mut lossy: Vec<_> = (0..).zip(reports).filter(|(_, report)| report.lost_frames > 0).collect();
    let with_loss = lossy.len();
    lossy.sort_by_key(|&(flow, report)| (std::cmp::Reverse(report.lost_frames), flow));
    lossy.truncate(WORST_FLOWS);
    let worst = lossy.into_iter().map(|(flow, report)| FlowReport {
        flow,
        sent_frames: report.sent_frames,
        received_frames: report.received_frames,
        lost_frames: report.lost_frames,
        duplicate_frames: report.duplicate_frames,
        reordered_frames: report.reordered_frames,
        latency_min_ns: report.latency_min_ns,
        latency_max_ns: report.latency_max_ns,
    });
    FlowSummary {
        count: u32::try_from(reports.len()).unwrap_or(u32::MAX),
        with_loss: u32::try_from(with_loss).unwrap_or(u32::MAX),
        worst: worst.collect(),
    }
}

/// Convert a histogram to the protocol type.
pub fn histogram(of: &engine::Histogram) -> Histogram {
    Histogram {
        count: of.count(),
        sum: of.sum(),
        min: of.min(),
        max: of.max(),
        above: of.above(),
        buckets: of
            .buckets()
            .filter(|bucket| bucket.count > 0)
            .map(|bucket| (bucket.low, bucket.count))
            .collect(),
    }
}
