"""The commands run, resume and extend, which measure."""

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from iolab.agent.messages import Json
from iolab.cli.console import complain, in_words, say, words
from iolab.cli.language import Language
from iolab.cli.options import (
    AllowSetting,
    AllowWrites,
    Blocks,
    DestroyData,
    File,
    On,
    Only,
    Quick,
    Seed,
    Skip,
    Wait,
)
from iolab.cli.plan import cannot_run, install_lines, permitting
from iolab.cli.planned import NoBuild, planned
from iolab.cli.progress import LiveProgress, PlainProgress
from iolab.cli.results import pack_at_end, print_results
from iolab.cli.run_names import RunName, locate
from iolab.cli.screen import console
from iolab.clock import SystemClock
from iolab.errors import ExitCode, InterruptedRun, IolabError, LabError, UnsupportedError
from iolab.experiment import load
from iolab.experiment.experiment import Experiment, Selector, Site
from iolab.experiment.model.volumes import Consents
from iolab.lab.hosts.facts import Facts
from iolab.locale import ENGLISH, Phrase, Text
from iolab.plan.commands import Labs
from iolab.plan.planning import make_plan
from iolab.plan.selection import selection
from iolab.plan.types import Plan, unsupported
from iolab.run import folder_work as execute
from iolab.run.agents import Agents
from iolab.run.durations_file import durations_file, recall
from iolab.run.guests.boot import provide_images
from iolab.run.hosts.host_agent import Waiting, open_agent
from iolab.run.hosts.host_facts import changed_readiness
from iolab.run.hosts.hosts import hosts_of, lab_name, lease_hosts, reach_hosts
from iolab.run.outcome import MOST_ALIKE, LabsUnmade
from iolab.store.housekeeping import held
from iolab.store.read import all_ok, load_run
from iolab.store.records import StoredRun

Prepared = tuple[Plan, Callable[[], Path]]
"""The plan, and the function that makes the run folder and returns its path."""
KeepGoing = Annotated[bool, typer.Option("--keep-going")]
REASONS_SHOWN = 10
DEVICE, TARGET = "device", "target"
"""Keys that only existing volumes have: a file without these words has no existing volumes."""


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command()(run)
    app.command()(resume)
    app.command()(extend)


def run(
    file: File,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR")] = Path("runs"),
    blocks: Blocks = None,
    seed: Seed = None,
    only: Only = None,
    quick: Quick = False,
    skip_unsupported: Skip = False,
    no_build: NoBuild = False,
    keep_going: KeepGoing = False,
    allow_setting: AllowSetting = None,
    allow_writes: AllowWrites = None,
    destroy_data: DestroyData = None,
    on: On = None,
    wait: Wait = 0,
    _lang: Language = ENGLISH,
) -> int:
    """Run an experiment; the last line of output is the run folder."""
    experiment = permitted(load(file, on), allow_writes, destroy_data)
    return run_experiment(
        experiment,
        output,
        blocks=1 if quick and blocks is None else blocks,
        seed=seed,
        only=selection(only or (), experiment, quick=quick),
        skip_unsupported=skip_unsupported,
        no_build=no_build,
        keep_going=keep_going,
        allow_setting=allow_setting,
        wait_s=wait,
    )


def run_experiment(
    experiment: Experiment,
    output: Path,
    *,
    blocks: int | None = None,
    seed: int | None = None,
    only: tuple[Selector, ...] = (),
    skip_unsupported: bool = False,
    no_build: bool = False,
    keep_going: bool = False,
    allow_setting: Sequence[str] | None = None,
    wait_s: float = 0,
) -> ExitCode:
    """Plan an experiment, create its run folder, measure, and print the results."""

    def prepare(agents: Agents) -> Prepared:
        def decide(facts: Facts) -> Plan:
            return make_plan(
                experiment,
                permitting(facts, allow_setting),
                seed=seed,
                blocks=blocks,
                only=only,
                learned=recall(durations_file()),
            )

        plan, raw = planned(agents, experiment, decide, no_build=no_build)
        leave_out(plan, skip_unsupported, experiment.site)
        return plan, partial(execute.create, experiment, plan, raw, output, SystemClock())

    return ended(*measured(experiment, prepare, keep_going=keep_going, wait_s=wait_s))


