"""English."""

from iolab.report.words.en_packets import METRICS, PACKETS
from iolab.report.words.say import read_sentences
from iolab.report.words.words import (
    ChartWords,
    CompareWords,
    LabWords,
    MetricWords,
    PageWords,
    PublishedWords,
    StateWords,
    SummaryWords,
    TableWords,
    TroubleWords,
    Words,
)

EN = Words(
    code="en",
    said=read_sentences("en"),
    state=StateWords(
        complete="Complete",
        partial="Partial",
        line="{state} · trials: {ok} ok, {failed} failed, {invalid} invalid · blocks: {blocks} · {date} · {host}",
        progress="{done} of {planned} planned trials are recorded; the figures below are preliminary.",
        everywhere="In every cell: {levels}.",
        joined_late=(
            "Trials that were added to blocks measured before, by `iolab extend`: {count}. They are compared with the"
            " earlier baseline of their block, not measured in turn with it: what changed on the host in between counts"
            " as their effect."
        ),
        unknown_host="host not recorded",
        no_trials="not started",
    ),
    summary=SummaryWords(
        more="{level} gives {change} over {reference} for {measure}.",
        more_under="{level} gives {change} over {reference} for {measure}, {conditions}.",
        less="{level} gives {change} against {reference} for {measure}.",
        less_under="{level} gives {change} against {reference} for {measure}, {conditions}.",
        same="{level} makes no difference shown against {reference} for {measure}: {change}.",
        untold="{level} against {reference} for {measure}: {change}; too few blocks to tell whether that is more "
        "than chance.",
        untold_under="{level} against {reference} for {measure}, {conditions}: {change}; too few blocks to tell "
        "whether that is more than chance.",
        same_under="{level} makes no difference shown against {reference} for {measure}, {conditions}: {change}.",
        same_detectable=(
            "{level} makes no difference shown against {reference} for {measure}: {change}"
            " (smallest detectable: {detectable})."
        ),
        same_under_detectable=(
            "{level} makes no difference shown against {reference} for {measure}, {conditions}: {change}"
            " (smallest detectable: {detectable})."
        ),
        chance=(
            "{level} makes no difference shown against {reference} for {measure}: {change} is within what chance gives"
            " among so many comparisons."
        ),
        chance_under=(
            "{level} makes no difference shown against {reference} for {measure}, {conditions}: {change} is within what"
            " chance gives among so many comparisons."
        ),
        range="{measure} {metric}: from {low} ({low_cell}) to {high} ({high_cell}).",
        single="{measure} {metric}: {value}.",
        alike="{measure} {metric}: {value} in each of {count} cells.",
        left_out="Further findings, not listed here: {count}. The table of effects has them.",
        legend="Percentages are changes of {metrics}. Square brackets: {level_percent} confidence interval.",
        leading="the {metric} ({measure})",
        no_interval="Where no interval is given there were too few blocks for one.",
        no_estimates="No trial has ended well yet: there are no figures to show.",
        detectable=(
            "{measure}: this run could have shown a change of {detectable} (two-sided 95 %, power 80 %);"
            " blocks of one cell spread by {spread} (median coefficient of variation)."
        ),
        onset="{measure}{conditions}: at {level} offered, datagrams are lost ({loss}).",
        onset_rising=(
            "{measure}{conditions}: from {level} offered on, datagrams are lost ({loss} there, {loss_at_largest} at"
            " {largest})."
        ),
        onset_none="{measure}{conditions}: no loss up to {largest} offered.",
        between="{low} to {high}",
        functional=(
            "Functional, not performance: the figures of {measures} come from emulation. They show that the set-up"
            " works, not how fast it is, and are not to be compared with other figures."
        ),
        change_without_interval="{change} (no interval)",
    ),
    table=TableWords(
        measure="measure",
        metric="metric",
        n="n",
        mean="mean",
        min="min",
        max="max",
        median="median",
        interval="95 % CI",
        change="against baseline",
        baseline="baseline",
        unit="{name} [{unit}]",
        caption="{measure}: {metric}",
        caption_baseline="{measure}: {metric}; baseline: {baseline}",
        all_metrics="{measure}: means of all metrics",
        outlier="{mark} {cell}, block {block}: {value}. {reason} Without it: {without}.",
        apart="It is {z} robust standard deviations from the median of {median}",
        outliers_left_out="Further marked trials: {count}.",
        rows_left_out="Shown: {shown} of {total} cells, those that differ most. The CSV export has all of them.",
        no_figure=(
            "Cells whose trials ended well but gave no {metric}: {count}. The bounds say what is known of them, the"
            " warnings why it is no more."
        ),
        no_baseline=(
            "No change is given for {count} of {total} cells: their baseline ({baseline}) has no figure in the same"
            " block. It failed, is invalid or was not measured."
        ),
        flows="{measure}, per flow: {metric}, means",
        flows_left_out="Shown: {shown} of {total} flows. The CSV export has all of them.",
        both_ways_sum="Rates of both ways are the sum of the two directions.",
        levels_caption="{measure}: {metric} over {over}",
        levels_note="Each figure is of the levels within one block; shown is its mean over the blocks.",
        levels_left_out="Blocks left out because a level has no trial in them: {count}.",
        levels_ratio_caption="{measure}: {metric} over {over}, {above} / {below}",
        levels_ratio_note="Each ratio is of two such figures of one block; shown is its geometric mean over blocks.",
        levels_over="over",
        blocks="blocks",
        effect="level",
        compared_with="compared with",
        effect_change="change [95 % CI]",
        p_value="p (Holm)",
        interaction="{levels} together",
        effects_left_out="Shown: {shown} of {total} effects, those best supported.",
        effects_note=(
            "Each line is the change from one factor level, over all other factors. Two levels together are an"
            " interaction: by how much the pair differs from the two changes acting apart. Each interval holds alone;"
            " p is corrected for all effects of the measure, so it may exceed 0.05 beside an interval without 0."
        ),
        marked="trials marked as outliers: {count}",
    ),
    charts=ChartWords(
        alt="{measure}, {metric}. Means: {cells}.",
        cell="{cell}: {mean}",
        line="{line}: {first} at {at_first} to {last} at {at_last}",
        left_out="Charted: {shown} of {total} cells, those that differ most.",
        block="block",
        trial="trial",
        mean="mean",
        interval="95 % confidence interval of the mean",
        baseline="baseline",
        marked="marked trial (outlier)",
        no_script="The charts need JavaScript; the result table shows the same figures.",
        others="Charts of the other metrics of {measure}",
        everything="all cells",
        save="save as SVG",
        axes={
            "frame_size": "frame size [bytes]",
            "mtu": "MTU [bytes]",
            "window": "window [bytes]",
            "length": "length of a write [bytes]",
        },
        lines_note=(
            "symbols: every trial; lines: their means, in load curves their medians; lines may stand a little apart"
            " so that none hides another"
        ),
        limit="line rate",
    ),
    lab=LabWords(
        alt="Drawing of the lab: {machines}; {links}.",
        machine="{name} ({kind})",
        machine_on="{name} ({kind} on {parent})",
        link="{name}: {ends}; {attributes}",
        kinds={"host": "host", "netns": "namespace", "vm": "virtual machine"},
        bridge="bridge",
        cable="cable",
        mtu="MTU {value}",
        vlan="VLAN {value}",
        offload="offload {value}",
        shape="shape {value}",
        wire="wire {value}",
        attribute="{name} {value}",
        forward="forwards: {value}",
        too_many="The lab has {count} machines, too many for a drawing.",
        as_text="The same as text",
    ),
    trouble=TroubleWords(
        warning="{code}: {count} of {total} trials, e.g. {text}",
        code="warning",
        count="trials",
        example="example",
        advice="advice",
        status="status",
        reason="reason",
        cell="cell",
        blocks="blocks",
        failed="failed",
        invalid="invalid",
        unsupported="not possible on this host",
        none="No warnings; no failed or invalid trials.",
        left_out="Further rows, not listed here: {count}.",
        advice_after="{text} Advice: {advice}",
        terminal_trial="{status}: {where}, trials: {count}: {reason}",
    ),
    page=PageWords(
        summary="Summary",
        results="Results",
        charts="Charts",
        effects="Effects",
        lab="Lab",
        meanings="What the numbers mean",
        troubles="Warnings and lost trials",
        environment="Environment",
        commands="Commands",
        repeat="How to repeat this",
        contents="Contents",
        commands_note="Commands run on the hosts: {total}; different ones: {distinct}.",
        commands_left_out="Further commands, not listed here: {count}. commands.jsonl in the run folder has all.",
        undo="undone by",
        exit_status="exit status",
        repeat_run="iolab run {source} --seed {seed} --blocks {blocks}",
        repeat_report="iolab report {run} --format html",
        repeat_trials="iolab report {run} --format csv",
        experiment="The experiment file",
        seed="seed of the order",
        digest="digest of the plan",
        version="iolab",
        run="run",
        blocks="blocks",
        grouping="changed slowest (split-plot)",
        notes="Notes on the stored run",
        footer="Made by iolab {version}. This file is complete in itself: it fetches nothing.",
        method="Intervals: {methods}. The unit is the trial within its block; cells are in random order in a block.",
        no_facts="No facts about the host were stored.",
    ),
    compare=CompareWords(
        title="{a} (A) against {b} (B)",
        a="A",
        b="B",
        change="B against A",
        verdict="difference",
        overall_shown="{measure} {metric} over all cells compared ({cells}): B differs from A by {change}.",
        overall_same="{measure} {metric} over all cells compared ({cells}): no difference shown, {change}.",
        overall_unknown="{measure} {metric} over all cells compared ({cells}): {change}, with too few trials to judge.",
        only="Only in {run}: cells without a counterpart: {count} ({cells}).",
        shown="shown",
        not_shown="none shown",
        unknown="too few trials",
        only_bounds="a bound: limited by {limits}",
    ),
    published=PublishedWords(
        title="{run} beside the published figures of {source}",
        functional="Functional, not performance: this run was emulated. Its figures show that the set-up works; how"
        " they relate to one another may be read, how they relate to the published ones may not.",
        published="published",
        run="this run",
        ratio="run / published",
        published_change="published, to baseline",
        run_change="run, to baseline",
        statistic="of trials",
        statistic_over="of levels",
        statistics={"mean": "mean", "min": "min", "max": "max", "median": "median"},
        times="{ratio} ×",
        without="Published figures without a counterpart in this run: {count} ({cells}).",
        apart="No cell of this run is as the published ones. Rows show the nearest, published | this run; they differ"
        " in {factors}. Give the run these labels to compare like with like.",
        apart_factor="{factor} (published: {published}; this run: {run})",
        caution="Published figures are of other hosts and times: compare how levels relate, and orders, not rates.",
    ),
    packets=PACKETS,
    metrics={
        **METRICS,
        "received_bps": MetricWords(
            "received rate", "Payload bits that the receiving program got per second, all flows together."
        ),
        "sent_bps": MetricWords(
            "sent rate",
            "Payload bits that the sending program handed to its kernel per second, all flows together.",
        ),
        "loss_ratio": MetricWords(
            "loss", "Datagrams or frames that were sent and did not arrive, as a share of those sent."
        ),
        "unread_ratio": MetricWords(
            "lost unread",
            "Datagrams that reached the receiver's interface and that no program read, as a share of those sent:"
            " the part of the loss that was at the receiver and not on the way.",
        ),
        "jitter_ns": MetricWords(
            "jitter", "Smoothed variation of the datagrams' transit time (RFC 3550, 6.4.1)."
        ),
        "retransmits": MetricWords("retransmits", "TCP segments that the sender's kernel sent again."),
        "rtt_mean_ns": MetricWords("mean RTT", "Mean of the sender's smoothed TCP round-trip time."),
        "cpu_from_ratio": MetricWords(
            "sender CPU", "CPU time of the sending program over elapsed time; 100 % is one CPU."
        ),
        "cpu_to_ratio": MetricWords(
            "receiver CPU", "CPU time of the receiving program over elapsed time; 100 % is one CPU."
        ),
        "host_cpu_ratio": MetricWords(
            "host CPU", "Busy time of all CPUs of the host, as a share of what they had."
        ),
        "host_steal_ratio": MetricWords(
            "stolen time", "Time in which a hypervisor withheld the host's CPUs, as a share of what they had."
        ),
        "fairness": MetricWords(
            "fairness", "Jain's index over the flows' received rates: 1 is an even share."
        ),
    },
    factors={
        "mtu": "MTU",
        "vlan": "VLAN",
        "nic": "NIC",
        "offload": "offload",
        "tx_checksum": "TX checksum offload",
        "rx_checksum": "RX checksum offload",
        "tso": "TSO",
        "gso": "GSO",
        "gro": "GRO",
        "lro": "LRO",
        "frame_size": "frame size",
        "direction": "direction",
        "cpus": "CPUs",
        "pin": "pinning",
        "pin_io": "pinning of I/O threads",
        "loss_ratio": "accepted loss",
    },
    speaking=frozenset({"direction", "forward", "nic", "program", "protocol", "engine"}),
    plain_levels=frozenset({"one-way", "both-ways", "dual"}),
    measures={"tcp": "TCP", "udp": "UDP"},
    facts={
        "hostname": "host",
        "kernel": "kernel",
        "architecture": "architecture",
        "os": "system",
        "cpu_model": "CPU",
        "cpus": "CPUs online",
        "memory_bytes": "memory",
        "clocksource": "clock source",
        "virtualization": "runs on",
        "load_1min_milli": "load before the run",
        "interfaces": "interfaces of the host",
        "offloads": "offloads",
        "programs": "programs",
        "features": "kernel features",
        "settings": "kernel settings",
        "rootless": "without root",
        "uid": "user id",
        "hello": "agent",
        "accelerator": "accelerator",
        "af_xdp": "AF_XDP",
        "af_packet": "AF_PACKET",
        "bpf_live": "BPF live frames",
        "generator_fps": "generator, by frame size",
        "receiver_fps": "receiver without losing any itself",
        "pacing_error_ratio": "pacing: error of the mean rate",
        "lateness_p99_ns": "pacing: 99 % of frames late by at most",
        "latency_p50_ns": "time stamps: median latency of a bare pair",
        "latency_spread_ns": "time stamps: 99th percentile less the least",
        "aa_spread_ratio": "A/A: scatter of the same measurement",
    },
    yes="yes",
    no="no",
    on="on",
    off="off",
    level="{factor} {level}",
    comma=", ",
    interval="[{low}, {high}]",
    at_least="≥ {figure}",
    at_most="≤ {figure}",
    none="–",
)
