"""Operations on a run folder: run, resume, extend; and the durations of earlier steps."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iolab.agent.messages import Json
from iolab.clock import Clock
from iolab.errors import InputError, Problem
from iolab.experiment import parse
from iolab.experiment.experiment import Experiment
from iolab.lab.kernels import HERE
from iolab.locale import Phrase, Text
from iolab.messages.notes import MethodsRaised
from iolab.plan.planning import missing_steps
from iolab.plan.types import Plan
from iolab.results.metric import Method, method_name
from iolab.results.trial import Status
from iolab.run.agents import Agents
from iolab.run.durations_file import remember
from iolab.run.hosts.host_facts import changed_facts, facts_of
from iolab.run.outcome import Observer
from iolab.run.session import Host, Session
from iolab.store.folder import RunFolder, create_folder
from iolab.store.read import experiment_text, load_run
from iolab.store.records import EXPERIMENT, StoredRun
from iolab.trial.host_warnings import EMULATED_CPU
from iolab.trial.lab_access import Alone, Calibration
from iolab.trial.methods import version_of


def create(experiment: Experiment, plan: Plan, facts: Mapping[str, Json], parent: Path, clock: Clock) -> Path:
    """Create a run folder with the plan and without trials; return its path."""
    folder = create_folder(parent, experiment.title, clock.wall())
    try:
        folder.write_files(experiment.files)
        folder.write_decision(experiment.text, plan, facts)
    finally:
        folder.close()
    return folder.path


def extend(path: Path, experiment: Experiment, plan: Plan, facts: Mapping[str, Json]) -> None:
    """Set `plan` as the plan of a run; trials with equal content remain valid, even if labels change.

    Raises:
        InputError: the host differs from the run's host, or the plan lacks trials that were measured.
    """
    run = load_run(path)
    refuse_other_host(run, facts)
    _refuse_loss(run, plan)
    folder = RunFolder(path)
    try:
        folder.write_files(experiment.files)
        folder.write_decision(experiment.text, plan, facts)
    finally:
        folder.close()


def _refuse_loss(run: StoredRun, plan: Plan) -> None:
    """Raise an error if the plan for extending a run lacks trials that the run has already measured."""
    kept = {step.key for step in plan.steps}
    dropped = {record.key: record for record in run.trials if record.key not in kept}
    if dropped:
        first = next(iter(dropped.values()))
        levels = ", ".join(f"{name}={label}" for name, label in first.cell.items())
        example = Phrase("run.trial-of-block", block=first.block, measure=first.measure, levels=levels)
        raise _unsuitable(
            run,
            Phrase("run.extending-the-run"),
            Phrase("run.plan-without-measured-trials", count=len(dropped), example=example),
            Phrase("run.experiment-with-more"),
            Phrase("run.begin-new-and-compare"),
        )


def stored_experiment(path: Path) -> Experiment:
    """Return the experiment of a run folder."""
    return parse(experiment_text(path), str(path / EXPERIMENT), stored=True)


def refuse_changed_plan(run: StoredRun, again: Plan) -> None:
    """Raise an error if the stored experiment results in a plan other than the stored one.

    Raises:
        InputError: the plans differ; the error message contains both digests.
    """
    if again.is_same_as(run.plan):
        return
    raise _unsuitable(
        run,
        Phrase("run.resuming-the-run"),
        Phrase("run.experiment-of-other-plan", digest=again.digest),
        Phrase("run.plan-of-the-run", digest=run.plan.digest),
        Phrase("run.extend-or-begin-new"),
    )


def refuse_other_host(run: StoredRun, now: Mapping[str, Json]) -> None:
    """Raise an error if trials on this host would not be comparable with those of the run.

    Raises:
        InputError: the hosts differ; the error message lists the differences.
    """
    changed = changed_facts(run.facts, now)
    if changed:
        raise _unsuitable(
            run,
            Phrase("run.adding-trials"),
            Phrase("errors.several-clauses", clauses=changed),
            Phrase("run.same-host-unchanged"),
            Phrase("run.begin-here-and-compare"),
        )


def raised_methods(run: StoredRun) -> tuple[MethodsRaised, ...]:
    """Return the metrics whose method versions have changed since the run, so new trials would have different
    versions."""
    heads = {(trial.measure, trial.kind, trial.result.metrics.heads): None for trial in run.trials}
    found: dict[tuple[str, Method, int], dict[str, None]] = {}
    for measure, kind, own in heads:
        for of, stored in zip(own.quantities, own.methods, strict=True):
            if stored != (newest := version_of(of.name, kind)):
                found.setdefault((measure, stored, newest), {})[of.name] = None
    return tuple(
        MethodsRaised(
            measure=measure, metrics=tuple(metrics), stored=method_name(stored), newest=method_name(newest)
        )
        for (measure, stored, newest), metrics in found.items()
    )


def work_on(
    path: Path,
    experiment: Experiment,
    agents: Agents,
    clock: Clock,
    observer: Observer,
    *,
    again: bool = False,
    keep_going: bool = True,
    durations: Path | None = None,
) -> None:
    """Run the steps that have no trial; with `again`, also run the steps whose trials failed or were invalid.

    Without `keep_going`, stop if several consecutive labs cannot be built for the same reason. The durations of the
    trials are added to the file `durations`, for the estimates of later runs.
    """
    run = load_run(path)
    kept = {record.key: record.result.status for record in run.trials}
    done = {key for key, status in kept.items() if status is Status.OK or not again}
    folder = RunFolder(path)
    try:
        session = Session(experiment, run.plan, agents, folder, clock, observer, host_of(run.facts))
        try:
            with session:
                session.walk(missing_steps(run.plan, done), keep_going=keep_going)
        finally:
            if durations is not None:
                remember(durations, session.took)
    finally:
        folder.close()


def host_of(facts: Mapping[str, Any]) -> Host:
    """Return the session's data about the host on which a run started, from the run's stored facts."""
    hosts = facts.get("hosts")
    others = hosts if isinstance(hosts, dict) else {}
    models = {
        "this computer": facts.get("cpu_model"),
        **{name: told["cpu_model"] for name, told in others.items()},
    }
    return Host(
        facts={
            kernel: known
            for kernel, told in {HERE: facts, **others}.items()
            if (known := facts_of(told)) is not None
        },
        told=others,
        calibrations={
            kernel: calibration
            for kernel, told in {HERE: facts, **others}.items()
            if (calibration := decode_calibration(told.get("calibration"))) is not None
        },
        emulated=tuple(name for name, model in models.items() if str(model).startswith(EMULATED_CPU)),
    )


def _unsuitable(run: StoredRun, doing: Text, seen: Text, allowed: Text, advice: Text) -> InputError:
    return InputError([Problem(str(run.folder), doing, seen, allowed, advice)])


def decode_calibration(found: Mapping[str, Json] | None) -> Calibration | None:
    """Return a stored calibration as the type that verdicts use."""
    if found is None:
        return None
    paths = found["paths"]
    return Calibration(
        generator_fps={
            path: {int(size): fps for size, fps in one["generator_fps"].items()}
            for path, one in paths.items()
        },
        receiver_fps={path: one["receiver_fps"] for path, one in paths.items()},
        alone=Alone(**found["alone"]) if "alone" in found else None,
    )
