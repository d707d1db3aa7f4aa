"""hdparm, thput-fsys and bonnie++: the package's, or the agent's own by its definition (contract/disk-v1.md).

What the packages' print is read strictly, in exact units: hdparm 9 and bonnie++ 2.00. hdparm's MB are MiB (2^20 bytes),
and its kB are KiB; bonnie++'s CSV counts KiB.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from iolab.agent.messages import Json
from iolab.experiment.model.machines import Disk
from iolab.experiment.model.measures import DiskMeasure
from iolab.lab.kernels import kernel_of
from iolab.lab.volumes.places import door_of, mount_of, node_of
from iolab.locale import Phrase
from iolab.messages.disks import MemoryNotLimited, PhasesTooShort
from iolab.trial.disk.caches import program_proved
from iolab.trial.disk.disk_programs import definition_of, row_of, runs_own, size_of
from iolab.trial.disk.figures import DiskFigure
from iolab.trial.disk.memory_limit import limited, memory_of
from iolab.trial.disk.own import Residency, own_figures, parse_own
from iolab.trial.disk.ran import Patience, PlainRunner, Ran, own_program, recorded
from iolab.trial.disk.run_on_disk import Reaches, run_on_disk, worked_on
from iolab.trial.lab_access import Site
from iolab.trial.measurement import TrialFailed
from iolab.units import NS_PER_S

MIB, KIB = 1 << 20, 1 << 10
TIMINGS: Mapping[str, str] = {"Timing cached reads": "cached", "Timing buffered disk reads": "buffered"}
"""How a line of hdparm begins, and its phase. What was read is exact there; the time has two digits behind the point,
which says little of a short one, and the rate two more than it."""
HDPARM_UNITS: Mapping[str, int] = {"MB/sec": MIB, "kB/sec": KIB}
HDPARM_BLOCK = 2 << 20
"""Of one read of hdparm [bytes]."""
CHUNK = 8192
"""Of one block of bonnie++ [bytes]."""
SEEKS = 8192
"""Of bonnie++ 2.00."""
COLUMNS: Mapping[str, int] = {"put-byte": 9, "put-block": 11, "rewrite": 13, "get-byte": 15, "get-block": 17,
                              "seeks": 19, "create-sequential": 26, "stat-sequential": 28, "delete-sequential": 30,
                              "create-random": 32, "stat-random": 34, "delete-random": 36}  # fmt: skip
"""Phase to its place in a line of bonnie++'s CSV, format 1.98, from 0."""
CSV_FORMAT = "1.98"
LEAST_FIELDS = 38
BYTE_PHASES = frozenset({"put-byte", "get-byte"})
SINGLE_BYTES = 3 << 20
"""Single bytes that bonnie++ 2.00 writes and reads."""
FILES = 21
"""Place of the number of small files in such a line, in units of 1024."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program(PlainRunner):
    """A program that one command runs, or the agent; the row says which of both there are."""

    request: Callable[[DiskMeasure, str, str], dict[str, Json]] = lambda *_: {}
    """Of the agent's own, the keys of a request besides program and definition, for a measure, a node and a folder."""
    argv: Callable[[DiskMeasure, str, str], tuple[str, ...]] = lambda *_: ()
    """Of a package's, program and arguments, for a measure, a node and the folder that it is mounted on."""
    parse: Callable[[str, int], tuple[DiskFigure, ...]] = lambda *_: ()
    """Its figures, from what it printed and the size of its file [bytes]; ValueError: it is not to be understood."""
    too_short: Callable[[str], tuple[str, ...]] = lambda _: ()
    """Phases that it gave no figure of, because they were too short."""

    def run(
        self, site: Site, measure: DiskMeasure, disk: Disk, patience: Patience, device: Residency | None
    ) -> Ran:
        """See Runner."""
        kernel = kernel_of(site.lab, measure.on)
        agent = site.agent_of(kernel)
        node, folder = node_of(disk.volume, site.topology.prefix), mount_of(disk.volume, site.topology.prefix)
        behind = (door_of(disk.volume, site.topology.prefix),) if disk.via == "user" else ()
        own, on_device = runs_own(measure), row_of(measure).reads_device
        request = json.dumps(self.request_of(measure, node, folder, behind)) if own else ""
        argv = (own_program(agent), "disk") if own else self.argv(measure, node, folder)
        memory = memory_of(measure)
        with limited(agent, memory) as cgroup:
            reaches = Reaches(
                devices=(node,) if on_device else (),
                folders=() if on_device else (folder,),
                files=behind,
                cgroup=cgroup or None,
            )
            done = run_on_disk(agent, worked_on(site, measure.on, disk), argv, request, patience, reaches)
        if not done.succeeded:
            raise TrialFailed(
                Phrase("errors.failed-with-reason", what=measure.program, reason=done.complaint)
            )
        short = () if own else self.too_short(done.stdout)
        return Ran(
            figures=self._figures(measure, done.stdout, own=own),
            proved=program_proved(
                measure, parse_own(done.stdout) if own else None, device, None if cgroup is None else memory
            ),
            commands=(recorded(measure.on, kernel, argv, done),),
            walls=done.walls,
            said={"request": request, "output": done.stdout, "messages": done.stderr},
            warnings=(
                *((PhasesTooShort(program=measure.program, phases=short),) if short else ()),
                *(
                    (MemoryNotLimited(machine=measure.on, memory_bytes=memory),)
                    if memory and cgroup is None
                    else ()
                ),
            ),
        )

    def request_of(
        self, measure: DiskMeasure, node: str, folder: str, behind: Sequence[str] = ()
    ) -> dict[str, Json]:
        """Return the request for a measure on the disk `node`, mounted on `folder`.

        `behind`: files of which the program's kernel may keep blocks, too: they are emptied before each phase that
        reads.
        """
        own = self.request(measure, node, folder)
        return {"program": measure.program, **own, **definition_of(measure), "behind": list(behind)}

    def _figures(self, measure: DiskMeasure, text: str, *, own: bool) -> tuple[DiskFigure, ...]:
        try:
            if own:
                return own_figures(parse_own(text))
            return self.parse(text, size_of(measure))
        except ValueError as error:
            raise TrialFailed(str(error)) from error


