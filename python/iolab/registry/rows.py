"""What a row says of a kind of measure, and of an instrument: all that the other rooms need to know of it.

A row names what measures by `Later`, and its other functions import what they need when they are called: to read an
experiment file nothing that measures is loaded. `analysis` and `report` hang what is theirs on the kind's name, in
their own layer.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pkgutil import resolve_name
from typing import Any, ClassVar, Generic, TypeVar, get_args

from pydantic import BaseModel

from iolab.frozen import frozen
from iolab.messages.places import Purpose

Section = Any
View = Any
Place = Any
Lab = Any
Topology = Any
Wanted = Any
Site = Any
Measured = Any
Readings = Any
Instrument = Any
"""Types of the rooms above, of the same names: a row carries functions for these rooms, and knows none of them."""
M = TypeVar("M", bound=BaseModel)
OWN = "iolab"
"""The package of a row that says no other."""


def _nothing(*_: object) -> tuple[()]:
    return ()


def _fits(*_: object) -> None:
    return None


@frozen
class Later:
    """A function that is imported when it is called: rows name so what measures."""

    name: str
    """As module:name."""

    def __call__(self, *arguments: Any) -> Any:
        return resolve_name(self.name)(*arguments)


def kind_of_model(model: type[BaseModel]) -> str:
    """Return the word after `kind:` that a model is for: the one value that its field `kind` may have."""
    field_of_kind = model.model_fields.get("kind")
    match () if field_of_kind is None else get_args(field_of_kind.annotation):
        case (str(word),):
            return word
        case _:
            raise TypeError(f"the model {model.__name__} has no field `kind: Literal[...]` of one word")


@frozen(kw_only=True)
class MeasureKind(Generic[M]):
    """One kind of measure."""

    BASE: ClassVar = "iolab.experiment.model.measures.Measure"
    """What `model` is derived from."""
    model: type[M]
    """Its keys in the language, `kind` is a Literal of the kind's name."""
    duration_ns: "Callable[[M], int]"
    """How long measuring takes [ns], to the best of one's knowledge: what plans are timed by."""
    measure: "Callable[[Site, M], Any] | None"
    """Measures once on a standing lab and returns what was read there, for `conclude`. Raises TrialFailed.
    None: it has `parts`, or is not built and in no plan."""
    conclude: "Callable[[Any, Readings], Measured] | None" = None
    """Concludes from what `measure` returned, and from the counters that instruments read meanwhile; asks no agent.
    None: `measure` returns a `Measured`."""
    parts: "Callable[[M], Mapping[str, int | None]] | None" = None
    """The measures that it takes at once, by name, each with when it begins [ns] or None, where it does not take it.
    None: it measures by itself."""
    as_part: "Callable[[M, int], M] | None" = None
    """The same measure as one of several at once, given its number among them from 0: it takes nothing, such as ports,
    that the others take. None: it can only be taken alone."""
    check_names: "Callable[[View, Section, M], None]" = _fits
    """Notes every name in a measure that leads nowhere in a lab."""
    named_by: frozenset[str] = frozenset()
    """Keys that hold such names."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Programs that measure, each with its Debian package: looked for on every host, put into guests' images, and
    of one version throughout a run."""
    on_hosts: Mapping[str, str] = field(default_factory=dict)
    """As `programs`, but of measures that no guest can have: no image has them."""
    runs: "Callable[[M], Iterable[str]] | None" = None
    """Those of the programs that one measure runs; None: all of them."""
    named_programs: "Callable[[M], Iterable[tuple[str, str]]]" = _nothing
    """Machines of the lab, each with a program that the measure itself names, and that is run there."""
    kernels: "Callable[[M, Topology], Iterable[str]]" = _nothing
    """The kernels on which the programs run; none: this computer's."""
    features: "Callable[[M], Iterable[str]]" = _nothing
    """Features of the kernels on which the programs run, as a host's facts call them."""
    needs: "Callable[[Purpose, M], Iterable[Wanted]]" = _nothing
    """What else it needs, given what asks for it: the measure."""
    check: "Callable[[M, Lab, Topology], None]" = _fits
    """Checks that it goes together with a lab. Raises InputError."""
    joined_by: Callable[[M], object] = repr
    """What of it decides the answer of `check` and `kernels`: measures that are equal in this are checked once."""
    commands: "Callable[[M, Topology], Sequence[str]]" = _nothing
    """What it runs, as a person would type it; what is no command begins with #."""
    leading: tuple[str, ...] = ()
    """The metrics that stand for it in summaries and charts; of these the first that a record has."""
    leading_parts: tuple[str, ...] = ()
    """Where these are of parts alone, the part whose figure stands for all: the first that a record has."""
    methods: Mapping[str, int] = field(default_factory=dict)
    """Metric to the version of the method that computes it, of another package's kind: 1 where it says nothing.
    A version rises when the meaning or the computation of its metric changes. iolab's own are in
    `iolab.trial.methods`."""
    short_forms: "Mapping[str, ShortForm]" = field(default_factory=dict)
    """Words of `iolab quick` that stand for it; none: it needs a file."""
    package: str = OWN
    """The package that brings it, with its version; the registry writes it."""

    name: str = field(init=False)
    """The word after `kind:`."""

    def __post_init__(self) -> None:
        """Take the name from the model. Raises TypeError."""
        object.__setattr__(self, "name", kind_of_model(self.model))


@frozen
class ShortForm:
    """A word of `iolab quick` that stands for a measure between two ends."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys that the measure has until others are given."""
    device: bool = False
    """Frames go from a port of the one end to one of the other, through a device."""
    program: bool = False
    """It runs a program of the user's at the first end."""


@frozen(kw_only=True)
class InstrumentKind(Generic[M]):
    """One kind of instrument: what can stand beside any measure."""

    BASE: ClassVar = "iolab.experiment.model.instruments.WithInstrument"
    """What `model` is derived from."""
    model: type[M]
    """Its keys in the language, `kind` is a Literal of its name."""
    make: "Callable[[Site, M], Instrument] | None"
    """Makes one for a standing lab, not yet started. None: not built yet, and no plan has it."""
    check_names: "Callable[[View, Section, Place, M], None]" = _fits
    """Notes every name in it that leads nowhere in a lab; the place is its own in the measure."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Programs that it runs on this computer, each with its Debian package."""
    needs: "Callable[[Purpose, M], Iterable[Wanted]]" = _nothing
    """What else it needs, given the measure that it stands beside."""
    lab_needs: "Callable[[Lab, M, Purpose], Iterable[Wanted]]" = _nothing
    """What it needs of the kernels of a lab."""
    methods: Mapping[str, int] = field(default_factory=dict)
    """As of a kind of measure."""
    always: bool = False
    """Whether it stands beside every measure unasked, as its model's defaults say."""
    package: str = OWN
    """The package that brings it, with its version; the registry writes it."""

    name: str = field(init=False)
    """The word after `kind:`."""

    def __post_init__(self) -> None:
        """Take the name from the model. Raises TypeError."""
        object.__setattr__(self, "name", kind_of_model(self.model))


AnyMeasureKind = MeasureKind[Any]
AnyInstrumentKind = InstrumentKind[Any]
