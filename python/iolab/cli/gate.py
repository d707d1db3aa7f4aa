"""The command gate: measure a candidate and its base again, in interleaved pairs, until a sequential test decides."""

import json
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from iolab.cli.console import complain, say, words
from iolab.cli.language import Language
from iolab.cli.options import (
    AllowSetting,
    AllowWrites,
    DestroyData,
    File,
    On,
    Only,
    Quick,
    Seed,
    Wait,
)
from iolab.cli.plan import permitting
from iolab.cli.planned import NoBuild, planned
from iolab.cli.progress import LiveProgress, PlainProgress
from iolab.cli.results import pack_at_end
from iolab.cli.run_names import locate
from iolab.cli.runs import leave_out, permitted, terminable, with_devices
from iolab.cli.screen import console
from iolab.clock import SystemClock
from iolab.errors import ExitCode, InputError, InterruptedRun, Problem, StoreError
from iolab.experiment import load, parse
from iolab.experiment.experiment import Experiment, Section, Selector
from iolab.experiment.factors.resolve import resolver_of
from iolab.experiment.subjects import AGAINST, BASE, CANDIDATE, SUBJECT, assigned, differences, with_subject
from iolab.files import write_whole
from iolab.frozen import frozen
from iolab.lab.hosts.facts import Facts
from iolab.locale import ENGLISH, Phrase
from iolab.plan.planning import make_plan
from iolab.plan.selection import selection
from iolab.plan.types import Plan
from iolab.printable import printable
from iolab.run import folder_work
from iolab.run.guests.boot import provide_images
from iolab.run.hosts.host_agent import Waiting, open_agent
from iolab.run.hosts.host_facts import changed_facts
from iolab.run.hosts.hosts import hosts_of, lab_name, lease_hosts, reach_hosts
from iolab.run.pairs import Pair, run_pairs
from iolab.store.digests import host_class
from iolab.store.housekeeping import held
from iolab.store.read import find_runs, load_run
from iolab.store.records import OUTCOME
from iolab.untrusted_json import read_untrusted

if TYPE_CHECKING:
    from iolab.analysis.gate import GateCell
    from iolab.analysis.sequential import Rule

MOST_PAIRS = 40
"""Default of `--pairs`; the error rates in docs/method/gate.md apply to this number."""
FORMATS = ("json", "junit", "markdown", "sarif", "github")
Against = Annotated[list[str], typer.Option(AGAINST, metavar="BASE", show_default=False)]
Reports = Annotated[list[str] | None, typer.Option("--report", metavar="FORMAT=PATH")]


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(gate)


def gate(
    file: File,
    against: Against,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR")] = Path("runs"),
    pairs: Annotated[int, typer.Option(min=1, max=200, metavar="N")] = MOST_PAIRS,
    seed: Seed = None,
    only: Only = None,
    quick: Quick = False,
    report: Reports = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
    no_build: NoBuild = False,
    allow_setting: AllowSetting = None,
    allow_writes: AllowWrites = None,
    destroy_data: DestroyData = None,
    on: On = None,
    wait: Wait = 0,
    _lang: Language = ENGLISH,
) -> int:
    """Measure a candidate and its base again until a sequential test decides."""
    from iolab.analysis.expectations import Result
    from iolab.analysis.gate import is_decided, judge_pairs, overall
    from iolab.analysis.sequential import Rule

    wanted = [_report(one) for one in report or ()]
    written = load(file, on)
    base, facts = _base(against, written)
    text = with_subject(written, base)
    experiment = permitted(parse(text, str(file), stored=written.stored), allow_writes, destroy_data)
    rule = Rule(margin=written.margin, max_pairs=pairs)

    def judged(found: Sequence[Pair], *, last: bool = False) -> "tuple[GateCell, ...]":
        return judge_pairs(found, (CANDIDATE, BASE), SUBJECT, rule, last=last)

    chosen = selection(only or (), experiment, quick=quick)
    measured = _measured(
        experiment,
        output,
        _Options(
            seed=secrets.randbelow(2**31) if seed is None else seed,
            pairs=pairs,
            only=chosen,
            no_build=no_build,
            allow_setting=allow_setting,
            wait_s=wait,
            to_stderr=as_json,
        ),
        facts,
        lambda found: is_decided(judged(found)),
    )
    if measured is None:
        return ExitCode.NOT_DECIDED
    path, found = measured
    cells = judged(found, last=True)
    _publish(path, written, " ".join(against), rule, cells, not base, wanted, as_json=as_json)
    pack_at_end(path)
    codes = {Result.MET: ExitCode.DONE, Result.NOT_MET: ExitCode.NOT_MET}
    return codes.get(overall(cells), ExitCode.NOT_DECIDED)


