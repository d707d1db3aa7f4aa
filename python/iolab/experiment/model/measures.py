"""Models of iolab's measures, one per kind, except those that send frames (`packets.py`).

Other packages provide models of additional kinds.
"""

from hashlib import blake2b
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from pydantic.json_schema import JsonSchemaValue

from iolab.experiment.model.files import Fio
from iolab.experiment.model.instruments import (
    SAMPLE_NS,
    Captures,
    Instruments,
    Samplers,
    Watches,
    WithInstrument,
)
from iolab.experiment.model.machines import Ready
from iolab.experiment.model.quantities import (
    FROZEN,
    BitsPerSecond,
    BlockBytes,
    Count,
    Flag,
    Maybe,
    Nanoseconds,
    Offset,
    Period,
    Setting,
    Shorthand,
    SomeInterval,
    SomeNanoseconds,
    SomeWholeSeconds,
    WholeSeconds,
    Window,
    WriteLength,
    unset,
)
from iolab.registry.disk_programs import DiskProfile, DiskProgramName
from iolab.registry.registry import instrument_kinds

Direction = Literal["one-way", "both-ways", "dual"]
"""both-ways: both directions at once in one iperf3 run (--bidir); dual: two independent iperf3 runs at once."""


class Measure(BaseModel):
    """Keys that all measures have: the kind, and the instruments."""

    model_config = (
        FROZEN  # this field is completed later: the instrument kinds are known only when a file is read
    )
    kind: str
    """Kind of the measure."""
    sample: Maybe[Period] = SAMPLE_NS
    """Interval between readings of every kernel's counters during the measure; short for an instrument of kind
    samplers."""
    watch: Watches = ()
    """Wire monitors; short for instruments of kind watch."""
    capture: Captures = ()
    """Captures of ports; short for instruments of kind capture."""
    instruments: Instruments = ()
    """Instruments that run during the measure, each with its `kind`."""

    @property
    def sets_each_load(self) -> bool:
        """Whether the measure sets the load of each direction, so that two directions offer twice the load of one."""
        return False

    def beside(self) -> tuple[WithInstrument, ...]:
        """Return the instruments that run during the measure, starting with the permanent ones."""
        asked = {one.kind for one in self.instruments}
        always = (row.model() for row in instrument_kinds().values() if row.always and row.name not in asked)
        sampled = () if self.sample is None else (Samplers.model_construct(period=self.sample),)
        return (*always, *sampled, *self.watch, *self.capture, *self.instruments)


class Flow(BaseModel):
    """One sender and one receiver: machines, or machine.port if a machine has several ports."""

    model_config = FROZEN
    src: str = Field(alias="from")
    """Sender."""
    dst: str = Field(alias="to")
    """Receiver."""


class Stream(Measure):
    """A TCP or UDP stream between machines, sent with iperf3."""

    kind: Literal["stream"]
    """Kind of the measure."""
    protocol: Literal["tcp", "udp"] = "tcp"
    """Transport protocol."""
    src: Maybe[str] = Field(default=None, alias="from")
    """Sender: a machine, or machine.port."""
    dst: Maybe[str] = Field(default=None, alias="to")
    """Receiver: a machine, or machine.port. If the receiver is the sender, which must be a host, the stream uses the
    loopback interface."""
    on: Maybe[str] = None
    """The sending machine, if `from` is absent."""
    flows: tuple[Flow, ...] = ()
    """Several flows at once; instead of `from` and `to`."""
    direction: Direction = "one-way"
    """Direction of the stream."""
    duration: SomeWholeSeconds = 10_000_000_000
    """Duration of the measurement."""
    warm_up: WholeSeconds = 0
    """Time before `duration` that is excluded from the result."""
    rate: Maybe[BitsPerSecond] = None
    """Intended rate; default: no limit."""
    congestion: Maybe[Annotated[str, Field(pattern=r"^[a-z0-9_]{1,15}$", strict=True)]] = None
    """TCP congestion control, such as cubic or bbr; default: the setting of the sender's kernel."""
    window: Maybe[Window] = None
    """Size of the socket buffers, which limit the TCP window; default: the kernel tunes them."""
    length: Maybe[WriteLength] = None
    """Bytes per write, or per datagram for UDP; default: the size that fits in the path's MTU."""
    parallel: Count = Field(default=1, ge=1, le=128)
    """Number of connections per flow."""
    ip: Maybe[Literal[4, 6]] = None
    """IP version on links with both; default: the link's version; 4 if it has both."""
    port: Maybe[Annotated[int, Field(ge=1, le=65_000, strict=True)]] = None
    """TCP or UDP port of the first receiver; further flows use the ports after it; default: 5201, the iperf3
    default; with several parallel streams, the second one starts at 5401, and so on."""

    @property
    def sets_each_load(self) -> bool:
        """See Measure."""
        return self.rate is not None


