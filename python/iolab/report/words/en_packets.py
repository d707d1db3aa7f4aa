"""Frames in English."""

from iolab.report.words.packets import PacketWords
from iolab.report.words.words import MetricWords

PACKETS = PacketWords(
    ratios="{measure}: both ways over one way",
    ratios_note=(
        "Rates are sums over the directions: 2 means that the directions do not hinder each other, 1 that they share"
        " one resource. The trial behind min and max may be another one each way."
    ),
    ratio_of="{figure}, both / one",
    bits="{measure}: forwarded rate in bits of frames with their checksum",
    bounds="{measure}: strict and robust rate, bounds, and what the search cost (means over trials)",
    short_bounds="{measure}: strict rate and bounds (means over trials)",
    latency="{measure}: one-way latency at shares of the found rate (means over trials)",
    latency_head="{metric}, {load}",
    cpu="{measure}: CPU at the found rate (means over trials)",
    limits="What limited it",
    verdicts="{measure}: what limited each cell",
    limited_by="limited by",
    seen="what was seen",
    load_trials="load trials",
    of="{count} of {total}",
    limit_at="{limit}: {place}",
    limit_names={
        "host": "the disturbed host",
        "generator": "the generator",
        "receiver": "the receiver",
        "thread": "one thread of the device",
        "cpu": "the CPU of one thread of the device",
        "shaper": "a shaper",
        "rule": "a rule or setting",
        "damage": "damaged frames",
        "flows": "single flows that pass nothing",
        "hop": "one place on the way",
        "none": "nothing: no loss beyond the goal",
        "unexplained": "unexplained",
        "line": "the line",
        "load": "the load that was asked for",
        "time": "the time of the search",
    },
    probably="probably {limit}",
    bound_note=(
        "≥: a lower bound, because something else than the device was the limit; ≤: a ratio to such a bound. No"
        " interval is given for these, and no change between two of them."
    ),
    not_certain="Not certain: {doubt}.",
    few_say_so="only {count} of {total} load trials close to the rate show it",
    limited="{measure}: limited by {limit} in {count} of {total} cells.",
    balance_closed="{measure}: every frame of all {total} cells is accounted for.",
    balance_open="{measure}: in {count} of {total} cells some frames are unexplained.",
    busy="CPU {cpu} was {busy} busy while {idle} of the host was idle.",
    verdict_line="{cell}: limited by {limit}. {seen}",
    balance_line=(
        "  offered {offered} = forwarded {forwarded} + drops ({drops}) + unexplained {unexplained}; closed: {closed}"
    ),
    balance="{measure}: balance sheet, frames of all load trials",
    balance_note=(
        "Offered = forwarded + named drops + unexplained. Unexplained below zero: counters show more drops than"
        " frames are missing. Closed: load trials without an unexplained frame."
    ),
    offered="offered",
    forwarded="forwarded",
    drops="named drops",
    drop="{place} {reason} {frames}",
    more_drops="{count} other places {frames}",
    unexplained="unexplained",
    closed="closed",
    cells_left_out="Shown: {shown} of {total} cells, the first in the plan's order. The CSV export has all of them.",
    samples_left_out="Read: the raw samples of {read} of {total} trials, the first blocks of every cell.",
    no_samples="{measure}: no raw samples are stored, so there is no verdict and no balance sheet.",
    curve="{measure}: against load",
    steps="{measure}: load, loss, latency and CPU at each step (medians over trials)",
    load="load",
    load_axis="load [% of the found rate]",
    curve_alt="{title} against load, {cell}: {lines}.",
    curve_rates="offered and forwarded",
    curve_loss="loss and unsent",
    curve_latency="one-way latency",
    curve_cpu="CPU time, of one CPU",
    whole_host="host, all CPUs",
    instrument="The instrument",
    paths="How ports reach their interfaces",
    port="port",
    path="path",
    reasons="why not a faster one",
    trials="trials",
    as_wanted="–",
    shared_some="{measure}, {count} trials: {text}.",
    shared_none="Generator, receiver and device had CPUs of their own.",
    calibration="Calibration of this host",
    no_calibration=(
        "No calibration of this host is stored, so the instrument's own limits are not known here. Advice: run iolab"
        " calibrate, then measure again."
    ),
    spread=(
        "{measure}: cells measured again scatter by {spread} (median over cells of the standard deviation between"
        " blocks); this run could have shown changes of {detectable} and more."
    ),
    at_load="{metric} at {load}",
    at_load_of="{metric} at {load}, {component}",
)
METRICS = {
    "forwarded_fps": MetricWords(
        "forwarded rate",
        "Frames per second, the sum of all directions. Of a search: the rate at which half of the undisturbed trials"
        " lose no more than accepted.",
    ),
    "forwarded_strict_fps": MetricWords(
        "strict rate",
        "Highest load up to which every single trial, disturbed ones too, lost no more than accepted.",
    ),
    "sustained_fps": MetricWords(
        "sustained rate",
        "What the device forwards without end, where a queue or a burst took up the rest of the forwarded rate.",
    ),
    "lower_fps": MetricWords("lower bound", "Highest load that met the goal, below all loads that did not."),
    "upper_fps": MetricWords("upper bound", "Lowest load that did not meet the goal."),
    "ci_low_fps": MetricWords("search from", "Lower end of the 95 % interval of the rate within one search."),
    "ci_high_fps": MetricWords("search to", "Upper end of the 95 % interval of the rate within one search."),
    "search_min_fps": MetricWords("least search", "Smallest rate of whole searches within a trial."),
    "search_mean_fps": MetricWords("mean search", "Mean rate of whole searches within a trial."),
    "search_max_fps": MetricWords("largest search", "Largest rate of whole searches within a trial."),
    "rate_fps": MetricWords("rate at 100 %", "The rate that a load of 100 % stands for."),
    "forwarded_bps_l1": MetricWords(
        "rate on the line",
        "Forwarded rate with preamble and smallest gap: 20 bytes more per frame (layer 1).",
    ),
    "forwarded_per_direction_fps": MetricWords(
        "forwarded rate per direction", "Forwarded rate of each direction that is sent at once."
    ),
    "forwarded_bps_l2": MetricWords(
        "rate of frames", "Forwarded rate times the frame with its checksum (layer 2)."
    ),
    "offered_fps": MetricWords("offered rate", "Frames per second that the interface accepted."),
    "unsent_ratio": MetricWords(
        "unsent", "Frames of the schedule that no interface accepted, as a share of it."
    ),
    "search_seconds": MetricWords("search time", "Time of the whole search."),
    "load_trials": MetricWords("load trials", "Trials at one load that the search ran."),
    "perturbed_trials": MetricWords("disturbed", "Load trials that the host disturbed."),
    "unexplained_frames": MetricWords(
        "unexplained", "Frames that no counter accounts for, absolute values summed."
    ),
    "balanced_ratio": MetricWords("balanced", "Share of load trials without an unexplained frame."),
    "latency_p50_ns": MetricWords("median latency", "One-way latency that half of the frames do not exceed."),
    "latency_p99_ns": MetricWords("99 % latency", "One-way latency that 99 % of the frames do not exceed."),
    "latency_p999_ns": MetricWords(
        "99.9 % latency", "One-way latency that 99.9 % of the frames do not exceed."
    ),
    "latency_max_ns": MetricWords("largest latency", "One-way latency of the slowest frame."),
    "latency_min_ns": MetricWords("least latency", "One-way latency of the fastest frame."),
    "latency_mean_ns": MetricWords("mean latency", "Mean one-way latency of all frames."),
    "reordered_frames": MetricWords("reordered", "Frames that arrived after one that was sent later."),
    "duplicate_frames": MetricWords("duplicates", "Frames that arrived more than once."),
    "cpu_busy_ratio": MetricWords("CPU busy", "Time that one CPU was not idle."),
    "thread_cpu_ratio": MetricWords("thread", "Time that one thread ran, of one CPU."),
    "queue_ratio": MetricWords("queue", "Part of a card's received frames that one of its queues took."),
}
