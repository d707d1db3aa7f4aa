"""The labs of a plan's steps: their resources, composed of what was decided at planning and of nothing else.

`iolab plan` shows these, and a run makes them.
"""

from collections.abc import Sequence

from iolab.experiment import resolver_of
from iolab.experiment.experiment import Experiment, Section, Setup
from iolab.experiment.model.measures import beside_direction
from iolab.experiment.model.packets import Packets
from iolab.frozen import frozen
from iolab.lab.compose import compose
from iolab.lab.guests.resources import cpus_of
from iolab.lab.hosts.readiness import Computer, first_card
from iolab.lab.kernels import HERE
from iolab.lab.packets.placement import Placement, placement_of, ways
from iolab.lab.resources import Resource
from iolab.lab.topology import topology_of
from iolab.plan.types import Plan, Step

MOST_LABS = 50
"""Labs kept with their resources; beyond, they start empty again."""
UNKNOWN = Computer(cpus=2)
"""What this computer is taken for where the plan does not say."""


@frozen
class PlannedLab:
    """What must stand for a step."""

    placement: Placement | None
    """Where the parts of its measure run; None: it sends no frames of our own."""
    resources: tuple[Resource, ...]
    """Each after what it needs."""


class Labs:
    """The labs of one plan; steps that share a lab share its resources."""

    def __init__(self, experiment: Experiment, plan: Plan) -> None:
        self._resolver = resolver_of(experiment)
        self._plan = plan
        self._made: dict[tuple[str, str], PlannedLab] = {}

    def setup(self, step: Step) -> Setup:
        """Return the lab and the measures of a step, as the experiment has them."""
        return self._resolver.setup(self._plan.cell(step))

    def beside_direction(self, step: Step) -> str:
        """Return a digest of what a step is without the direction of its measure."""
        cell = self._plan.cell(step)
        return beside_direction(
            self._resolver.lab_key(cell), self._resolver.setup(cell).measures[step.measure]
        )

    def of(self, step: Step) -> PlannedLab:
        """Return what must stand for a step.

        Raises:
            InputError: names or addresses clash, or no way joins the ends of its measure.
        """
        cell, resolver = self._plan.cell(step), self._resolver
        sends = isinstance(resolver.model(Section("measure", step.measure), cell), Packets)
        key = (resolver.lab_key(cell), resolver.measure_key(cell, step.measure) if sends else "")
        if key not in self._made:
            planned = self._planned(resolver.setup(cell), step.measure)
            if len(self._made) >= MOST_LABS:
                self._made.clear()
            self._made[key] = planned
        return self._made[key]

    def _planned(self, setup: Setup, measure: str) -> PlannedLab:
        known = self._plan.computers
        placement = placement_of(setup, measure, self._cpus_of_sender(setup, measure))
        resources = compose(
            setup.lab,
            placement=placement,
            cpus=known.get(HERE, UNKNOWN).cpus,
            other_cpus={kernel: one.cpus for kernel, one in known.items() if kernel != HERE},
            orders={kernel: one.order(first_card(setup.lab, kernel)) for kernel, one in known.items()},
        )
        return PlannedLab(placement, resources)

    def _cpus_of_sender(self, setup: Setup, name: str) -> Sequence[int]:
        """Return the CPUs of the kernel on which a measure's frames are sent, those near the sending card first."""
        measure = setup.measures[name]
        if not isinstance(measure, Packets):
            return ()
        source = ways(setup.lab, topology_of(setup.lab), measure)[0].source
        known = self._plan.computers
        if (sender := known.get(source.kernel)) and (order := sender.order(source.port)):
            return order
        own = known.get(HERE, UNKNOWN).cpus
        others = {name: one.cpus for name, one in known.items()}
        return range(cpus_of(setup.lab, source.kernel, own, others) or own)