class DiskMeasure(Measure):
    """A disk program on a machine."""

    kind: Literal["disk"]
    """Kind of the measure."""
    on: str
    """The machine whose disk is measured."""
    program: DiskProgramName
    """The disk program. flush-check tests whether data that the disk acknowledged as flushed would survive a crash."""
    profile: Maybe[DiskProfile] = None
    """The workload. legacy-2006: as defined in 2006; honest: also with cold caches and incompressible data; modern:
    also with direct I/O; default: the packaged program with its defaults, thput-fsys as defined, fio with `modern`.
    Only for fio: hdparm: the two timings of hdparm; steady-state: rounds until five of them are equal within a
    tolerance."""
    fio: Maybe[Fio] = None
    """fio settings; default: those of the profile."""
    size: Maybe[BlockBytes] = None
    """Size of the file that is written and read; default: 1G; with flush-check 16M. hdparm reads the device itself
    from its beginning, as do flush-check and fio if the disk has no file system."""
    memory: Maybe[BlockBytes] = None
    """Memory limit of thput-fsys or bonnie++, including the page cache of its files, so that the disk is read
    although the host's memory could hold the file; default: with `legacy-2006` half of the file size, because
    bonnie++ requires a file of twice the memory; otherwise no limit."""
    files: Maybe[Annotated[int, Field(ge=0, le=1 << 20, multiple_of=1024, strict=True)]] = None
    """Number of small files that bonnie++ creates; 0: none; default: 16384."""


def direction_of(measure: Measure) -> str:
    """Return one-way, both-ways or dual; empty: the measure has no direction."""
    return getattr(measure, "direction", "")


def beside_direction(lab_key: str, measure: Measure) -> str:
    """Return a digest of a lab and a measure without its direction.

    Equal digests mean that only the direction differs.
    """
    rest = measure.model_dump_json(exclude={"direction"})
    return blake2b(f"{lab_key} {measure.kind} {rest}".encode(), digest_size=16).hexdigest()


FigureName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", strict=True)]
"""Name of a figure: lower-case letters, digits and _."""

Unit = Annotated[str, Field(min_length=1, max_length=24, strict=True)]
"""The unit in the program's output: 1/s, ms, MB/s, ratio, count. Reports scale s, ns, bit/s, B/s and ratio."""


class Program(BaseModel):
    """A program on a machine.

    In its arguments, standard input and environment, names in braces, such as {far} and {far.eth0}, stand for
    addresses.
    """

    model_config = FROZEN
    on: str
    """The machine on which the program runs."""
    run: tuple[Setting, ...] = ()
    """The program and its arguments, as separate words; no shell interprets them."""
    shell: Maybe[str] = None
    """A script for `sh -c`; instead of `run`."""
    environment: dict[str, Setting] = Field(default_factory=dict)
    """Additional environment variables; LC_ALL is C unless it is set."""
    stdin: Maybe[str] = None
    """Standard input; default: empty."""
    folder: Maybe[str] = None
    """Working directory; default: an empty folder in memory, which is removed after the trial."""


class Server(Program):
    """A server program that is started before the trial's program and stopped after it."""

    ready: Ready = unset(Ready)
    """Readiness condition: the trial continues when the server is ready; default: ready once started."""
    within: SomeNanoseconds = 30_000_000_000
    """Maximum time until the server is ready."""


class Figure(BaseModel):
    """A number in a program's output, selected with `path`, `pattern` or `column`."""

    model_config = FROZEN
    unit: Unit
    """The unit in the program's output."""
    better: Maybe[Literal["larger", "smaller"]] = None
    """Whether higher or lower values are better: reports then state whether a change is an improvement."""
    path: Maybe[str] = None
    """JSONPath (RFC 9535): the output is JSON, and the query selects one number."""
    pattern: Maybe[str] = None
    """Regular expression that matches once; its group `value`, or its only group, is the number.

    A group `unit` is the unit in the output (us, ms, s, Mbit/s): the number is converted to the figure's unit.
    """
    column: Maybe[str] = None
    """Column name: the output is CSV with a header and one row, and the number is in this column."""
    per_line: Maybe[Period] = None
    """Time between output lines with one number each: the figure is their mean, and the series over time is stored."""


