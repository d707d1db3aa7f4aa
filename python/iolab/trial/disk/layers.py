"""Read the counters of the layers below a disk program, through the agent of each layer's kernel.

The module also reads the parameters of a disk's iSCSI session, and detects other users of the disk that holds the
volume's file.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iolab.agent.messages import Json
from iolab.errors import AgentError
from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Disk
from iolab.lab.kernels import kernel_of
from iolab.lab.topology import Topology
from iolab.lab.volumes.exports import (
    by_kernel,
    control_socket,
    initiator_of,
    offer_command,
    way_of,
)
from iolab.lab.volumes.places import door_of, holder_of, in_memory, nbd_pid_file, node_of, volume_path
from iolab.lab.volumes.scripts import SHOW_NEGOTIATED
from iolab.lab.volumes.served import served_of
from iolab.locale import Phrase, Text
from iolab.messages.disks import DiskUsed
from iolab.results.metric import Dimensions, Metric
from iolab.trial.disk.ledger import Counted, LayerName, Row, between
from iolab.trial.disk.verdict import Line
from iolab.trial.lab_access import Site
from iolab.trial.measurement import TrialFailed
from iolab.units import NS_PER_MS, NS_PER_S

AGREED, ASKED = "iscsi_agreed_bytes", "iscsi_asked_bytes"
LENGTHS = ("FirstBurstLength", "MaxBurstLength", "MaxRecvDataSegmentLength", "MaxXmitDataSegmentLength")
"""Negotiated parameters whose values are sizes; other parameters have words as values."""
SHOW_BELOW = (
    'on=$(stat -c %d "$0") && disk=/sys/dev/block/$((on >> 8 & 0xfff)):$((on & 0xff | on >> 12 & 0xfff00))'
    ' && { [ ! -e "$disk/partition" ] || disk=$disk/..; } && read -r all <"$disk/stat" && echo "$all"'
)
"""Script that prints the counters of the whole disk, even if the file system is on a partition.

The script fails if the file system is not on a device with counters, as with Btrfs. The device numbers are split as in
makedev(3).
"""
SHOW_DISK = (
    'disk=$(readlink -f "$0") && disk=$(readlink -f "/sys/class/block/${disk##*/}")'
    ' && { [ ! -e "$disk/partition" ] || disk=$disk/..; } && read -r all <"$disk/stat" && echo "$all"'
)
"""Script that prints the counters of the whole disk of a block device."""
BUSY_FIELD = 9
"""Field with the disk's busy time [ms] (Documentation/block/stat)."""
OTHERS_RATIO = 0.1
"""Minimum share of foreign bytes or requests on a disk that counts as interference [ratio]."""
BUSY_RATIO = 0.5
"""Minimum share of time for which a disk must be busy for its other users to count as interference [ratio]."""
UNCACHED = (None, "none", "directsync")
"""Cache modes in which a hypervisor passes exactly the guest's requests to the disk."""


@dataclass(frozen=True, slots=True)
class Below:
    """Counters of a disk at one time."""

    counted: Counted
    """Reads and writes."""
    busy_ns: int
    """Busy time [ns]."""
    at_ns: int
    """Time of the reading [ns, monotonic clock]."""


SECTOR = 512
"""Unit of the block layer's counters (Documentation/block/stat) [bytes]."""
DEVICE = (
    'disk=$(readlink -f "$0"); disk=${disk##*/}; set -- "/sys/class/block/$disk/stat"; case $disk in nvme*n*)'
    ' for path in /sys/block/"${disk%n*}"c*"n${disk##*n}"/stat; do [ ! -e "$path" ] || set -- "$path"; done ;; esac;'
)
"""Script that finds a disk's counters.

For an NVMe namespace with several paths (nvme0n1), the path is counted (nvme0c0n1), because Linux 6.1 does not count
the namespace. The shell uses built-in commands only, because reading counters takes time from the trial.
"""
SHOW_DEVICE = DEVICE + ' read -r all <"$1" && echo "$all"'
FIND_STATISTICS = DEVICE + ' readlink -f "$1"'
"""Script that prints the path of a disk's counters (Documentation/block/stat), for any disk name."""
SHOW_LOOP = 'cat "/sys/class/block/$(basename "$(losetup -n -O NAME -j "$0" | head -n 1)")/stat"'
SHOW_PROCESS = 'read -r pid <"$0"; while read -r line; do echo "$line"; done <"/proc/$pid/io"'


@dataclass(frozen=True, slots=True)
class Source:
    """Location of one layer's counters."""

    layer: LayerName
    kernel: str
    netns: str | None
    argv: tuple[str, ...]
    read: Callable[[str], Counted | None]
    """Parser of the command's output; returns None if the output has no counters."""


def look(site: Site, machine: str, disk: Disk) -> dict[LayerName, Counted]:
    """Return the counters of every layer below the program, the nearest first; layers that cannot be read are
    omitted."""
    found: dict[LayerName, Counted] = {}
    for source in _sources(site, machine, disk):
        counted = _counted(site, source) if isinstance(source, Source) else source()
        if counted is not None:
            found[source.layer if isinstance(source, Source) else "hypervisor"] = counted
    return found


