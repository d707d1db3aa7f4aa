"""Processes in user space that a disk's bytes pass (its door, its target): how long each of their threads ran."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iolab.errors import AgentError
from iolab.experiment.model.machines import Disk
from iolab.lab.kernels import kernel_of
from iolab.lab.volumes.exports import by_kernel, control_socket
from iolab.lab.volumes.places import door_of, holder_of, nbd_pid_file
from iolab.trial.lab_access import Site

SHOW_THREADS = (
    'read -r pid <"$0"; for task in "/proc/$pid/task/"*; do'
    ' read -r ran rest <"$task/schedstat" && read -r name <"$task/comm" && echo "${task##*/} $ran $name"; done; true'
)
"""Threads that end meanwhile are left out."""
BUSY_RATIO = 0.95
"""A thread that ran so much of the measured time had none left."""
WHOLE_RATIO = 0.8
"""And so much of the whole time of the programs: what it did outside the measured part then explains no more."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A thread by which a disk's bytes go, and how long it has run by now."""

    machine: str
    """Whose process it belongs to."""
    tid: int
    """Thread id."""
    name: str
    """As the kernel calls it."""
    run_ns: int
    """Since it began [ns]."""


@dataclass(frozen=True, slots=True)
class Busy:
    """A thread that had no time left."""

    machine: str
    """Whose process it belongs to."""
    name: str
    """As the kernel calls it."""
    busy_ratio: float
    """Time that it ran, of what was measured."""


def workers(site: Site, machine: str, disk: Disk) -> tuple[Worker, ...]:
    """Return the threads on a disk's way; of processes whose agent does not answer there are none."""
    found: list[Worker] = []
    for owner, kernel, pid_file in _processes(site, machine, disk):
        try:
            shown = site.agent_of(kernel).run(("sh", "-c", SHOW_THREADS, pid_file))
        except AgentError:
            continue
        if shown.succeeded:
            found += threads_of(owner, shown.stdout)
    return tuple(found)


def threads_of(machine: str, text: str) -> Iterator[Worker]:
    """Read thread id, time and name, a line each."""
    for line in text.splitlines():
        words = line.split(maxsplit=2)
        if len(words) == 3 and words[0].isdecimal() and words[1].isdecimal():
            yield Worker(machine, int(words[0]), words[2], int(words[1]))


def busiest(
    before: Sequence[Worker], after: Sequence[Worker], measured_ns: int, whole_ns: int
) -> Busy | None:
    """Return the thread that had no time left while a disk was measured; None: no thread is known to be so.

    `measured_ns` is what the figures were taken in, `whole_ns` the time of the programs with their beginning and end.
    """
    earlier: Mapping[tuple[str, int], int] = {(one.machine, one.tid): one.run_ns for one in before}
    ran = [(one.run_ns - earlier.get((one.machine, one.tid), 0), one) for one in after]
    if not ran or not measured_ns:
        return None
    most_ns, most = max(ran, key=lambda pair: pair[0])
    if most_ns < max(BUSY_RATIO * measured_ns, WHOLE_RATIO * whole_ns):
        return None
    return Busy(most.machine, most.name, min(1.0, most_ns / measured_ns))


def _processes(site: Site, machine: str, disk: Disk) -> Iterator[tuple[str, str, str]]:
    """Give owner, kernel and file of the process id of each process."""
    lab, volume = site.lab, site.lab.volumes[disk.volume]
    if disk.via == "user":
        yield machine, kernel_of(lab, machine), f"{door_of(disk.volume, site.topology.prefix)}.pid"
    if volume.on is None or volume.export is None:
        return
    if volume.export == "nbd":
        yield volume.on, holder_of(lab, volume), nbd_pid_file(disk.volume, site.topology.prefix)
    elif volume.export == "iscsi" and not by_kernel(lab, volume):
        yield volume.on, holder_of(lab, volume), f"{control_socket(disk.volume, site.topology.prefix)}.pid"
