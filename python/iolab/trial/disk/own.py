"""The report of the agent's own disk programs (contract/disk-v1.md), checked. Pure."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

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