class CommandMeasure(Measure, Program):
    """A user-defined program."""

    model_config = FROZEN
    kind: Literal["command"]
    """Kind of the measure."""
    timeout: SomeNanoseconds = 60_000_000_000
    """Maximum run time; a program that runs longer is killed, and the trial fails."""
    duration: SomeNanoseconds = 10_000_000_000
    """Expected run time, for the estimated duration of plans."""
    ip: Maybe[Literal[4, 6]] = None
    """IP version of the addresses that replace names, on links with both versions; default: 4."""
    exit_status: Count = Field(default=0, ge=0, le=255)
    """Exit status of the program if it succeeds."""
    servers: dict[FigureName, Server] = Field(default_factory=dict)
    """Server programs that run in parallel, by name, started in this order."""
    metrics: dict[FigureName, Figure] = Field(default_factory=dict)
    """Figures by name; the first one is the leading metric; default: the run time."""


LEAST_PARTS, MOST_PARTS = 2, 16
"""Minimum and maximum number of measures in one trial."""


def _at_once(value: object) -> object:
    """Convert a list of names to a mapping in which all measures start at the same time."""
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        return value
    return dict.fromkeys(value, 0) if len(set(value)) == len(value) else value


def _names(_: JsonSchemaValue) -> JsonSchemaValue:
    length = {"minItems": LEAST_PARTS, "maxItems": MOST_PARTS}
    return {"type": "array", "items": {"type": "string"}, **length, "uniqueItems": True}


class Together(Measure):
    """Measures that run in parallel, each with its own result: for example a load and an observer."""

    kind: Literal["together"]
    """Kind of the measure."""
    of: Annotated[
        dict[str, Maybe[Offset]],
        Shorthand(_at_once, _names),
        Field(min_length=LEAST_PARTS, max_length=MOST_PARTS),
    ]
    """Names of measures, which run only as parts of this one, with their start times: 0s, 5s, -5s; none: the
    measure does not run. A list of names: all start at 0s."""


MOST_BYTES = 16 << 20
"""Maximum size of a request or response over TCP [bytes]."""

Payload = Annotated[int, Field(ge=24, le=65_507, strict=True)]
"""Payload after the ICMP or UDP header [bytes]."""

Port = Annotated[int, Field(ge=1, le=65_000, strict=True)]
"""A TCP or UDP port."""


class RoundTrips(Measure):
    """Keys that both kinds of round trips have."""

    src: str = Field(alias="from")
    """Requesting end: a machine, or machine.port."""
    dst: str = Field(alias="to")
    """Responding end: a machine, or machine.port."""
    duration: SomeNanoseconds = 10_000_000_000
    """Duration of the measurement."""
    warm_up: Nanoseconds = 0
    """Time before `duration` that is excluded from the result."""
    ip: Maybe[Literal[4, 6]] = None
    """IP version on links with both; default: the link's version; 4 if it has both."""
    port: Maybe[Port] = None
    """Listening port of the responder; default: 5801; with several parallel measures, the second one uses 5802, and
    so on."""


class Ping(RoundTrips):
    """Echo requests at a constant interval, for round-trip times and loss.

    A request does not wait for earlier responses.
    """

    kind: Literal["ping"]
    """Kind of the measure."""
    protocol: Literal["icmp", "udp"] = "icmp"
    """icmp: the responder is the kernel of the other end. udp: the responder is a program."""
    interval: SomeInterval = 1_000_000
    """Interval between requests."""
    size: Payload = 56
    """Payload after the ICMP or UDP header [bytes]."""
    wait: SomeNanoseconds = 1_000_000_000
    """Maximum waiting time for responses after the last request."""


class RequestResponse(RoundTrips):
    """Transactions: a request, its response, then the next request."""

    kind: Literal["rr"]
    """Kind of the measure."""
    protocol: Literal["tcp", "udp"] = "tcp"
    """Transport protocol."""
    connections: Count = Field(default=1, ge=1, le=256)
    """Number of connections; each has one outstanding request, and a thread at each end."""
    request: Annotated[int, Field(ge=1, le=MOST_BYTES, strict=True)] = 64
    """Size of a request; over UDP from 24 to 65507 [bytes]."""
    response: Annotated[int, Field(ge=1, le=MOST_BYTES, strict=True)] = 64
    """Size of a response; over UDP from 24 to 65507 [bytes]."""
    connect_each: Flag = False
    """Whether each request uses a new connection (TCP)."""
    per_second: Maybe[Annotated[int, Field(ge=1, le=10_000_000, strict=True)]] = None
    """Intended transactions per second of all connections together; the latency then counts from the intended start
    time of a transaction; default: a request follows each response immediately."""
    timeout: SomeNanoseconds = 1_000_000_000
    """Time-out of a response: a late response counts as lost (UDP), or fails the trial after ten times the time-out
    (TCP)."""