def _counted(site: Site, source: Source) -> Counted | None:
    try:
        shown = site.agent_of(source.kernel).run(source.argv, netns=source.netns)
    except AgentError:
        return None
    return source.read(shown.stdout) if shown.succeeded else None


def _sources(site: Site, machine: str, disk: Disk) -> Iterator[Source | Callable[[], Counted | None]]:
    lab, volume = site.lab, site.lab.volumes[disk.volume]
    kernel = kernel_of(lab, machine)
    node = node_of(disk.volume)
    yield Source("device", kernel, None, ("sh", "-c", SHOW_DEVICE, node), of_block_layer)
    place = site.guests.get(machine)
    if disk.via != "kernel" and place is not None and place.block_statistics is not None:
        serial = [one for one in lab.machines[machine].disks if one.via != "kernel"].index(disk)
        statistics = place.block_statistics
        yield lambda: of_monitor(statistics(), f"disk{serial}")
    served = served_of(lab, site.topology, disk.volume)
    if volume.export is None and served is None:
        if disk.via == "user":
            pid_file = f"{door_of(disk.volume)}.pid"
            yield Source("target", kernel, None, ("sh", "-c", SHOW_PROCESS, pid_file), of_process)
        return
    if served is None:
        return
    peer = ("dst", served.address, "dport", "=", f":{served.port}")
    yield Source("network", served.kernel, served.netns, ("ss", "-tinH", *peer), of_sockets)
    if not served.exists:
        yield from _target(site, disk)


def line_of(lab: Lab, topology: Topology, disk: Disk, rows: Sequence[Row], took_ns: int) -> Line | None:
    """Return the link between a disk's initiator and target, and the link's traffic; None if the link's rate is
    unknown.

    A target sends the data of reads, an initiator that of writes.
    """
    counted = next((row.counted for row in rows if row.layer == "network"), None)
    way = way_of(lab, topology, disk.volume) if counted is not None and took_ns else None
    if counted is None or way is None:
        return None
    sent = {way[0].machine: counted.read_bytes, way[1].machine: counted.written_bytes}
    found = [
        Line(end, sent[end.machine] * 8 * NS_PER_S / took_ns, float(impaired.rate.removesuffix("bit")))
        for link in lab.links.values()
        if link.wire is not None and {end.machine for end in link.ends} == set(sent)
        for end, impaired in link.wire.ways(link.ends).items()
        if impaired.rate is not None and not impaired.in_frames
    ]
    return max(found, key=lambda one: one.passed_bps / one.rate_bps, default=None)


def _target(site: Site, disk: Disk) -> Iterator[Source]:
    """Yield the target's counters: those of nvmet's loop device, or of the process that opens the file; LIO counts only
    MiB."""
    volume = site.lab.volumes[disk.volume]
    holder, path = holder_of(site.lab, volume), volume_path(site.lab, disk.volume)
    if volume.cache == "buffered" or (volume.export == "iscsi" and by_kernel(site.lab, volume)):
        return
    if volume.export == "nvme-tcp":
        yield Source("target", holder, None, ("sh", "-c", SHOW_LOOP, path), of_block_layer)
        return
    if site.lab.machines[volume.on or ""].kind == "vm":
        return  # the file is in memory: no block reaches a disk
    socket = control_socket(disk.volume)
    pid_file = nbd_pid_file(disk.volume) if volume.export == "nbd" else f"{socket}.pid"
    yield Source("target", holder, None, ("sh", "-c", SHOW_PROCESS, pid_file), of_process)


def of_block_layer(text: str) -> Counted | None:
    """Parse /sys/block/DISK/stat; kernels since 5.5 count flushes."""
    fields = [int(word) for word in text.split() if word.isdecimal()]
    if len(fields) < 11:
        return None
    return Counted(
        read_bytes=fields[2] * SECTOR, written_bytes=fields[6] * SECTOR, reads=fields[0], writes=fields[4],
        flushes=fields[15] if len(fields) > 15 else None,
    )  # fmt: skip


def of_process(text: str) -> Counted | None:
    """Parse /proc/PID/io: bytes that a process read from and wrote to the block layer."""
    words = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        return Counted(read_bytes=int(words["read_bytes"]), written_bytes=int(words["write_bytes"]))
    except (KeyError, ValueError):
        return None


def of_sockets(text: str) -> Counted | None:
    """Parse `ss -ti` of the initiator's sockets: bytes that TCP acknowledged in each direction."""
    got = [int(found) for found in re.findall(r"\bbytes_received:(\d+)", text)]
    sent = [int(found) for found in re.findall(r"\bbytes_acked:(\d+)", text)]
    return Counted(read_bytes=sum(got), written_bytes=sum(sent)) if got or sent else None


