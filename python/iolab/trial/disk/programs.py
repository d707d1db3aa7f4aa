"""Run hdparm, thput-fsys and bonnie++: the program from a package, or the agent's program with the same definition
(contract/disk-v1.md).

The output of hdparm 9 and bonnie++ 2.00 is parsed strictly, in exact units: hdparm's MB are MiB (2^20 bytes), and its
kB are KiB; bonnie++'s CSV counts KiB.
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
"""Phase that each line prefix in hdparm's output stands for.

The bytes read are exact. The printed time has two decimals, which is imprecise for short times; the printed rate has
two digits more.
"""
HDPARM_UNITS: Mapping[str, int] = {"MB/sec": MIB, "kB/sec": KIB}
HDPARM_BLOCK = 2 << 20
"""Size of one read of hdparm [bytes]."""
CHUNK = 8192
"""Block size of bonnie++ [bytes]."""
SEEKS = 8192
"""Number of seeks of bonnie++ 2.00."""
COLUMNS: Mapping[str, int] = {"put-byte": 9, "put-block": 11, "rewrite": 13, "get-byte": 15, "get-block": 17,
                              "seeks": 19, "create-sequential": 26, "stat-sequential": 28, "delete-sequential": 30,
                              "create-random": 32, "stat-random": 34, "delete-random": 36}  # fmt: skip
"""Column index from 0 in bonnie++'s CSV, format 1.98, by phase."""
CSV_FORMAT = "1.98"
LEAST_FIELDS = 38
BYTE_PHASES = frozenset({"put-byte", "get-byte"})
SINGLE_BYTES = 3 << 20
"""Number of single bytes that bonnie++ 2.00 writes and reads."""
FILES = 21
"""Column index of the number of small files, in units of 1024."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program(PlainRunner):
    """Runner of a program that a package, the agent, or both provide; the registry row states which."""

    request: Callable[[DiskMeasure, str, str], dict[str, Json]] = lambda *_: {}
    """Function that returns the request keys of the agent's program, except program and definition, for measure, node
    and folder."""
    argv: Callable[[DiskMeasure, str, str], tuple[str, ...]] = lambda *_: ()
    """Function that returns the command of the package's program, for measure, node and mount point."""
    parse: Callable[[str, int], tuple[DiskFigure, ...]] = lambda *_: ()
    """Parser of the program's output and file size [bytes]; raises ValueError if the output is invalid."""
    too_short: Callable[[str], tuple[str, ...]] = lambda _: ()
    """Function that returns the phases that have no figure because they were too short."""

    def run(
        self, site: Site, measure: DiskMeasure, disk: Disk, patience: Patience, device: Residency | None
    ) -> Ran:
        """See Runner."""
        kernel = kernel_of(site.lab, measure.on)
        agent = site.agent_of(kernel)
        node, folder = (
            node_of(disk.volume),
            mount_of(disk.volume),
        )
        behind = (door_of(disk.volume),) if disk.via == "user" else ()
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
            done = run_on_disk(
                agent,
                worked_on(site, measure.on, disk),
                argv,
                request,
                patience,
                reaches,
                alters=not on_device,
            )
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

        `behind` lists further files whose blocks the program's kernel may cache; these caches are dropped before each
        reading phase.
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
    """Parse the output of `hdparm -tT`.

    Raises:
        ValueError: a timing is missing or zero.
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
        raise ValueError(Phrase("trial.hdparm-without-timings", output=repr(text[:200])))
    return tuple(found)


def _timing(phase: str, read: int, bytes_per_s: float) -> DiskFigure:
    if bytes_per_s <= 0 or read <= 0:
        raise ValueError(Phrase("trial.hdparm-measured-nothing", phase=phase, size=read, rate=bytes_per_s))
    took_ns = round(read / bytes_per_s * NS_PER_S)
    return DiskFigure(phase, HDPARM_BLOCK, read, read // HDPARM_BLOCK, took_ns)


def parse_bonnie(text: str, size_bytes: int) -> tuple[DiskFigure, ...]:
    """Parse the output of `bonnie++ -q`: one line of CSV. Phases that were too short are omitted.

    Raises:
        ValueError: the line is invalid.
    """
    fields = text.strip().split("\n")[-1].split(",")
    if fields[0] != CSV_FORMAT or len(fields) < LEAST_FIELDS:
        raise ValueError(Phrase("trial.bonnie-of-other-format", version=CSV_FORMAT, output=repr(text[:200])))
    return tuple(
        figure for phase, at in COLUMNS.items() if (figure := _bonnie_figure(phase, fields, at, size_bytes))
    )


def _bonnie_figure(phase: str, fields: Sequence[str], at: int, size_bytes: int) -> DiskFigure | None:
    written = fields[at].strip()
    if not written.strip("+"):  # the phase was too short for a rate
        return None
    rate = float(written) if written.replace(".", "", 1).isdecimal() else 0.0
    if not rate:
        raise ValueError(Phrase("trial.bonnie-rate-unreadable", rate=repr(written), phase=phase))
    if phase in ("put-byte", "get-byte", "put-block", "get-block", "rewrite"):
        block, moved = (1, min(SINGLE_BYTES, size_bytes)) if phase in BYTE_PHASES else (CHUNK, size_bytes)
        return DiskFigure(phase, block, moved, moved // block, round(moved / (rate * KIB) * NS_PER_S))
    block, operations = (CHUNK, SEEKS) if phase == "seeks" else (0, _files(fields))
    return DiskFigure(phase, block, operations * block, operations, round(operations / rate * NS_PER_S))


def _files(fields: Sequence[str]) -> int:
    """Return the number of small files."""
    written = fields[FILES].strip()
    return int(written) * 1024 if written.isdecimal() else 0


def too_short(text: str) -> tuple[str, ...]:
    """Return the phases for which `bonnie++ -q` prints no figure, because they took less than half a second."""
    fields = text.strip().split("\n")[-1].split(",")
    return tuple(phase for phase, at in COLUMNS.items() if at < len(fields) and fields[at].strip() == "+++++")


def _hdparm_argv(measure: DiskMeasure, node: str, _folder: str) -> tuple[str, ...]:
    return (measure.program, "-tT", node)


def _bonnie_argv(measure: DiskMeasure, _node: str, folder: str) -> tuple[str, ...]:
    # bonnie++ refuses files smaller than twice the memory unless -r states a smaller memory size (in MiB).
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
"""Runners to which the registry rows of these programs refer."""
