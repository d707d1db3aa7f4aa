"""iolab's own instruments, a row each. What they do is in `iolab.trial.instruments`."""

from typing import TYPE_CHECKING

from iolab.experiment.instruments import Queues, Samplers, Watch
from iolab.experiment.lab_view import Place, View
from iolab.experiment.sections import Section
from iolab.parts.rows import AnyInstrumentKind, InstrumentKind

if TYPE_CHECKING:
    from iolab.trial.instruments.instrument import Instrument
    from iolab.trial.site import Site


def _samplers(site: "Site", asked: Samplers) -> "Instrument":
    from iolab.trial.instruments.samplers import samplers_of

    return samplers_of(site, asked.period)


def _queues(site: "Site", _: Queues) -> "Instrument":
    from iolab.trial.instruments.queues import queues_of

    return queues_of(site)


def _check_watch(view: View, section: Section, place: Place, watch: Watch) -> None:
    if watch.at not in view.lab.links and watch.at not in view.ports:
        known = [*view.lab.links, *view.ports]
        place = view.within(section, place, "at")
        view.add(section, place, watch.at, known, "a link, or a machine.port that a link has")


KINDS: tuple[AnyInstrumentKind, ...] = (
    InstrumentKind(model=Samplers, make=_samplers),
    InstrumentKind(model=Queues, make=_queues, always=True),
    InstrumentKind(model=Watch, make=None, check_names=_check_watch),
)
"""The table."""
