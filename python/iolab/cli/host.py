"""The commands doctor, clean and hosts: check hosts, restore hosts, list hosts."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from iolab.cli.console import complain, say, words
from iolab.cli.language import Language
from iolab.errors import AgentError, ExitCode, InputError, Problem, Refused
from iolab.experiment.hosts import machines_block, read_inventory, read_ssh_config, site_block
from iolab.experiment.model.machines import destination
from iolab.locale import ENGLISH, Phrase
from iolab.printable import one_line
from iolab.report.stated import stated_all
from iolab.run.doctor.examination import Finding, Grade, examine
from iolab.run.hosts.host_agent import open_agent
from iolab.run.hosts.host_facts import read_facts
from iolab.units import UnitError

MARKS = {
    Grade.GOOD: Phrase("doctor.mark-good"),
    Grade.LIMITED: Phrase("doctor.mark-limited"),
    Grade.LACKING: Phrase("doctor.mark-lacking"),
}


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command()(doctor)
    app.command()(clean)
    app.command()(hosts)


HostName = Annotated[str | None, typer.Option("--host", metavar="H")]


def doctor(
    as_json: Annotated[bool, typer.Option("--json")] = False,
    host: HostName = None,
    _lang: Language = ENGLISH,
) -> int:
    """Report which features a host supports, which are missing, and what to do about it."""
    with open_agent(checked(host)) as agent:
        facts, raw = read_facts(agent)
        findings = examine(agent, facts)
    if as_json:
        document = {"schema": 1, "findings": [_as_json(finding) for finding in findings], "facts": raw}
        json.dump(document, sys.stdout, indent=1)
        say("")
    else:
        for finding in findings:
            _print_finding(finding)
    lacking = any(finding.grade is Grade.LACKING for finding in findings)
    return ExitCode.HOST_CANNOT if lacking else ExitCode.DONE


def _print_finding(finding: Finding) -> None:
    mark, seen = MARKS[finding.grade], words().said.say_all(finding.seen)
    say(Phrase("doctor.finding", mark=mark, subject=finding.subject, seen=seen))
    advice = words().said.advise_all(finding.seen)
    if advice:
        say(f"      {advice}")


def _as_json(finding: Finding) -> dict[str, object]:
    return {
        "subject": finding.subject,
        "grade": finding.grade,
        "seen": words().said.say_all(finding.seen),
        "advice": words().said.advise_all(finding.seen),
        "statements": stated_all(finding.seen),
    }


def clean(
    lab: Annotated[
        str | None,
        typer.Argument(metavar="LAB"),
    ] = None,
    host: HostName = None,
    _lang: Language = ENGLISH,
) -> int:
    """Undo the changes that killed agents left on a host; on a remote host, also remove the agent's file.

    Changes of running labs are kept.
    """
    with open_agent(checked(host), leave_file=False) as agent:
        for holder in agent.hello.holders:
            say(Phrase("cli.at-work-left-alone", lab=one_line(holder.lab), pid=holder.pid))
        left = 0
        of_lab = [one for one in agent.hello.predecessors if lab is None or one.lab == Path(lab).name]
        for predecessor in of_lab:
            try:
                report = agent.undo(predecessor.journal)
            except Refused as refused:
                complain(Phrase("errors.failed-with-reason", what=predecessor.journal, reason=refused))
                left += predecessor.entries
                continue
            say(Phrase("cli.changes-undone", pid=predecessor.pid, count=report.undone))
            for failure in report.failed:
                complain(Phrase("errors.failed-with-reason", what=failure.undo_key, reason=failure.reason))
            left += len(report.failed)
        if not of_lab:
            say(Phrase("cli.nothing-to-undo"))
        if others := {one_line(one.lab) for one in agent.hello.predecessors if one not in of_lab}:
            say(Phrase("cli.other-labs-kept", labs=sorted(others)))
    if left:
        raise AgentError(Phrase("cli.cleaning-changes-left", count=left))
    return ExitCode.DONE


def hosts(
    inventory: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    ssh_config: Annotated[Path, typer.Option(metavar="FILE")] = Path("~/.ssh/config"),
    site: Annotated[bool, typer.Option("--site")] = False,
) -> None:
    """Print hosts from an ssh configuration or Ansible inventory as machines, to paste into an experiment."""
    place = (inventory or ssh_config).expanduser()
    try:
        text = place.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        seen = (error.strerror or str(error)) if isinstance(error, OSError) else Phrase("cli.not-utf-8")
        allowed = Phrase("cli.an-ansible-inventory") if inventory else Phrase("cli.an-ssh-configuration")
        advice = Phrase("cli.write-machines-by-hand")
        raise InputError(
            [Problem(str(place), Phrase("cli.opening-list-of-hosts"), seen, allowed, advice)]
        ) from error
    found = read_inventory(text, str(place)) if inventory else read_ssh_config(text, _included)
    if not found:
        allowed = Phrase("cli.hosts-one-a-line") if inventory else Phrase("cli.aliases-with-hostname")
        raise InputError(
            [Problem(str(place), Phrase("cli.looking-for-hosts"), Phrase("cli.none-found"), allowed)]
        )
    say((site_block if site else machines_block)(found).rstrip())


def _included(pattern: str) -> list[str]:
    """Return the files of an Include line, relative to ~/.ssh like ssh; unreadable files are omitted."""
    whole = Path("~/.ssh").expanduser() / Path(pattern).expanduser()
    texts = []
    for path in sorted(Path(whole.anchor).glob(str(whole.relative_to(whole.anchor)))):
        with suppress(OSError, UnicodeError):
            texts.append(path.read_text(encoding="utf-8"))
    return texts


def checked(host: str | None) -> str | None:
    """Return the host name unchanged if it is valid.

    Raises:
        InputError: the host name is invalid.
    """
    try:
        return None if host is None else destination(host)
    except UnitError as error:
        raise InputError(
            [Problem("--host", Phrase("cli.reading-host-name"), repr(host), error.allowed)]
        ) from error
