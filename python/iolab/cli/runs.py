"""run, resume, extend: the commands that measure."""

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from iolab.agent.messages import Json
from iolab.cli.console import complain, in_words, say, words
from iolab.cli.options import AllowSetting, Blocks, File, Language, On, Only, Quick, Seed, Skip, Wait
from iolab.cli.plan import cannot_run, install_lines, permitting
from iolab.cli.planned import NoBuild, planned
from iolab.cli.progress import LiveProgress, PlainProgress
from iolab.cli.results import print_results
from iolab.cli.run_names import RunName, locate
from iolab.cli.screen import console
from iolab.clock import SystemClock
from iolab.errors import ExitCode, InterruptedRun, IolabError, LabError, UnsupportedError
from iolab.experiment import load
from iolab.experiment.experiment import Experiment, Selector, Site
from iolab.lab.hosts.facts import Facts
from iolab.locale import ENGLISH, Phrase, Text
from iolab.plan.planning import make_plan
from iolab.plan.selection import selection
from iolab.plan.types import Plan, unsupported
from iolab.run import folder_work as execute
from iolab.run.agents import Agents
from iolab.run.durations_file import durations_file, recall
from iolab.run.guests.boot import provide_images
from iolab.run.hosts.host_agent import Waiting, open_agent
from iolab.run.hosts.host_facts import changed_readiness
from iolab.run.hosts.hosts import hosts_of, lab_name, reach_hosts
from iolab.run.outcome import MOST_ALIKE, LabsUnmade
from iolab.store.read import all_ok, load_run
from iolab.store.records import StoredRun

KeepGoing = Annotated[
    bool,
    typer.Option(
        "--keep-going", help="Run all trials, even if three labs in a row fail for the same reason."
    ),
]
REASONS_SHOWN = 10


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command()(run)
    app.command()(resume)
    app.command()(extend)


def run(
    file: File,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for the run folder.")
    ] = Path("runs"),
    blocks: Blocks = None,
    seed: Seed = None,
    only: Only = None,
    quick: Quick = False,
    skip_unsupported: Skip = False,
    no_build: NoBuild = False,
    keep_going: KeepGoing = False,
    allow_setting: AllowSetting = None,
    on: On = None,
    wait: Wait = 0,
    _lang: Language = ENGLISH,
) -> int:
    """Run an experiment; the last line of output is the run folder."""
    experiment = load(file, on)
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
    """Plan an experiment, make its run folder, measure, print the results."""

    def prepare(agents: Agents) -> Path:
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
        return execute.create(experiment, plan, raw, output, SystemClock())

    return ended(measured(experiment, prepare, keep_going=keep_going, wait_s=wait_s))


def resume(
    run: RunName,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Repeat failed and invalid trials.")
    ] = False,
    no_build: NoBuild = False,
    keep_going: KeepGoing = False,
    allow_setting: AllowSetting = None,
    wait: Wait = 0,
    _lang: Language = ENGLISH,
) -> int:
    """Run the missing trials of an interrupted run."""
    path = locate(run)
    experiment = execute.stored_experiment(path)

    def prepare(agents: Agents) -> Path:
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
        return path

    return ended(measured(experiment, prepare, again=retry_failed, keep_going=keep_going, wait_s=wait))


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
    on: On = None,
    wait: Wait = 0,
    _lang: Language = ENGLISH,
) -> int:
    """Extend a run to a larger experiment, and run only the missing trials."""
    path = locate(run)
    experiment = load(file, on)
    selected = selection(only or (), experiment, quick=quick)

    def prepare(agents: Agents) -> Path:
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
        execute.extend(path, experiment, plan, raw)
        return path

    return ended(measured(experiment, prepare, keep_going=keep_going, wait_s=wait))


def measured(
    experiment: Experiment,
    prepare: Callable[[Agents], Path],
    *,
    again: bool = False,
    keep_going: bool = False,
    wait_s: float = 0,
) -> StoredRun:
    """Open the agents, prepare the run folder, do what is missing, print the results and the folder."""
    path: Path | None = None
    screen = console()
    try:
        hosts = hosts_of(experiment)
        waiting = Waiting(lab_name(experiment), wait_s, complain)
        with _terminable(), open_agent() as agent, reach_hosts(agent, hosts, waiting) as agents:
            path = prepare(agents)
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
    print_results(path, screen)
    say(str(path))
    return load_run(path)


def ended(run: StoredRun) -> ExitCode:
    """Return how a run ended whose steps were all walked: by what is in its folder, not by what was done."""
    done = {record.key for record in run.trials}
    if lacking := sum(step.key not in done for step in run.plan.steps):
        complain(
            Phrase("cli.trials-not-in-folder", count=lacking, total=len(run.plan.steps), folder=run.folder)
        )
        return ExitCode.INTERRUPTED
    return ExitCode.DONE if all_ok(run) else ExitCode.TRIALS_FAILED


def _note_changes(stored: StoredRun, now: Mapping[str, Json]) -> None:
    """Say what of the hosts' daemons and cards, and of the methods of metrics, has changed since the run began."""
    for change in changed_readiness(stored.facts, now):
        complain(Phrase("cli.changed-since-begin", change=change))
    for raised in execute.raised_methods(stored):
        complain(
            Phrase("errors.several-clauses", clauses=[words().said.say(raised), words().said.advise(raised)])
        )


def leave_out(plan: Plan, skip: bool, site: Site | None) -> None:
    """Raise when cells cannot run here, unless they are to be skipped and others remain.

    On a site they are skipped, with each reason once: a lab is written for more than one site.
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
def _terminable() -> Iterator[None]:
    """Make SIGTERM end the run as Ctrl-C does: the lab undone, the run resumable."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
