"""Parse the report of the agent's own disk programs (contract/disk-v1.md). Pure."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from iolab.trial.disk.figures import DiskFigure
from iolab.trial.measurement import invalid_field
from iolab.untrusted_json import read_untrusted

Count = Annotated[int, Field(ge=0, strict=True)]


class _Part(BaseModel):
    """A part of the report; unknown fields of a later agent version are ignored."""

    model_config = ConfigDict(frozen=True)


class Residency(_Part):
    """Page cache content of a file at the start of a reading phase."""

    wanted: Literal["as-left", "cold"]
    state: Literal["cold", "warm", "partly", "unknown"]
    how: str
    resident_bytes: Count
    dirty_bytes: Count | None = None
    of_bytes: Count


class Phase(_Part):
    """One phase of a program."""

    name: str
    block_bytes: Count
    bytes: Count
    operations: Count
    duration_ns: Annotated[int, Field(gt=0, strict=True)]
    cpu_ns: Count
    slowest_ns: Count | None
    cache: Residency | None


class Verified(_Part):
    """Number of stamped blocks that are present, among those covered by acknowledged flushes."""

    acknowledged: Count
    kept: Count
    stale: Count
    misplaced: Count
    lost: Count
    first_bad: tuple[Count, ...]


class Answer(_Part):
    """Answer of the server behind a disk."""

    condition: Literal["answers", "stopped", "gone", "refused", "silent", "foreign"]
    pid: Count | None = None


class Obstacle(_Part):
    """A reason why a device must not be written."""

    kind: str
    name: str
    part: str


class Device(_Part):
    """A block device as its kernel shows it."""

    path: str
    name: str
    disks: tuple[str, ...]
    identities: tuple[str, ...]
    sequence: Count | None = None
    bytes: Count
    obstacles: tuple[Obstacle, ...]


class OwnReport(_Part):
    """Complete answer to one request."""

    phases: tuple[Phase, ...]
    cache: Residency | None = None
    verified: Verified | None = None
    answer: Answer | None = None
    devices: tuple[Device, ...] = ()


def parse_own(text: str) -> OwnReport:
    """Return the report of the agent's program.

    Raises:
        ValueError: the text is not a report; the message states the error.
    """
    try:
        return OwnReport.model_validate(read_untrusted(text))
    except ValidationError as error:
        raise ValueError(invalid_field("iolab-agent disk", error)) from error


def own_figures(report: OwnReport) -> tuple[DiskFigure, ...]:
    """Return the phases of a report, in the order of tables: phases with the largest blocks first."""
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
