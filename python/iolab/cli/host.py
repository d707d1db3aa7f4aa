"""doctor and clean: what this host can do, and putting it back."""

import json
import sys
from typing import Annotated

import typer

from iolab.cli.console import complain, say
from iolab.errors import AgentError, ExitCode, UnsupportedError
from iolab.run.doctor import Finding, Grade, examine
from iolab.run.prepare import open_agent, read_facts

MARKS = {Grade.GOOD: "ok  ", Grade.LIMITED: "note", Grade.LACKING: "LACK"}


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command()(doctor)
    app.command()(clean)


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> int:
    """Say what this host can do, what it lacks, and what to do about it."""
    with open_agent() as agent:
        facts, raw = read_facts(agent)
        findings = examine(agent, facts)
    if as_json:
        document = {"schema": 1, "findings": [finding.as_json() for finding in findings], "facts": raw}
        json.dump(document, sys.stdout, indent=1)
        say("")
    else:
        for finding in findings:
            _print_finding(finding)
    lacking = any(finding.grade is Grade.LACKING for finding in findings)
    return ExitCode.HOST_CANNOT if lacking else ExitCode.DONE


def _print_finding(finding: Finding) -> None:
    say(f"{MARKS[finding.grade]}  {finding.subject}: {finding.seen}")
    if finding.advice:
        say(f"      {finding.advice}")


def clean(
    host: Annotated[
        str | None, typer.Option("--host", metavar="H", help="Another host, by ssh (not yet).")
    ] = None,
) -> int:
    """Undo what killed agents left on this host."""
    if host is not None:
        raise UnsupportedError(
            f"cleaning {host}: remote hosts are not supported yet; run `iolab clean` there"
        )
    with open_agent() as agent:
        if agent.hello.busy_pid is not None:
            raise UnsupportedError(
                f"cleaning: a lab is at work (agent process {agent.hello.busy_pid}); end it first"
            )
        left = 0
        for predecessor in agent.hello.predecessors:
            report = agent.undo(predecessor.journal)
            say(f"agent {predecessor.pid}: {report.undone} changes undone")
            for failure in report.failed:
                complain(f"{failure.undo_key}: {failure.reason}")
            left += len(report.failed)
        if not agent.hello.predecessors:
            say("nothing to undo")
    if left:
        raise AgentError(f"cleaning: {left} changes could not be undone; they stay in the journal")
    return ExitCode.DONE
