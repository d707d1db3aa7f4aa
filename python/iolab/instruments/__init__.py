"""iolab's instruments, each with a row. `iolab.trial.instruments` has their implementations."""

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING

from iolab.experiment.experiment import Section
from iolab.experiment.model.instruments import Capture, Profile, Queues, Samplers, Watch, Wires
from iolab.experiment.references.view import Place, View
from iolab.locale import Phrase
from iolab.registry.rows import AnyInstrumentKind, InstrumentKind, Later

if TYPE_CHECKING:
    from iolab.experiment.experiment import Lab
    from iolab.lab.requirements.need import Wanted
    from iolab.messages.places import Purpose
    from iolab.trial.instruments.instrument import Instrument
    from iolab.trial.lab_access import Site

MICROSECOND_NS = 1_000
"""Resolution of the times by which frames are assigned to windows [ns]."""
SHORTEST_FLOW_NS = 10_000
"""Minimum length of windows in which flows are counted separately [ns] (contract/agent-v1.md)."""


def _samplers(site: "Site", asked: Samplers) -> "Instrument":
    from iolab.trial.instruments.samplers import samplers_of

    return samplers_of(site, asked.period)


def _queues(site: "Site", _: Queues) -> "Instrument":
    from iolab.trial.instruments.queues import queues_of

    return queues_of(site)


def _wires(site: "Site", _: Wires) -> "Instrument":
    from iolab.trial.instruments.wires import wires_of

    return wires_of(site)


def _check_at(view: View, section: Section, place: Place, at: str) -> None:
    if at not in view.lab.links and at not in view.ports:
        known = [*view.lab.links, *view.ports]
        place = view.within(section, place, "at")
        view.add(section, place, at, known, Phrase("instruments.link-or-port"))


def _check_watch(view: View, section: Section, place: Place, watch: Watch) -> None:
    _check_at(view, section, place, watch.at)
    _check_windows(view, section, place, watch)


def _check_capture(view: View, section: Section, place: Place, capture: Capture) -> None:
    _check_at(view, section, place, capture.at)
    host = capture.filter.host
    if host is None or host in view.lab.machines or host in view.ports:
        return
    try:
        ipaddress.ip_address(host)
    except ValueError:
        known = [*view.lab.machines, *view.ports]
        place = (*view.within(section, place, "filter"), "host")
        view.add(section, place, host, known, Phrase("instruments.machine-port-or-address"))


def _check_windows(view: View, section: Section, place: Place, watch: Watch) -> None:
    allowed = Phrase("instruments.whole-microseconds")
    for window in watch.window:
        if window % MICROSECOND_NS:
            view.say(section, view.within(section, place, "window"), f"{window} ns", allowed)
    if len(set(watch.window)) < len(watch.window):
        seen = ", ".join(f"{window} ns" for window in watch.window)
        view.say(section, view.within(section, place, "window"), seen, Phrase("instruments.each-length-once"))
    if watch.flows and min(watch.window) < SHORTEST_FLOW_NS:
        found = Phrase("instruments.flows-in-windows", flows=watch.flows, window=min(watch.window))
        allowed = Phrase("instruments.windows-of-flows")
        view.say(section, view.within(section, place, "flows"), found, allowed)


def _check_profile(view: View, section: Section, place: Place, profile: Profile) -> None:
    for name in profile.on:
        if name not in view.lab.machines:
            within = view.within(section, place, "on")
            view.add(section, within, name, list(view.lab.machines), Phrase("instruments.machine-of-lab"))


def _profile_needs(lab: "Lab", asked: Profile, purpose: "Purpose") -> "Iterator[Wanted]":
    from iolab.lab.requirements.part_needs import profile_needs

    return profile_needs(lab, asked.on, purpose)


KINDS: tuple[AnyInstrumentKind, ...] = (
    InstrumentKind(model=Samplers, make=_samplers),
    InstrumentKind(model=Queues, make=_queues, always=True),
    InstrumentKind(model=Wires, make=_wires, always=True),
    InstrumentKind(
        model=Watch, make=Later("iolab.trial.instruments.watch:watch_of"), check_names=_check_watch
    ),
    InstrumentKind(
        model=Capture, make=Later("iolab.trial.instruments.capture:capture_of"), check_names=_check_capture
    ),
    InstrumentKind(
        model=Profile,
        make=Later("iolab.trial.instruments.profile:profile_of"),
        check_names=_check_profile,
        lab_needs=_profile_needs,
    ),
)
"""Row of each kind, by name."""
