"""What is said of files, changes and services beyond their own keys."""

from iolab.experiment.lab_view import Place, View
from iolab.experiment.machines import Machine
from iolab.experiment.ready import Ready
from iolab.experiment.sections import Section

ONE_READY = "one of listens, prints, succeeds"
LONGEST_START_NS = 50_000_000_000
"""Of a service: the agent waits no longer for what makes a part of the lab."""


def check_standing(view: View, section: Section, machine: Machine) -> None:
    """Note what is wrong with what stands on a machine."""
    for name, change in machine.run.items():
        for key in ("do", "undo", "check"):
            if change is not None and (words := getattr(change, key)) and not words[0]:
                view.say(section, ("run", name, key), "an empty word", "the name of a program first")
    for name, service in machine.services.items():
        if service is None:
            continue
        check_ready(view, section, ("services", name, "ready"), service.ready)
        if not service.run[0]:
            view.say(section, ("services", name, "run"), "an empty word", "the name of a program first")
        if service.within > LONGEST_START_NS:
            seen, allowed = f"{service.within / 1e9:g} s", f"at most {LONGEST_START_NS / 1e9:g} s"
            view.say(section, ("services", name, "within"), seen, allowed)


def check_ready(view: View, section: Section, place: Place, ready: Ready) -> None:
    """Note it when a program is ready by more than one thing."""
    given = [ready.listens is not None, ready.prints is not None, bool(ready.succeeds)]
    if sum(given) > 1:
        view.say(section, place, f"{sum(given)} of them", ONE_READY)
