"""Define the computation methods of metrics: the version of each, and its code. One table.

If the meaning or the computation of a metric changes, the version of its row rises, as docs/reference/compatibility.md
describes. A test compares the code of each row with the code recorded for its version (scripts/method_versions.py).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from iolab.registry.registry import instrument_kinds, measure_kinds
from iolab.results.metric import Metric, Metrics

FIRST_VERSION = 1
"""Version of a method without a row: the method of a plug-in package that declares no version."""
PACKETS = ("forwarding", "load-curve", "latency")
"""Kinds of packet measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricMethod:
    """Computation method of some metrics."""

    name: str
    """Name of the row in CHANGELOG and scripts/method_versions.py."""
    metrics: tuple[str, ...]
    """Metric names; * stands for any part of a name."""
    kinds: tuple[str, ...] = ()
    """Kinds of measure that have these metrics; empty: the metrics are those of an instrument."""
    version: int = FIRST_VERSION
    """Version, which rises by one with each change of meaning or computation."""
    code: tuple[str, ...]
    """Code that computes the metrics.

    A Python entry is module:name of a function, class or method, and includes all functions in `iolab.trial` that it
    calls, unless it ends with !. A Rust entry is path, or path:function. Code that only passes on a value need not be
    listed.
    """


_SENT = ("crates/engine/src/schedule.rs", "crates/engine/src/pacer/mod.rs")
_RECEIVED = (
    "crates/engine/src/receiver/flow.rs", "crates/engine/src/receiver/mod.rs", "crates/engine/src/receiver/window.rs",
    "crates/frame/src/stamp.rs",
)  # fmt: skip
_LOAD = (
    "iolab.trial.packets.load:LoadBench._record!", "iolab.trial.packets.balance:offered_frames",
    "iolab.trial.packets.stalls:excused_frames", "iolab.trial.packets.stalls:calm_frames", *_SENT, *_RECEIVED,
)  # fmt: skip
_HISTOGRAM = ("iolab.trial.histograms:quantile", "crates/engine/src/histogram.rs")
_STREAM = (
    "iolab.trial.streams.figures:flow_metrics", "iolab.trial.streams.iperf3_report:flow_reports",
    "iolab.trial.streams.iperf3:client_argv", "iolab.trial.streams.iperf3:server_argv",
)  # fmt: skip
_SEARCH = (
    "iolab.trial.packets.forwarding:_metrics!", "iolab.trial.packets.forwarding:limited_by!",
    "iolab.lab.packets.frames:bps_l1", "iolab.lab.packets.frames:bps_l2",
    "iolab.trial.search.steady:find_steady", "iolab.results.search:LoadResult", "iolab.results.search:Found",
    "iolab.trial.search.fast:Fast",
    "iolab.trial.search.mlr:Mlr",
    "iolab.trial.search.bisect:Bisect",
)  # fmt: skip
_WATCH = (
    "iolab.trial.instruments.watched:_metrics", "crates/engine/src/monitor/observer.rs",
    "crates/engine/src/monitor/bins.rs", *_HISTOGRAM,
)  # fmt: skip
_DISK = (
    "iolab.trial.disk.figures:metrics_of", "iolab.trial.disk.own:own_figures",
    "iolab.trial.disk.programs:parse_hdparm", "iolab.trial.disk.programs:parse_bonnie",
    "iolab.trial.disk.fio_report:figure_of", "iolab.trial.disk.fio_jobs:jobs_of",
    "iolab.trial.disk.section_runs:runs_of", "crates/disk/src/bonnie/large.rs", "crates/disk/src/bonnie/small.rs",
    "crates/disk/src/bonnie/seeks.rs", "crates/disk/src/hdparm.rs", "crates/disk/src/thput.rs",
    "crates/disk/src/phase.rs",
)  # fmt: skip
_ROUND_TRIPS = ("iolab.trial.round_trips.requests:requests_of", *_HISTOGRAM)
_PING = ("iolab.trial.round_trips.figures:ping_metrics", *_ROUND_TRIPS,
         "crates/roundtrip/src/probes.rs", "crates/roundtrip/src/echo.rs")  # fmt: skip
