"""A kind of measure and an instrument for iolab, each a row: what iolab knows of them."""

from typing import TYPE_CHECKING

from iolab.plugin import InstrumentKind, MeasureKind, Section, Topology, View, check_pair
from iolab_handshakes.models import Handshakes, Switches

if TYPE_CHECKING:
    from iolab.plugin import Instrument, Measured, Site


def _measure(site: "Site", measure: Handshakes) -> "Measured":
    from iolab_handshakes.handshakes import (
        measure_handshakes,  # nothing that measures is loaded to read a file
    )

    return measure_handshakes(site, measure)


def _switches(site: "Site", asked: Switches) -> "Instrument":
    from iolab_handshakes.switches import SwitchCounter

    return SwitchCounter(site, asked.period)


def _check_names(view: View, section: Section, measure: Handshakes) -> None:
    check_pair(view, section, (), "from", measure.src, measure.dst)


def _kernels(measure: Handshakes, topology: Topology) -> tuple[str, str]:
    source = topology.endpoint(measure.src, towards=measure.dst)
    return source.kernel, topology.endpoint(measure.dst, towards=measure.src).kernel


HANDSHAKES = MeasureKind(
    model=Handshakes,
    duration_ns=lambda measure: measure.duration,
    measure=_measure,
    check_names=_check_names,
    named_by=frozenset({"from", "to"}),
    programs={"perl": "perl"},
    kernels=_kernels,
    commands=lambda measure, _: (
        f"# perl at {measure.src} connects to perl at {measure.dst}, again and again",
    ),
    leading=("handshakes_per_s",),
)
SWITCHES = InstrumentKind(model=Switches, make=_switches, programs={"perl": "perl"})
