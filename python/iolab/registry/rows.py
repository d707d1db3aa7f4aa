"""The row of a measure kind or an instrument kind: all properties that other packages of iolab use.

A row refers to its measuring function with `Later`, and its other functions import modules when they are called, so
that reading an experiment file imports no measuring code. `analysis` and `report` store their own properties of a kind
under its name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pkgutil import resolve_name
from typing import Any, ClassVar, Generic, TypeVar, get_args

from pydantic import BaseModel

from iolab.frozen import frozen
from iolab.locale import Phrase, Text
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
"""Types of higher layers, under their original names: a row contains functions for these layers, but does not import
the layers."""
M = TypeVar("M", bound=BaseModel)
OWN = "iolab"
"""Default package of a row."""


def _nothing(*_: object) -> tuple[()]:
    return ()


def _fits(*_: object) -> None:
    return None


@frozen
class Later:
    """A function that is imported when it is called; rows use it for their measuring functions."""

    name: str
    """Location of the function, as module:name."""

    def __call__(self, *arguments: Any) -> Any:
        return resolve_name(self.name)(*arguments)


def kind_of_model(model: type[BaseModel]) -> str:
    """Return the value of `kind:` for a model: the only valid value of its field `kind`."""
    field_of_kind = model.model_fields.get("kind")
    match () if field_of_kind is None else get_args(field_of_kind.annotation):
        case (str(word),):
            return word
        case _:
            raise TypeError(Phrase("registry.model-without-kind", model=model.__name__))


@frozen(kw_only=True)
class MeasureKind(Generic[M]):
    """One kind of measure."""

    BASE: ClassVar = "iolab.experiment.model.measures.Measure"
    """Base class of `model`."""
    model: type[M]
    """Model of the kind's keys in experiment files; its field `kind` is a Literal of the kind's name."""
    duration_ns: "Callable[[M], int]"
    """Estimated duration of the measurement [ns], for the duration of plans."""
    measure: "Callable[[Site, M], Any] | None"
    """Function that measures once in an existing lab, and returns the readings for `conclude`. Raises TrialFailed;
    None: the kind has `parts`, or is not supported yet, so no plan contains it."""
    conclude: "Callable[[Any, Readings], Measured] | None" = None
    """Function that computes the result from the readings of `measure` and the counters that instruments read, and
    sends no requests to agents; None: `measure` returns a `Measured`."""
    parts: "Callable[[M], Mapping[str, int | None]] | None" = None
    """Function that returns the measures that run in parallel, by name, with their start times [ns], or None for those
    that do not run; None: the kind has no parts."""
    as_part: "Callable[[M, int], M] | None" = None
    """Function that returns the measure as one of several parallel measures, given its number from 0, with resources
    (such as ports) that do not collide with the others; None: the kind cannot run in parallel with others."""
    check_names: "Callable[[View, Section, M], None]" = _fits
    """Function that reports every name in a measure that does not resolve in a lab."""
    named_by: frozenset[str] = frozenset()
    """Keys that contain names that must resolve in a lab."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Measurement programs with their Debian packages. iolab looks for these programs on all hosts, installs them in
    guest images, and requires that their versions stay the same throughout a run."""
    on_hosts: Mapping[str, str] = field(default_factory=dict)
    """The same as `programs`, for measures that cannot run in guests: images do not contain these programs."""
    runs: "Callable[[M], Iterable[str]] | None" = None
    """Function that returns the programs that a measure runs; None: the measure runs all of them."""
    named_programs: "Callable[[M], Iterable[tuple[str, str]]]" = _nothing
    """Function that returns pairs of a machine and a program on this machine, for all programs that the measure
    names."""
    kernels: "Callable[[M, Topology], Iterable[str]]" = _nothing
    """Function that returns the kernels on which the programs run; none: the kernel of the local host."""
    alone: tuple[str, ...] = ()
    """Resources of these kernels that the measure needs exclusively: no other lab may use them during the run."""
    features: "Callable[[M], Iterable[str]]" = _nothing
    """Function that returns the required features of the kernels on which the programs run, named as in the facts."""
    needs: "Callable[[Purpose, M], Iterable[Wanted]]" = _nothing
    """Function that returns further requirements; its first argument is their purpose: the measure."""
    check: "Callable[[M, Lab, Topology], None]" = _fits
    """Function that checks a measure against a lab. Raises InputError."""
    joined_by: Callable[[M], object] = repr
    """Function that returns the part of a measure that determines the results of `check` and `kernels`: measures with
    equal parts are checked once."""
    commands: "Callable[[M, Topology], Sequence[Text]]" = _nothing
    """Function that returns the commands of a measure in shell syntax; lines that are not commands start with #."""
    leading: tuple[str, ...] = ()
    """Candidates for the leading metric in summaries and charts; the first one that a record contains is used."""
    leading_parts: tuple[str, ...] = ()
    """Candidates for the part whose metric leads, if leading metrics exist only for parts of the measure; the first one
    that a record contains is used."""
    methods: Mapping[str, int] = field(default_factory=dict)
    """Method version of each metric, for kinds of other packages; the default is 1. The version is incremented when the
    meaning or the computation of the metric changes. `iolab.trial.methods` has the versions of iolab's own kinds."""
    short_forms: "Mapping[str, ShortForm]" = field(default_factory=dict)
    """Words of `iolab quick` for this kind; empty: the kind needs a file."""
    package: str = OWN
    """Package of the kind with its version, set by the registry."""

    name: str = field(init=False)
    """Value of `kind:`."""

    def __post_init__(self) -> None:
        """Set the name from the model. Raises TypeError."""
        object.__setattr__(self, "name", kind_of_model(self.model))


@frozen
class ShortForm:
    """A word of `iolab quick` for a measure between two ends."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """Default keys of the measure."""
    device: bool = False
    """Whether the frames pass through a device between the two ends."""
    program: bool = False
    """Whether the measure runs a user's program on the first end."""


@frozen(kw_only=True)
class InstrumentKind(Generic[M]):
    """One kind of instrument, which can run during any measure."""

    BASE: ClassVar = "iolab.experiment.model.instruments.WithInstrument"
    """Base class of `model`."""
    model: type[M]
    """Model of the kind's keys in experiment files; its field `kind` is a Literal of the kind's name."""
    make: "Callable[[Site, M], Instrument] | None"
    """Function that creates an instrument for an existing lab, not started yet; None: the kind is not supported yet, so
    no plan contains it."""
    check_names: "Callable[[View, Section, Place, M], None]" = _fits
    """Function that reports every name in an instrument that does not resolve in a lab; the place is that of the
    instrument in the measure."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Programs that the instrument runs on the local host, with their Debian packages."""
    needs: "Callable[[Purpose, M], Iterable[Wanted]]" = _nothing
    """Function that returns further requirements; its first argument is their purpose: the measure during which the
    instrument runs."""
    lab_needs: "Callable[[Lab, M, Purpose], Iterable[Wanted]]" = _nothing
    """Function that returns the requirements for the kernels of a lab."""
    methods: Mapping[str, int] = field(default_factory=dict)
    """See MeasureKind."""
    always: bool = False
    """Whether the instrument runs during every measure by default, with the defaults of its model."""
    package: str = OWN
    """Package of the kind with its version, set by the registry."""

    name: str = field(init=False)
    """Value of `kind:`."""

    def __post_init__(self) -> None:
        """Set the name from the model. Raises TypeError."""
        object.__setattr__(self, "name", kind_of_model(self.model))


AnyMeasureKind = MeasureKind[Any]
AnyInstrumentKind = InstrumentKind[Any]
