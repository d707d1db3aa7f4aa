"""Check existing targets before anything is built: whether their secrets can be read, and whether they may be
written."""

from collections.abc import Iterator, Sequence

from iolab.errors import InputError, Problem, UnsupportedError
from iolab.experiment.experiment import Experiment
from iolab.experiment.model.targets import ExistingTarget, SecretSource
from iolab.lab.volumes.served import consents_to
from iolab.locale import Phrase
from iolab.plan.commands import Labs
from iolab.plan.types import Plan, Step
from iolab.run.hosts.devices import DeviceUse
from iolab.run.lab.secrets import read_secret
from iolab.trial.disk.section_runs import written_bytes


def check_targets(experiment: Experiment, plan: Plan) -> None:
    """Check the existing targets of all steps of a plan.

    Raises:
        InputError: secrets cannot be read; the error lists each of them.
        UnsupportedError: a measure would write to a target that the command line does not name; the error states every
            target.
    """
    labs = Labs(experiment, plan)
    sources: dict[SecretSource, None] = {}
    refusals: dict[str, Phrase] = {}
    for step in plan.steps:
        for name, target in _targets(labs, step):
            if target.chap is not None:
                sources[target.chap.secret] = None
            if _is_refused(labs, step, name):
                identity = target.written_identity
                refusals[name] = Phrase("run.target-not-permitted", volume=name, identity=identity)
    _check_secrets(sources)
    if refusals:
        raise UnsupportedError(Phrase("errors.several-clauses", clauses=list(refusals.values())))


def used_targets(labs: Labs, steps: Sequence[Step]) -> tuple[DeviceUse, ...]:
    """Return the uses of existing targets in steps of a plan, each use once."""
    found: dict[DeviceUse, None] = {}
    for step in steps:
        for name, target in _targets(labs, step):
            size = written_bytes(labs.setup(step), step.measure, name)
            if size is not None:
                found[DeviceUse("", target.written_identity, name, step.measure, size)] = None
    return tuple(found)


def _targets(labs: Labs, step: Step) -> Iterator[tuple[str, ExistingTarget]]:
    """Yield each volume of a step's lab that is an existing target and is used as a disk."""
    lab = labs.setup(step).lab
    used = {disk.volume for machine in lab.machines.values() for disk in machine.disks}
    for name, volume in lab.volumes.items():
        if name in used and volume.existing_target is not None:
            yield name, volume.existing_target


def _is_refused(labs: Labs, step: Step, name: str) -> bool:
    """Whether a step's measure may write to a target that the command line does not name."""
    setup = labs.setup(step)
    return bool(written_bytes(setup, step.measure, name)) and not consents_to(setup.lab, name)


def _check_secrets(sources: dict[SecretSource, None]) -> None:
    problems: list[Problem] = []
    for source in sources:
        try:
            read_secret(source)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