_TRANSACTIONS = ("iolab.trial.round_trips.figures:transaction_metrics", *_ROUND_TRIPS,
                 "crates/roundtrip/src/transactions.rs")  # fmt: skip

METHODS: tuple[MetricMethod, ...] = (
    # streams
    MetricMethod(name="stream-rate", metrics=("received_bps", "sent_bps"), kinds=("stream",), code=_STREAM),
    MetricMethod(name="stream-fairness", metrics=("fairness",), kinds=("stream",), code=_STREAM),
    MetricMethod(name="stream-loss", metrics=("loss_ratio",), kinds=("stream",), version=3, code=_STREAM),
    MetricMethod(name="stream-jitter", metrics=("jitter_ns",), kinds=("stream",), code=_STREAM),
    MetricMethod(name="stream-retransmits", metrics=("retransmits",), kinds=("stream",), code=_STREAM),
    MetricMethod(name="stream-rtt", metrics=("rtt_mean_ns",), kinds=("stream",), code=_STREAM),
    MetricMethod(
        name="stream-program-cpu", metrics=("cpu_from_ratio", "cpu_to_ratio"), kinds=("stream",), code=_STREAM
    ),
    MetricMethod(
        name="stream-unread", metrics=("unread_ratio",), kinds=("stream",), version=2,
        code=("iolab.trial.streams.figures:unread_metric", "iolab.trial.streams.figures:arrivals"),
    ),
    MetricMethod(
        name="stream-in-flight", metrics=("in_flight_bytes",), kinds=("stream",),
        code=("iolab.trial.streams.kernels:in_flight", "crates/samplers/src/sockets/message.rs"),
    ),
    MetricMethod(
        name="stream-host-cpu", metrics=("host_cpu_ratio", "host_steal_ratio"), kinds=("stream",),
        code=("iolab.trial.streams.figures:cpu_metrics", "crates/samplers/src/cpu/mod.rs"),
    ),
    # iolab's own frames
    MetricMethod(
        name="searched-rate",
        metrics=(
            "forwarded_fps", "forwarded_strict_fps", "forwarded_per_direction_fps", "forwarded_bps_l?", "lower_fps",
            "upper_fps", "conditional_fps", "sustained_fps", "with_burst_fps", "ci_low_fps", "ci_high_fps",
            "search_*_fps",
        ),
        kinds=("forwarding",), version=2, code=(*_SEARCH, *_LOAD),
    ),
    MetricMethod(
        name="search-effort", metrics=("search_seconds", "load_trials", "perturbed_trials"), kinds=("forwarding",),
        code=("iolab.trial.packets.forwarding:_metrics!", "iolab.trial.packets.forwarding:search!"),
    ),
    MetricMethod(
        name="load-rate", metrics=("offered_fps", "forwarded_fps", "unsent_ratio"), kinds=("latency",),
        code=(
            "iolab.trial.packets.load_curve:measure_latency!", "iolab.results.packets:LoadRecord",
            "iolab.results.search:LoadResult", *_LOAD,
        ),
    ),
    MetricMethod(
        name="curve-rate", metrics=("offered_fps", "forwarded_fps", "unsent_ratio", "rate_fps"),
        kinds=("load-curve",), version=2,
        code=(
            "iolab.trial.packets.load_curve:_step!", "iolab.trial.packets.load_curve:_highest",
            "iolab.trial.packets.load_curve:measure_load_curve!", "iolab.results.search:Found",
            "iolab.results.packets:LoadRecord", "iolab.results.search:LoadResult", *_LOAD,
        ),
    ),
    MetricMethod(
        name="frame-loss", metrics=("loss_ratio",), kinds=PACKETS,
        code=("iolab.trial.packets.figures:mean_loss", "iolab.results.search:LoadResult", *_LOAD),
    ),
    MetricMethod(
        name="frame-latency", metrics=("latency_*_ns",), kinds=("load-curve", "latency"), version=2,
        code=(
            "iolab.trial.packets.figures:latency_metrics", "iolab.trial.histograms:summary",
            "iolab.trial.histograms:merged", *_HISTOGRAM, *_SENT, *_RECEIVED,
        ),
    ),
    MetricMethod(
        name="frame-order", metrics=("reordered_frames", "duplicate_frames"), kinds=("latency",),
        code=("iolab.trial.packets.load:_disorder", *_RECEIVED),
    ),
    MetricMethod(
        name="frame-balance", metrics=("unexplained_frames", "balanced_ratio"), kinds=PACKETS,
        code=("iolab.trial.packets.figures:balance_metrics", "iolab.trial.packets.balance:balances"),
    ),
    MetricMethod(
        name="frame-cpu", metrics=("thread_cpu_ratio", "cpu_busy_ratio", "host_cpu_ratio", "host_steal_ratio"),
        kinds=PACKETS,
        code=(
            "iolab.trial.packets.figures:use_metrics", "iolab.trial.counters.cpu_use:cpu_uses",
            "iolab.trial.counters.cpu_use:thread_uses", "crates/samplers/src/cpu/mod.rs",
        ),
    ),
    # round trips
    MetricMethod(name="ping-rtt", metrics=("rtt_*_ns", "round_trips_per_min"), kinds=("ping",), version=2, code=_PING),
    MetricMethod(name="ping-loss", metrics=("loss_ratio",), kinds=("ping",), code=_PING),
    MetricMethod(
        name="ping-counts", metrics=("requests_sent", "duplicate_answers", "reordered_answers"), kinds=("ping",),
        code=_PING,
    ),
    MetricMethod(
        name="transaction-rate", metrics=("transactions_per_s", "transactions"), kinds=("rr",), code=_TRANSACTIONS
    ),
    MetricMethod(
        name="transaction-latency", metrics=("transaction_*_ns", "connect_*_ns", "round_trips_per_min"),
        kinds=("rr",), version=2, code=_TRANSACTIONS,
    ),
    MetricMethod(name="transaction-loss", metrics=("loss_ratio",), kinds=("rr",), code=_TRANSACTIONS),
    # disks
    MetricMethod(
        name="disk-rate", metrics=("disk_bytes_per_s", "disk_operations_per_s"), kinds=("disk",), version=2, code=_DISK
    ),
    MetricMethod(name="disk-latency", metrics=("disk_latency_*_ns",), kinds=("disk",), version=2, code=_DISK),
    MetricMethod(name="disk-queue", metrics=("disk_under_way",), kinds=("disk",), version=2, code=_DISK),
    MetricMethod(name="disk-program-cpu", metrics=("disk_cpu_ratio",), kinds=("disk",), version=2, code=_DISK),
    MetricMethod(
        name="disk-layers", metrics=("disk_layer_*",), kinds=("disk",), version=2,
        code=("iolab.trial.disk.ledger:layer_metrics", "iolab.trial.disk.ledger:rows_of",
              "iolab.trial.disk.layers:of_block_layer", "iolab.trial.disk.layers:of_process",
              "iolab.trial.disk.layers:of_sockets", "iolab.trial.disk.layers:of_monitor"),
    ),
    MetricMethod(
        name="disk-flush", metrics=("disk_blocks_acknowledged", "disk_blocks_kept"), kinds=("disk",),
        code=("iolab.trial.disk.flush_check:_metrics", "iolab.trial.disk.flush_check:stamps_of",
              "crates/disk/src/stamps.rs"),
    ),
    MetricMethod(
        name="iscsi-session", metrics=("iscsi_agreed_bytes", "iscsi_asked_bytes"), kinds=("disk",),
        code=("iolab.trial.disk.layers:session_metrics",),
    ),
    # user programs
    MetricMethod(
        name="program-time", metrics=("elapsed_s", "cpu_user_s", "cpu_system_s"), kinds=("command",),
        code=("iolab.trial.programs.measure:_own",),
    ),
    # instruments, with any measure
    MetricMethod(
        name="watch-counts", metrics=("watched_bytes", "watched_frames"), code=_WATCH
    ),
    MetricMethod(
        name="watch-windows",
        metrics=("window_rate_*_bps", "idle_ratio", "dispersion_index", "stolen_windows_ratio"),
        code=(*_WATCH, "iolab.trial.instruments.watched:_stolen_metrics"),
    ),
    MetricMethod(
        name="watch-fairness", metrics=("window_fairness_index",),
        code=("iolab.trial.instruments.watched:_fairness", "iolab.trial.instruments.watched:unpack",
              "crates/engine/src/monitor/bins.rs"),
    ),
    MetricMethod(
        name="watch-gaps", metrics=("gap_*_ns",), code=(*_WATCH, "crates/engine/src/monitor/trains.rs")
    ),
    MetricMethod(
        name="watch-trains", metrics=("train_*",), version=2,
        code=(*_WATCH, "crates/engine/src/monitor/trains.rs", "iolab.trial.instruments.watch:train_gap_ns"),
    ),
    MetricMethod(
        name="watch-buckets",
        metrics=("burst_bytes", "line_buffer_bytes", "line_busy_ratio", "predicted_loss_ratio"),
        code=(*_WATCH, "crates/engine/src/monitor/curve.rs", "crates/engine/src/monitor/buffer.rs",
              "crates/engine/src/monitor/line.rs"),
    ),
    MetricMethod(
        name="wire-lateness", metrics=("wire_late_frames", "wire_late_ratio", "pacer_lost_ratio"), version=2,
        code=("iolab.trial.instruments.wires:late_frames", "crates/engine/src/impairment/catch_up.rs"),
    ),
    MetricMethod(
        name="wire-spared", metrics=("wire_spared_frames",),
        code=("iolab.trial.instruments.wires:late_frames", "crates/frame/src/ip_header.rs:is_about_neighbours"),
    ),
    MetricMethod(
        name="queue-share", metrics=("queue_ratio",),
        code=("iolab.trial.instruments.queues:shares", "iolab.trial.instruments.queues:frames_by_queue"),
    ),
    MetricMethod(
        name="capture-counts",
        metrics=("captured_frames", "capture_lost_frames", "capture_overwritten_frames"),
        code=("iolab.trial.instruments.capture:_metrics", "crates/traffic/src/capture/mod.rs"),
    ),
    MetricMethod(
        name="profile", metrics=("profile_*", "profiler_cpu_ratio"),
        code=("iolab.trial.instruments.profile:function_metrics", "iolab.trial.instruments.profile:stacks_in",
              "iolab.trial.instruments.profile:_metrics"),
    ),
    MetricMethod(
        name="lock-waits", metrics=("lock_wait_ns",),
        code=("iolab.trial.instruments.profile:wait_metrics", "iolab.trial.instruments.profile:waits_in"),
    ),
    # metrics that a user defines for a program
    MetricMethod(
        name="program-figure", metrics=("*",), kinds=("command",),
        code=("iolab.trial.programs.measure:_figures", "iolab.trial.programs.figures:figures_in"),
    ),
)  # fmt: skip
"""Table of methods; the first row that matches a metric applies."""


def with_methods(metrics: Iterable[Metric], kind: str) -> Metrics:
    """Return the metrics of a trial with their current method versions."""
    return Metrics(replace(metric, method=version_of(metric.name, kind)) for metric in metrics)


@cache
def version_of(metric: str, kind: str) -> int:
    """Return the current method version of a metric in trials of a kind.

    The row of the measure's kind takes precedence over this table, and this table over the rows of instruments.
    """
    row = measure_kinds().get(kind)
    if row is not None and metric in row.methods:
        return row.methods[metric]
    found = method_of(metric, kind)
    if found is not None:
        return found.version
    stated = (one.methods for one in instrument_kinds().values() if metric in one.methods)
    return next(stated, {metric: FIRST_VERSION})[metric]


def method_of(metric: str, kind: str) -> MetricMethod | None:
    """Return the table row for a metric of a kind of measure; None if no row matches."""
    return next(
        (row for row in METHODS if (not row.kinds or kind in row.kinds) and _pattern(row).fullmatch(metric)),
        None,
    )


@cache
def _pattern(row: MetricMethod) -> re.Pattern[str]:
    words = (re.escape(name).replace(r"\*", ".+").replace(r"\?", ".") for name in row.metrics)
    return re.compile("|".join(words))
