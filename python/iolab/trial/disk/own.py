"""The agent's own disk programs (contract/disk-v1.md): what is asked of them, and their report, checked. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from iolab.agent.messages import Json
from iolab.experiment.model.measures import DiskMeasure
from iolab.trial.disk.disk_programs import definition_of, size_of
from iolab.trial.disk.figures import DiskFigure
from iolab.untrusted_json import read_untrusted

Count = Annotated[int, Field(ge=0, strict=True)]


class _Part(BaseModel):
    """A part of the report; an agent of a later version may say more."""

    model_config = ConfigDict(frozen=True)


class Residency(_Part):
    """What the page cache had of a file when a phase that reads began."""

    wanted: Literal["as-left", "cold"]
    state: Literal["cold", "warm", "partly", "unknown"]
    how: str
    resident_bytes: Count
    dirty_bytes: Count | None = None
    of_bytes: Count


class Phase(_Part):
    """One column of a program's table."""

    name: str
    block_bytes: Count
    bytes: Count
    operations: Count
    duration_ns: Annotated[int, Field(gt=0, strict=True)]
    cpu_ns: Count
    slowest_ns: Count | None
    cache: Residency | None


class Verified(_Part):
    """Which stamped blocks are there, of those that acknowledged flushes covered."""

    acknowledged: Count
    kept: Count
    stale: Count
    misplaced: Count
    lost: Count
    first_bad: tuple[Count, ...]


class Answer(_Part):
    """How the server behind a disk answered."""

    condition: Literal["answers", "stopped", "gone", "refused", "silent", "foreign"]
    pid: Count | None = None


class OwnReport(_Part):
    """Everything that one request gives."""

    phases: tuple[Phase, ...]
    cache: Residency | None = None
    verified: Verified | None = None
    answer: Answer | None = None


def request_of(measure: DiskMeasure, node: str, folder: str, behind: Sequence[str] = ()) -> dict[str, Json]:
    """Return the request for a measure on the disk `node`, mounted on `folder`.

    `behind`: files of which the program's kernel may keep blocks, too: they are emptied before each phase that reads.
    """
    own = OWN[measure.program](measure, node, folder)
    return {"program": measure.program, **own, **definition_of(measure), "behind": list(behind)}


def _hdparm(_measure: DiskMeasure, node: str, _folder: str) -> dict[str, Json]:
    return {"device": node, "timings": ["cached", "buffered"]}


def _thput_fsys(measure: DiskMeasure, _node: str, folder: str) -> dict[str, Json]:
    return {"folder": folder, "size_bytes": size_of(measure)}


def _bonnie(measure: DiskMeasure, _node: str, folder: str) -> dict[str, Json]:
    edition = "1.03" if measure.profile == "legacy-2006" else "2.00"
    files: dict[str, Json] = {} if measure.files is None else {"files": measure.files}
    return {"edition": edition, "folder": folder, "size_bytes": size_of(measure), **files}


OWN: Mapping[str, Callable[[DiskMeasure, str, str], dict[str, Json]]] = {
    "hdparm": _hdparm,
    "thput-fsys": _thput_fsys,
    "bonnie++": _bonnie,
}
"""What a request has beside its program and the profile's definition, for a node and a folder."""


def parse_own(text: str) -> OwnReport:
    """Return the report that the agent's program wrote.

    Raises:
        ValueError: it is none; the message says why.
    """
    try:
        return OwnReport.model_validate(read_untrusted(text))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"the disk program's report, {place}: {first['msg']}") from error


def own_figures(report: OwnReport) -> tuple[DiskFigure, ...]:
    """Return what a report says: the largest blocks first, for they are what a table shows first."""
    phases = sorted(
        report.phases, key=lambda phase: -phase.block_bytes if phase.name in ("write", "read") else 0
    )
    return tuple(
        DiskFigure(
            phase.name,
            phase.block_bytes,
            phase.bytes,
            phase.operations,
            phase.duration_ns,
            cpu_ns=phase.cpu_ns,
            cache=None if phase.cache is None else phase.cache.state,
        )
        for phase in phases
    )