def resume(
    run: RunName,
    retry_failed: Annotated[bool, typer.Option("--retry-failed")] = False,
    no_build: NoBuild = False,
    keep_going: KeepGoing = False,
    allow_setting: AllowSetting = None,
    allow_writes: AllowWrites = None,
    destroy_data: DestroyData = None,
    wait: Wait = 0,
    _lang: Language = ENGLISH,
) -> int:
    """Run the missing trials of an interrupted run."""
    path = locate(run)
    experiment = permitted(execute.stored_experiment(path), allow_writes, destroy_data)

    def prepare(agents: Agents) -> Prepared:
        stored = load_run(path)
        decided = stored.plan

        def decide(facts: Facts) -> Plan:
            return make_plan(
                experiment,
                permitting(facts, allow_setting),
                seed=decided.seed,
                blocks=decided.blocks,
                only=decided.only,
            )

        again, raw = planned(agents, experiment, decide, no_build=no_build)
        execute.refuse_other_host(stored, raw)
        _note_changes(stored, raw)
        if len(again.unsupported) > len(decided.unsupported):
            leave_out(again, False, None)
        execute.refuse_changed_plan(stored, again)
        return decided, lambda: path

    return ended(*measured(experiment, prepare, again=retry_failed, keep_going=keep_going, wait_s=wait))


def extend(
    run: RunName,
    file: File,
    blocks: Blocks = None,
    only: Only = None,
    quick: Quick = False,
    skip_unsupported: Skip = False,
    no_build: NoBuild = False,
    keep_going: KeepGoing = False,
    allow_setting: AllowSetting = None,
    allow_writes: AllowWrites = None,
    destroy_data: DestroyData = None,
    on: On = None,
    wait: Wait = 0,
    _lang: Language = ENGLISH,
) -> int:
    """Extend a run to a larger experiment, and run only the missing trials."""
    path = locate(run)
    experiment = permitted(load(file, on), allow_writes, destroy_data)
    selected = selection(only or (), experiment, quick=quick)

    def prepare(agents: Agents) -> Prepared:
        stored = load_run(path)

        def decide(facts: Facts) -> Plan:
            return make_plan(
                experiment,
                permitting(facts, allow_setting),
                seed=stored.plan.seed,
                blocks=blocks,
                only=(*stored.plan.only, *selected) if selected else (),
                learned=recall(durations_file()),
            )

        plan, raw = planned(agents, experiment, decide, no_build=no_build)
        _note_changes(stored, raw)
        leave_out(plan, skip_unsupported, experiment.site)

        def extended() -> Path:
            execute.extend(path, experiment, plan, raw)
            return path

        return plan, extended

    return ended(*measured(experiment, prepare, keep_going=keep_going, wait_s=wait))


def measured(
    experiment: Experiment,
    prepare: Callable[[Agents], Prepared],
    *,
    again: bool = False,
    keep_going: bool = False,
    wait_s: float = 0,
) -> tuple[StoredRun, ExitCode]:
    """Open the agents, prepare the run folder, run the missing trials, print the results and the folder.

    Return the run, and the exit status for its expectations.
    """
    path: Path | None = None
    screen = console()
    try:
        hosts = hosts_of(experiment)
        waiting = Waiting(lab_name(experiment), wait_s, complain)
        with terminable(), open_agent() as agent, reach_hosts(agent, hosts, waiting) as agents:
            plan, make = prepare(agents)
            experiment, leases = with_devices(experiment, plan, agents)
            lease_hosts(agents, hosts, replace(waiting, leases=leases))
            path = make()
            with held(path):  # images may take minutes, in which the run must not be removed
                provide_images(agents, experiment, load_run(path).plan, complain)
            with LiveProgress(screen) if screen.is_terminal else PlainProgress(screen) as progress:
                execute.work_on(
                    path,
                    experiment,
                    agents,
                    SystemClock(),
                    progress,
                    again=again,
                    keep_going=keep_going,
                    durations=durations_file(),
                )
    except KeyboardInterrupt:
        if path is None:
            raise InterruptedRun(Phrase("cli.interrupted-before-measuring")) from None
        raise InterruptedRun(Phrase("cli.interrupted-trials-stored", path=path)) from None
    except BrokenPipeError:
        if path is None:
            raise
        raise InterruptedRun(Phrase("cli.nobody-reads-output", path=path)) from None
    except LabsUnmade as error:
        raise LabError(
            Phrase(
                "cli.labs-failed-alike", count=MOST_ALIKE, reason=words().said.say(error.failure), path=path
            )
        ) from None
    except IolabError:
        if path is not None and path.exists():
            complain(Phrase("cli.run-stopped", path=path))
        elif path is not None:
            complain(Phrase("cli.run-folder-taken-away"))
        raise
    expected = print_results(path, screen)
    pack_at_end(path)
    say(str(path))
    return load_run(path), expected