def of_monitor(answer: Json, name: str) -> Counted | None:
    """Parse QMP's query-blockstats of one drive."""
    if not isinstance(answer, list):
        return None
    for one in answer:
        if isinstance(one, dict) and one.get("device") == name and isinstance(one.get("stats"), dict):
            stats = one["stats"]
            try:
                return Counted(
                    read_bytes=int(stats["rd_bytes"]), written_bytes=int(stats["wr_bytes"]),
                    reads=int(stats["rd_operations"]), writes=int(stats["wr_operations"]),
                    flushes=int(stats["flush_operations"]),
                )  # fmt: skip
            except (KeyError, TypeError, ValueError):
                return None
    return None


def offered(site: Site, disk: Disk) -> str | None:
    """Return the initiators logged in to the disk's target, and its parameters; None if the disk is not a LUN.

    Raises:
        TrialFailed: the target does not show its initiators and parameters.
    """
    volume = site.lab.volumes[disk.volume]
    if volume.export != "iscsi" or initiator_of(site.lab, disk.volume) is None:
        return None
    command = offer_command(site.lab, disk.volume)
    return _shown(
        site, holder_of(site.lab, volume), command, Phrase("trial.offers-of-target", volume=disk.volume)
    )


def agreed(site: Site, machine: str, disk: Disk) -> Mapping[str, str]:
    """Return the negotiated parameters of a kernel initiator's session; empty if there is no such session.

    Raises:
        TrialFailed: the initiator does not show the parameters.
    """
    served = served_of(site.lab, site.topology, disk.volume) if disk.via == "kernel" else None
    if served is None or served.protocol != "iscsi":
        return {}
    command = ("sh", "-c", SHOW_NEGOTIATED, served.target)
    text = _shown(
        site, kernel_of(site.lab, machine), command, Phrase("trial.settings-agreed-on", volume=disk.volume)
    )
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def session_metrics(values: Mapping[str, str], asked: Mapping[str, str]) -> Iterator[Metric]:
    """Yield metrics of the negotiated sizes, and of the sizes that the experiment requested."""
    for name in LENGTHS:
        if values.get(name, "").isdecimal():
            yield Metric.of(AGREED, float(values[name]), Dimensions(part=name))
        if name in asked:
            yield Metric.of(ASKED, float(asked[name]), Dimensions(part=name))


def _shown(site: Site, kernel: str, command: tuple[str, ...], what: Text) -> str:
    try:
        shown = site.agent_of(kernel).run(command)
    except AgentError as error:
        raise TrialFailed(Phrase("trial.reading-failed", what=what, reason=error)) from error
    if not shown.succeeded:
        raise TrialFailed(Phrase("trial.reading-failed", what=what, reason=shown.complaint))
    return shown.stdout


def look_below(site: Site, disk: Disk) -> Below | None:
    """Return the counters of the disk below a volume; None if the trial's own traffic cannot be told apart from other
    traffic."""
    volume = site.lab.volumes[disk.volume]
    kept = volume.cache == "buffered" or disk.cache not in UNCACHED
    exists = volume.existing_target is not None  # the disk of an existing target is on a different host
    by_lio = volume.export == "iscsi" and by_kernel(site.lab, volume)
    if kept or exists or by_lio or in_memory(site.lab, volume) or not site.alone:
        return None
    agent = site.agent_of(holder_of(site.lab, volume))
    try:
        below = (
            (SHOW_DISK, node_of(disk.volume))
            if volume.exists
            else (SHOW_BELOW, volume_path(site.lab, disk.volume))
        )
        shown = agent.run(("sh", "-c", *below))
    except AgentError:
        return None
    return below_of(shown.stdout, shown.begin_ns) if shown.succeeded else None


def below_of(text: str, at_ns: int) -> Below | None:
    """Parse /sys/block/DISK/stat."""
    counted, words = of_block_layer(text), text.split()
    return None if counted is None else Below(counted, int(words[BUSY_FIELD]) * NS_PER_MS, at_ns)


def used_by_others(
    volume: str, before: Below | None, after: Below | None, own: Counted
) -> Iterator[DiskUsed]:
    """Yield a warning if other users of a disk distort a trial's results.

    `own` is the maximum traffic that the trial itself caused: the counters of the lowest layer.
    """
    if before is None or after is None or after.at_ns <= before.at_ns:
        return
    every = between(before.counted, after.counted)
    all_bytes, own_bytes = every.read_bytes + every.written_bytes, own.read_bytes + own.written_bytes
    ratios = [_others(all_bytes, own_bytes)]
    if own.reads is not None and own.writes is not None:
        ratios.append(_others((every.reads or 0) + (every.writes or 0), own.reads + own.writes))
    busy_ratio = min(1.0, (after.busy_ns - before.busy_ns) / (after.at_ns - before.at_ns))
    if max(ratios) >= OTHERS_RATIO and busy_ratio >= BUSY_RATIO:
        yield DiskUsed(
            volume=volume,
            others_ratio=max(ratios),
            others_bytes=max(0, all_bytes - own_bytes),
            busy_ratio=busy_ratio,
        )


def _others(every: int, own: int) -> float:
    return max(0.0, 1 - own / every) if every else 0.0
