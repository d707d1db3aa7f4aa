"""Measure the run time of user-space threads on a disk's path (FUSE export, target)."""

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
"""Script that prints threads; threads that end while it runs are omitted."""
BUSY_RATIO = 0.95
"""Share of the measured time above which a thread is saturated [ratio]."""
WHOLE_RATIO = 0.8
"""Minimum run time of a saturated thread, as a share of the programs' whole run time, which ensures that work outside
the measured part does not explain the saturation [ratio]."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A thread on a disk's path, and its cumulative run time."""

    machine: str
    """Machine of the thread's process."""
    tid: int
    """Thread ID."""
    name: str
    """Thread name in the kernel."""
    run_ns: int
    """Run time since the thread's start [ns]."""


@dataclass(frozen=True, slots=True)
class Busy:
    """A saturated thread."""

    machine: str
    """Machine of the thread's process."""
    name: str
    """Thread name in the kernel."""
    busy_ratio: float
    """Run time relative to the measured time [ratio]."""


def workers(site: Site, machine: str, disk: Disk) -> tuple[Worker, ...]:
    """Return the threads on a disk's path; processes whose agent does not answer are omitted."""
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
    """Parse thread ID, run time and name from each line."""
    for line in text.splitlines():
        words = line.split(maxsplit=2)
        if len(words) == 3 and words[0].isdecimal() and words[1].isdecimal():
            yield Worker(machine, int(words[0]), words[2], int(words[1]))


def busiest(
    before: Sequence[Worker], after: Sequence[Worker], measured_ns: int, whole_ns: int
) -> Busy | None:
    """Return the thread that was saturated during the measurement; None if no thread was saturated.

    `measured_ns` is the time that the figures cover; `whole_ns` is the whole run time of the programs.
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
    """Yield owner, kernel and PID file of each process."""
    lab, volume = site.lab, site.lab.volumes[disk.volume]
    if disk.via == "user":
        yield machine, kernel_of(lab, machine), f"{door_of(disk.volume)}.pid"
    if volume.on is None or volume.export is None:
        return
    if volume.export == "nbd":
        yield volume.on, holder_of(lab, volume), nbd_pid_file(disk.volume)
    elif volume.export == "iscsi" and not by_kernel(lab, volume):
        yield (
            volume.on,
            holder_of(lab, volume),
            f"{control_socket(disk.volume)}.pid",
        )