def with_devices(
    experiment: Experiment, plan: Plan, agents: Agents
) -> tuple[Experiment, Mapping[str, Sequence[str]]]:
    """Return the experiment with the identities of its existing devices, and all leases. Raises UnsupportedError."""
    leases = Labs(experiment, plan).leases()
    placed = experiment.site is not None and experiment.site.volumes
    if TARGET in experiment.text or placed:
        from iolab.run.hosts.targets import check_targets  # few runs need the code of disk trials here

        check_targets(experiment, plan)
    if DEVICE not in experiment.text and not placed:
        return experiment, leases
    from iolab.run.hosts.devices import examined  # few runs need the code of disk trials here

    return examined(experiment, plan, agents, leases)


def permitted(
    experiment: Experiment, allow_writes: Sequence[str] | None, destroy_data: Sequence[str] | None
) -> Experiment:
    """Return the experiment with the devices that the user has named on the command line."""
    consents = Consents(frozenset(allow_writes or ()), frozenset(destroy_data or ()))
    return replace(experiment, consents=consents)


def ended(run: StoredRun, expected: ExitCode) -> ExitCode:
    """Return the exit status of a run: INTERRUPTED if steps have no trial, TRIALS_FAILED if trials failed, else
    `expected`."""
    done = {record.key for record in run.trials}
    if lacking := sum(step.key not in done for step in run.plan.steps):
        complain(
            Phrase("cli.trials-not-in-folder", count=lacking, total=len(run.plan.steps), folder=run.folder)
        )
        return ExitCode.INTERRUPTED
    return expected if all_ok(run) else ExitCode.TRIALS_FAILED


def _note_changes(stored: StoredRun, now: Mapping[str, Json]) -> None:
    """Print the changes in the hosts' daemons and NICs, and in method versions, since the run started."""
    for change in changed_readiness(stored.facts, now):
        complain(Phrase("cli.changed-since-begin", change=change))
    for raised in execute.raised_methods(stored):
        complain(
            Phrase("errors.several-clauses", clauses=[words().said.say(raised), words().said.advise(raised)])
        )


def leave_out(plan: Plan, skip: bool, site: Site | None) -> None:
    """Raise an error if cells cannot run on this host, unless they are to be skipped and other cells remain.

    On a site, such cells are always skipped and each reason is printed once, because a lab can be written for several
    sites.
    """
    if not plan.unsupported or (skip and plan.steps):
        return
    if site is not None and plan.steps:
        for reason, count in Counter(lacking.reason for lacking in plan.unsupported).items():
            complain(
                Phrase(
                    "cli.cells-left-out",
                    count=count,
                    total=len(plan.unsupported),
                    reason=words().said.say(reason),
                )
            )
        return
    reasons = unsupported(plan)
    lines: list[Text] = [
        Phrase("plan.cell-in-list", cell=cannot_run(lacking)) for lacking in reasons[:REASONS_SHOWN]
    ]
    if len(reasons) > REASONS_SHOWN:
        more = len(reasons) - REASONS_SHOWN
        lines.append(Phrase("cli.more-reasons-listed", count=more))
    lines += install_lines(plan)
    advice = Phrase("cli.skip-unsupported-runs-others") if plan.steps else Phrase("cli.nothing-of-it-runs")
    raise UnsupportedError(
        Phrase(
            "cli.cells-cannot-run",
            count=len(plan.unsupported),
            advice=advice,
            lines="\n".join(map(in_words, lines)),
        )
    )


@contextmanager
def terminable() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C: undo the lab, and keep the run resumable."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
