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
from iolab.cli.console import complain, say
from iolab.cli.options import AllowSetting, Blocks, File, On, Only, Quick, Seed, Skip
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
from iolab.plan.planning import make_plan
from iolab.plan.selection import selection
from iolab.plan.types import Plan, unsupported
from iolab.report.locale import EN
from iolab.run import folder_work as execute
from iolab.run.agents import Agents
from iolab.run.durations_file import durations_file, recall
from iolab.run.guests.boot import provide_images
from iolab.run.hosts.host_agent import open_agent
from iolab.run.hosts.host_facts import changed_readiness
from iolab.run.hosts.hosts import hosts_of, reach_hosts
from iolab.run.outcome import MOST_ALIKE, LabsUnmade
from iolab.store.read import all_ok, load_run
from iolab.store.records import StoredRun

KeepGoing = Annotated[
    bool, typer.Option("--keep-going", help="Do all trials, even if three labs in a row fail alike.")
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
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where the run folder is made.")
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
) -> int:
    """Execute an experiment; the last line printed is the run folder."""
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

    return ended(measured(experiment, prepare, keep_going=keep_going))


def resume(
    run: RunName,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Do failed and invalid trials again.")
    ] = False,
    no_build: NoBuild = False,
    keep_going: KeepGoing = False,
    allow_setting: AllowSetting = None,
) -> int:
    """Do the trials that an interrupted run lacks."""
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

    return ended(measured(experiment, prepare, again=retry_failed, keep_going=keep_going))


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
) -> int:
    """Give a run a larger experiment and do only what it lacks."""
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

    return ended(measured(experiment, prepare, keep_going=keep_going))


def measured(
    experiment: Experiment,
    prepare: Callable[[Agents], Path],
    *,
    again: bool = False,
    keep_going: bool = False,
) -> StoredRun:
    """Open the agents, prepare the run folder, do what is missing, print the results and the folder."""
    path: Path | None = None
    screen = console()
    try:
        hosts = hosts_of(experiment)
        with _terminable(), open_agent() as agent, reach_hosts(agent, hosts) as agents:
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
            raise InterruptedRun("interrupted before anything was measured; the lab is undone") from None
        raise InterruptedRun(
            f"interrupted; the lab is undone, all finished trials are stored; go on with: iolab resume {path}"
        ) from None
    except BrokenPipeError:
        if path is None:
            raise
        raise InterruptedRun(
            f"nobody reads the output; the lab is undone; go on with: iolab resume {path}"
        ) from None
    except LabsUnmade as error:
        raise LabError(
            f"making the lab: {MOST_ALIKE} trials in a row failed alike: {EN.said.say(error.failure)}; when the cause "
            f"is gone: iolab resume {path} --retry-failed; --keep-going does all trials whatever fails"
        ) from None
    except IolabError:
        if path is not None and path.exists():
            complain(
                f"the run stopped; what was measured is in {path}; when the cause is gone: iolab resume {path}"
            )
        elif path is not None:
            complain("the run stopped; its folder was taken away meanwhile: run it again")
        raise
    print_results(path, screen)
    say(str(path))
    return load_run(path)


def ended(run: StoredRun) -> ExitCode:
    """Return how a run ended whose steps were all walked: by what is in its folder, not by what was done."""
    done = {record.key for record in run.trials}
    if lacking := sum(step.key not in done for step in run.plan.steps):
        complain(
            f"{lacking} of {len(run.plan.steps)} trials were measured and are not in {run.folder}: another program "
            f"changed its files meanwhile; iolab resume {run.folder} measures them again"
        )
        return ExitCode.INTERRUPTED
    return ExitCode.DONE if all_ok(run) else ExitCode.TRIALS_FAILED


def _note_changes(stored: StoredRun, now: Mapping[str, Json]) -> None:
    """Say what of the hosts' daemons and cards, and of the methods of metrics, has changed since the run began."""
    for change in changed_readiness(stored.facts, now):
        complain(f"not as it was when the run began: {change}")
    for raised in execute.raised_methods(stored):
        complain(f"{EN.said.say(raised)}; {EN.said.advise(raised)}")


def leave_out(plan: Plan, skip: bool, site: Site | None) -> None:
    """Raise when cells cannot run here, unless they are to be skipped and others remain.

    On a site they are skipped, with each reason once: a lab is written for more than one site.
    """
    if not plan.unsupported or (skip and plan.steps):
        return
    if site is not None and plan.steps:
        for reason, count in Counter(lacking.reason for lacking in plan.unsupported).items():
            complain(
                f"left out, {count} of {len(plan.unsupported)} cells that cannot be there: {EN.said.say(reason)}"
            )
        return
    reasons = unsupported(plan)
    lines = [f"  {cannot_run(lacking)}" for lacking in reasons[:REASONS_SHOWN]]
    if len(reasons) > REASONS_SHOWN:
        more = len(reasons) - REASONS_SHOWN
        lines.append(f"  ... and {more} more reasons; `iolab plan FILE --all` lists all cells")
    lines += install_lines(plan)
    advice = "--skip-unsupported runs the others" if plan.steps else "nothing of it can run here"
    raise UnsupportedError(
        f"planning: cells that cannot run on this host: {len(plan.unsupported)}; {advice}\n"
        + "\n".join(lines)
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
