"""What fio does to a disk: the keys below `fio:` of a disk measure."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from iolab.experiment.attached import FileText
from iolab.experiment.quantities import FROZEN, BlockBytes, Count, Maybe, Quantity, SomeNanoseconds
from iolab.units import UnitError

Access = Literal["read", "write", "mixed"]
Depth = Annotated[Count, Field(ge=1, le=1024)]
MOST_SECTIONS = 64
"""Of a job file, and combinations of a measure: each has a trial's time."""
MOST_JOB_TEXT = 65_536
"""Of a job file [characters]."""
JOB_FILE_ALLOWED = (
    "the name of a job file of fio in the experiment's folder or below it, of at most 65536 characters"
)


def _job_text(value: object) -> str:
    if not isinstance(value, FileText) or not 0 < len(value.text) <= MOST_JOB_TEXT:
        raise UnitError(value, JOB_FILE_ALLOWED)
    return value.text


JobText = Annotated[str, Quantity(_job_text, "a job file", JOB_FILE_ALLOWED, str, ("mine.fio",))]


class Fio(BaseModel):
    """Every combination of block, depth and access is a run of its own, one after the other."""

    model_config = FROZEN
    blocks: Maybe[Annotated[tuple[BlockBytes, ...], Field(min_length=1)]] = None
    """Sizes of one read or write; absent: 4K, 64K and 1M, with `steady-state` 4K."""
    depths: Maybe[Annotated[tuple[Depth, ...], Field(min_length=1)]] = None
    """Reads and writes that are kept under way; absent: 1, 8 and 32, with `steady-state` 32."""
    access: Maybe[Annotated[tuple[Access, ...], Field(min_length=1)]] = None
    """What is done; mixed: seven reads of ten. Absent: all three, with `steady-state` write."""
    order: Literal["random", "sequential"] = "random"
    """Of the places that are read and written."""
    each: SomeNanoseconds = 2_000_000_000
    """Length of one combination, or of one round of `steady-state`."""
    engine: Literal["io_uring", "libaio", "psync"] = "io_uring"
    """How fio asks the kernel; psync has one read or write under way whatever `depths` says."""
    offered: Maybe[Annotated[Count, Field(ge=1, le=10_000_000)]] = None
    """Reads and writes that are begun per second, at random times, whether or not earlier ones have ended; absent: the
    next begins when one ends."""
    rounds: Annotated[Count, Field(ge=5, le=1000)] = 25
    """The most that `steady-state` waits for."""
    job: Maybe[Annotated[str, Field(min_length=1, max_length=MOST_JOB_TEXT)]] = None
    """A job file of your own, as text: a row, a series and a ledger for each section. It says what is done, and never
    where. docs/how-to/measure-a-disk.md lists the keys that are passed on, set by iolab, or refused."""
    job_file: Maybe[JobText] = None
    """The same, as the name of a file in the experiment's folder or below it."""
    replace: tuple[Annotated[str, Field(pattern=r"^[a-z][a-z_0-9-]{0,40}$", strict=True)], ...] = ()
    """Keys of the job file in whose place iolab has its own value: [filename, size]. The report lists them."""

    @property
    def job_text(self) -> str | None:
        """Return the job file; None: what is done is in the other keys."""
        return self.job if self.job is not None else self.job_file