def parse_hdparm(text: str) -> tuple[DiskFigure, ...]:
    """Return what `hdparm -tT` printed.

    Raises:
        ValueError: a timing is missing, or took no time.
    """
    found = []
    for line in text.splitlines():
        head, _, rest = line.strip().partition(":")
        match rest.split():
            case [read, "MB", "in", _, "seconds", "=", rate, unit] if (
                head in TIMINGS and unit in HDPARM_UNITS
            ):
                found.append(_timing(TIMINGS[head], int(read) * MIB, float(rate) * HDPARM_UNITS[unit]))
    if [figure.phase for figure in found] != ["cached", "buffered"]:
        raise ValueError(f"hdparm's output has no two timings: {text[:200]!r}")
    return tuple(found)


def _timing(phase: str, read: int, bytes_per_s: float) -> DiskFigure:
    if bytes_per_s <= 0 or read <= 0:
        raise ValueError(f"hdparm's {phase} reads: {read} bytes, {bytes_per_s} in a second: no measurement")
    took_ns = round(read / bytes_per_s * NS_PER_S)
    return DiskFigure(phase, HDPARM_BLOCK, read, read // HDPARM_BLOCK, took_ns)


def parse_bonnie(text: str, size_bytes: int) -> tuple[DiskFigure, ...]:
    """Return what `bonnie++ -q` printed: one line of CSV. A phase too short for it is left out.

    Raises:
        ValueError: it is no such line.
    """
    fields = text.strip().split("\n")[-1].split(",")
    if fields[0] != CSV_FORMAT or len(fields) < LEAST_FIELDS:
        raise ValueError(f"bonnie++'s line is not of format {CSV_FORMAT}: {text[:200]!r}")
    return tuple(
        figure for phase, at in COLUMNS.items() if (figure := _bonnie_figure(phase, fields, at, size_bytes))
    )


def _bonnie_figure(phase: str, fields: Sequence[str], at: int, size_bytes: int) -> DiskFigure | None:
    written = fields[at].strip()
    if not written.strip("+"):  # too short a time for it to say
        return None
    rate = float(written) if written.replace(".", "", 1).isdecimal() else 0.0
    if not rate:
        raise ValueError(f"bonnie++'s rate of {phase} is {written!r}, no number above 0")
    if phase in ("put-byte", "get-byte", "put-block", "get-block", "rewrite"):
        block, moved = (1, min(SINGLE_BYTES, size_bytes)) if phase in BYTE_PHASES else (CHUNK, size_bytes)
        return DiskFigure(phase, block, moved, moved // block, round(moved / (rate * KIB) * NS_PER_S))
    block, operations = (CHUNK, SEEKS) if phase == "seeks" else (0, _files(fields))
    return DiskFigure(phase, block, operations * block, operations, round(operations / rate * NS_PER_S))


def _files(fields: Sequence[str]) -> int:
    """Return how many small files there were."""
    written = fields[FILES].strip()
    return int(written) * 1024 if written.isdecimal() else 0


def too_short(text: str) -> tuple[str, ...]:
    """Return the phases that `bonnie++ -q` gave no figure of, because they took less than half a second."""
    fields = text.strip().split("\n")[-1].split(",")
    return tuple(phase for phase, at in COLUMNS.items() if at < len(fields) and fields[at].strip() == "+++++")


def _hdparm_argv(measure: DiskMeasure, node: str, _folder: str) -> tuple[str, ...]:
    return (measure.program, "-tT", node)


def _bonnie_argv(measure: DiskMeasure, _node: str, folder: str) -> tuple[str, ...]:
    # It refuses files smaller than twice the memory unless it believes that the memory is less (-r, in MiB).
    mebibytes = size_of(measure) // MIB
    files = 16 if measure.files is None else measure.files // 1024
    sizes = ("-s", f"{mebibytes}M", "-r", str(mebibytes // 2), "-n", str(files))
    return (measure.program, "-q", "-d", folder, *sizes)


def _hdparm(_measure: DiskMeasure, node: str, _folder: str) -> dict[str, Json]:
    return {"device": node, "timings": ["cached", "buffered"]}


def _thput_fsys(measure: DiskMeasure, _node: str, folder: str) -> dict[str, Json]:
    return {"folder": folder, "size_bytes": size_of(measure)}


def _bonnie(measure: DiskMeasure, _node: str, folder: str) -> dict[str, Json]:
    edition = "1.03" if measure.profile == "legacy-2006" else "2.00"
    files: dict[str, Json] = {} if measure.files is None else {"files": measure.files}
    return {"edition": edition, "folder": folder, "size_bytes": size_of(measure), **files}


HDPARM = Program(request=_hdparm, argv=_hdparm_argv, parse=lambda text, _: parse_hdparm(text))
THPUT_FSYS = Program(request=_thput_fsys)
BONNIE = Program(request=_bonnie, argv=_bonnie_argv, parse=parse_bonnie, too_short=too_short)
"""What the rows of these programs name."""
