"""The command calibrate: measure the limits of the packet engine on a host."""

import json
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from iolab.agent.messages import Json
from iolab.cli.console import complain, say
from iolab.cli.host import HostName, checked
from iolab.cli.options import Wait
from iolab.errors import ExitCode
from iolab.locale import Phrase, Text
from iolab.run.calibration import calibrate as measure_instrument
from iolab.run.calibration import figures
from iolab.run.hosts.host_agent import Waiting, occupy, open_agent
from iolab.run.hosts.host_facts import read_facts, store_calibration
from iolab.units import format_count


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(calibrate)


def calibrate(
    as_json: Annotated[bool, typer.Option("--json")] = False,
    host: HostName = None,
    wait: Wait = 0,
) -> int:
    """Measure the limits of generator, receiver and time stamps on a host for later runs. Takes half a minute."""
    with open_agent(checked(host)) as agent:
        occupy(agent, Waiting("iolab calibrate", wait, complain), host)
        _, facts = read_facts(agent)
        found = measure_instrument(agent, facts, _quiet if as_json else say)
    path = store_calibration(found)
    if as_json:
        json.dump(found, sys.stdout, indent=1)
        say("")
        return ExitCode.DONE
    for name, one in found["paths"].items():
        _print_path(name, one)
    say(Phrase("cli.stored-in-file", path=path))
    return ExitCode.DONE


def _print_path(name: str, one: Mapping[str, Json]) -> None:
    say(f"{name}:")
    for figure in figures(one):
        value = (
            Phrase("cli.figure-unknown")
            if figure.value is None
            else format_count(round(figure.value) if abs(figure.value) >= 100 else figure.value)
        )
        say(Phrase("cli.figure-of-path", name=figure.name, value=value))


def _quiet(_text: Text) -> None:
    """Print nothing, because the output is JSON."""