@frozen(kw_only=True)
class _Options:
    """Options of the measurement."""

    seed: int
    """Seed of the trial order, and of the coin that decides which subject of a pair runs first."""
    pairs: int
    """Maximum number of pairs."""
    only: tuple[Selector, ...]
    """Cells to measure; empty: all cells."""
    no_build: bool
    """Whether to use only images that are already built."""
    allow_setting: Sequence[str] | None
    """Kernel settings that the file may set."""
    wait_s: float
    """Time to wait for a lab that holds a host [s]."""
    to_stderr: bool
    """Whether progress is written to standard error, because standard output contains JSON."""


def _report(text: str) -> tuple[str, Path]:
    """Return the format and the path of FORMAT=PATH.

    Raises:
        InputError: the format is unknown, or there is no path.
    """
    form, _, path = text.partition("=")
    if form in FORMATS and path:
        return form, Path(path)
    allowed = Phrase("cli.format-and-path", formats=FORMATS)
    raise InputError([Problem("--report", Phrase("cli.writing-gate-report"), text, allowed)])


def _base(
    against: Sequence[str], candidate: Experiment
) -> tuple[Mapping[str, object], Mapping[str, object] | None]:
    """Return the values that the base sets, by path, and the host facts of the base's run, if the base comes from a
    run.

    Raises:
        InputError: the base is invalid, or a run or file is combined with other bases.
    """
    if all("=" in one for one in against):
        return dict(assigned(one) for one in against), None
    if len(against) > 1:
        allowed = Phrase("cli.one-run-or-paths")
        raise InputError([Problem(AGAINST, Phrase("cli.choosing-the-base"), " ".join(against), allowed)])
    if against[0].endswith((".yaml", ".yml")):
        return differences(candidate, load(Path(against[0]))), None
    path = locate(against[0])
    return differences(candidate, folder_work.stored_experiment(path)), load_run(path).facts


def _measured(
    experiment: Experiment,
    output: Path,
    options: _Options,
    facts_of_base: Mapping[str, object] | None,
    is_decided: Callable[[Sequence[Pair]], bool],
) -> tuple[Path, tuple[Pair, ...]] | None:
    """Run the pairs in a new run folder; None, with a printed message, if the base cannot be measured on this host
    again.

    Raises:
        InterruptedRun: the gate was interrupted; its trials are stored.
    """
    path: Path | None = None
    screen = Console(stderr=True) if options.to_stderr else console()

    def decide(blocks: int) -> Callable[[Facts], Plan]:
        return lambda facts: make_plan(
            experiment,
            permitting(facts, options.allow_setting),
            seed=options.seed,
            blocks=blocks,
            only=options.only,
        )

    try:
        hosts = hosts_of(experiment)
        waiting = Waiting(lab_name(experiment), options.wait_s, complain)
        with terminable(), open_agent() as agent, reach_hosts(agent, hosts, waiting) as agents:
            plan, raw = planned(agents, experiment, decide(options.pairs), no_build=options.no_build)
            changed = changed_facts(facts_of_base, raw) if facts_of_base is not None else []
            if changed:
                clauses = Phrase("errors.several-clauses", clauses=changed)
                complain(Phrase("cli.base-not-measurable", changed=clauses))
                return None
            leave_out(plan, False, experiment.site)
            _refuse_one_sided(plan)
            experiment, leases = with_devices(experiment, plan, agents)
            lease_hosts(agents, hosts, replace(waiting, leases=leases))
            path = folder_work.create(experiment, plan, raw, output, SystemClock())
            with held(path):  # images may take minutes, in which the run must not be removed
                provide_images(agents, experiment, plan, complain)
            with LiveProgress(screen) if screen.is_terminal else PlainProgress(screen) as progress:
                pairs = run_pairs(path, experiment, agents, SystemClock(), progress, SUBJECT, is_decided)
            if len(pairs) < plan.blocks:
                shorter, raw = planned(agents, experiment, decide(len(pairs)), no_build=True)
                folder_work.extend(path, experiment, shorter, raw)
    except KeyboardInterrupt:
        if path is None:
            raise InterruptedRun(Phrase("cli.interrupted-before-measuring")) from None
        raise InterruptedRun(Phrase("cli.gate-interrupted", path=path)) from None
    return path, pairs


