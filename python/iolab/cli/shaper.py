"""The command verify-shaper: measure a shaper and compare it with its configuration."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from iolab.cli.console import in_words, say, words
from iolab.cli.options import File, Quick, Wait
from iolab.cli.runs import Prepared, ended, leave_out, measured
from iolab.clock import SystemClock
from iolab.errors import ExitCode, InputError, Problem
from iolab.experiment import load, resolver_of
from iolab.experiment.experiment import Experiment
from iolab.locale import Phrase
from iolab.plan.planning import make_plan
from iolab.plan.selection import selection
from iolab.results.trial import Status
from iolab.run import folder_work as execute
from iolab.run.agents import Agents
from iolab.run.durations_file import durations_file, recall
from iolab.run.hosts.hosts import read_all_facts
from iolab.store.records import StoredRun


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("verify-shaper")(verify_shaper)


def verify_shaper(
    file: File,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR")] = Path("runs"),
    only: Annotated[list[str] | None, typer.Option(metavar="EXPR")] = None,
    quick: Quick = False,
    wait: Wait = 0,
) -> int:
    """Run an experiment whose measure watches a shaped link, and check the shaper at four time scales."""
    experiment = load(file)
    selected = selection(only or (), experiment, quick=quick)

    def prepare(agents: Agents) -> Prepared:
        facts, raw = read_all_facts(agents)
        learned = recall(durations_file())
        plan = make_plan(experiment, facts, blocks=1 if quick else None, only=selected, learned=learned)
        leave_out(plan, False, experiment.site)
        return plan, partial(execute.create, experiment, plan, raw, output, SystemClock())

    run, expected = measured(experiment, prepare, wait_s=wait)
    status = ended(run, ExitCode.DONE)
    if status is not ExitCode.DONE:
        return status
    return print_judged(experiment, run) or expected


def print_judged(experiment: Experiment, run: StoredRun) -> ExitCode:
    """Print the verdict on every shaper in every trial; return the exit status.

    Raises:
        InputError: no cell has a shaper.
    """
    from iolab.analysis.shaper_check import Kind, judge  # numpy and scipy are slow to import
    from iolab.report import watches
    from iolab.store.series import series_of

    resolver, verdicts, read = resolver_of(experiment), set[Kind](), series_of(run.folder)
    for record in run.trials:
        if record.result.status is not Status.OK:
            continue
        setup, result = resolver.setup(record.cell), record.result
        series = read(record.key)
        for link, found in judge(setup, record.measure, result.metrics, series, result.warnings):
            levels = ", ".join(f"{name}={label}" for name, label in record.cell.items())
            trial = in_words(
                Phrase("cli.trial-of-shaper", measure=record.measure, levels=levels, block=record.block)
            )
            for line in watches.lines(link, trial, found, words()):
                say(line)
            verdicts.add(found.verdict)
    if not verdicts:
        allowed = Phrase("cli.a-link-with-shape")
        raise InputError(
            [
                Problem(
                    str(experiment.source),
                    Phrase("cli.judging-shapers"),
                    Phrase("cli.no-shaped-link"),
                    allowed,
                )
            ]
        )
    if Kind.FAILED in verdicts:
        return ExitCode.TRIALS_FAILED
    return ExitCode.HOST_CANNOT if Kind.NOT_JUDGED in verdicts else ExitCode.DONE