def _refuse_one_sided(plan: Plan) -> None:
    """Raise an error if the values in which candidate and base differ affect no measure."""
    if not any(SUBJECT in plan.cell(step) for step in plan.steps):
        seen, allowed = Phrase("cli.subjects-measure-alike"), Phrase("cli.base-that-affects-a-measure")
        raise InputError([Problem(AGAINST, Phrase("cli.choosing-the-base"), seen, allowed)])


def _publish(
    path: Path,
    experiment: Experiment,
    against: str,
    rule: "Rule",
    cells: "tuple[GateCell, ...]",
    is_same: bool,
    wanted: Sequence[tuple[str, Path]],
    *,
    as_json: bool,
) -> None:
    """Store the gate's result in its run folder, print the result, and write the requested reports."""
    from iolab.report import gate as reports
    from iolab.report.names import names_of

    run = load_run(path)
    resolver, host = resolver_of(experiment), host_class(run.facts)
    shown = reports.Gate(
        source=experiment.source,
        lines={name: resolver.line(Section("measure", name)) for name in resolver.measures},
        run=str(path),
        against=against,
        rule=rule,
        cells=cells,
        checks=_earlier(path.parent, experiment.title, host),
        names=names_of(run.plan, words()),
        is_same=is_same,
    )
    stored = {**reports.document(shown), "title": experiment.title, "host": host}
    _write(path / OUTCOME, json.dumps(stored, ensure_ascii=False))
    if as_json:
        say(reports.as_json(shown).rstrip())
    else:
        for line in reports.lines(shown):
            say(line)
    for form, target in wanted:
        text = reports.FORMATS[form](shown)
        if str(target) == "-":
            sys.stdout.write(printable_lines(text))
        else:
            _write(target, text)
    if not as_json:
        say(str(path))


def printable_lines(text: str) -> str:
    """Return a text without terminal control characters; line ends are unchanged."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise StoreError(Phrase("cli.report-not-written", target=path, reason=error.strerror)) from error


def _earlier(folder: Path, title: str, host: str) -> tuple[int, int]:
    """Return how many earlier A/A gates of a file on this host found a change, and how many such gates there were."""
    found = [stored for path in find_runs(folder) if (stored := _stored(path / OUTCOME)) is not None]
    same = [
        one
        for one in found
        if (one.get("title"), one.get("host"), one.get("same_subject")) == (title, host, True)
    ]
    changed = [one for one in same if any(cell.get("outcome") == "changed" for cell in one.get("cells", ()))]
    return len(changed), len(same)


def _stored(path: Path) -> dict[str, Any] | None:
    """Return a stored gate; None if the run has no gate, or if its file is damaged."""
    try:
        found = read_untrusted(path.read_bytes())
    except (OSError, ValueError):
        return None
    cells = found.get("cells") if isinstance(found, dict) else None
    return found if isinstance(cells, list) and all(isinstance(one, dict) for one in cells) else None
