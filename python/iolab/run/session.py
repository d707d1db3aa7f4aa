"""Execute the steps of a plan: build the lab, read it back, run the trial, read back again, append the trial.

Trials run one at a time, and each is stored before the next.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

from iolab.agent.client import AgentLost
from iolab.agent.decoding import BadAnswer
from iolab.agent.messages import Json
from iolab.clock import Clock
from iolab.errors import AgentError, InputError, LabError, TrialFailed, UnsupportedError
from iolab.experiment.experiment import Experiment, Lab, Setup
from iolab.experiment.model.machines import Host as Remote
from iolab.experiment.model.measures import direction_of
from iolab.lab.guests.start import process_id, switch_id
from iolab.lab.hosts.facts import Facts
from iolab.lab.kernels import HERE
from iolab.lab.packets.placement import Placement, sending_end
from iolab.lab.resources import Resource
from iolab.lab.topology import Topology
from iolab.locale import Phrase, Text
from iolab.messages.failures import (
    Difference,
    Failure,
    LabDiffered,
    LabWasLost,
    MachineLost,
    OtherFailure,
    SeveralFailures,
)
from iolab.messages.warnings import TrialWarning
from iolab.plan.commands import Labs, PlannedLab
from iolab.plan.durations import Took, duration_ns, kind_of, parts_of
from iolab.plan.types import Plan, Step
from iolab.results.packets import Choice
from iolab.results.trial import GuestUse, Status
from iolab.run.agents import Agents
from iolab.run.guests.guests import MachineDescriptions
from iolab.run.guests.running_guest import has_monitor
from iolab.run.hosts.host_agent import Waiting
from iolab.run.hosts.hosts import lab_name, reach, reach_again
from iolab.run.lab.standing_lab import StandingLab
from iolab.run.outcome import AlikeFailures, Observer, Outcome
from iolab.store.folder import RunFolder
from iolab.store.records import Samples, TrialRecord
from iolab.trial.host_warnings import guest_warnings, host_warnings, taking_part
from iolab.trial.instruments.wires import start_draws
from iolab.trial.lab_access import ArrivalThread, Calibration, GuestPlace, Site
from iolab.trial.measurement import LabUnusable, Measured, failure_of
from iolab.trial.measuring import TimedPart, measure_at_once, measure_once


@dataclass(frozen=True, slots=True)
class Host:
    """The data about a host that a session needs."""

    facts: Mapping[str, Facts] = field(default_factory=dict)
    """Facts of each host, by kernel name; absent: unknown."""
    told: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """Facts of each remote host, in the form in which they are stored."""
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    """Calibration of each host, by kernel name; absent: not calibrated."""
    emulated: tuple[str, ...] = ()
    """Hosts, including the local one, with emulated processors."""


JUST_READ_NS = 50_000_000
"""Maximum age at which the reading at the end of a trial is used as that at the start of the next."""
SETTLE_NS = 10_000_000_000
"""Time until settings are in effect: in Linux 6.1 a bridge port may forward only a second after its carrier came
up; a virtual function of igb has its carrier after 2 s, as does an emulated e1000e on a busy host."""


class Session:
    """One execution of a plan, or of the rest of a plan."""

    def __init__(
        self,
        experiment: Experiment,
        plan: Plan,
        agents: Agents,
        folder: RunFolder,
        clock: Clock,
        observer: Observer,
        host: Host | None = None,
    ) -> None:
        self._observer = observer
        self._plan = plan
        self._labs = Labs(experiment, plan)
        self._folder = folder
        self._clock = clock
        self._host = host or Host()
        self._agents = agents
        self._descriptions = MachineDescriptions(folder, agents, self._host.told)
        # Resources that are leased again on a host that was lost.
        leases = self._labs.leases() if len(plan.computers) > 1 else {}
        self._waiting = Waiting(lab_name(experiment), leases=leases)
        self._reached: set[str] = set()
        self._hosts: dict[str, str] = {}
        self._absent: set[str] = set()
        self._choices: dict[tuple[object, ...], Choice] = {}
        self.took: list[Took] = []
        """Time that successful trials took in addition to their planned measuring time."""
        self._starts = 0
        self._lab = StandingLab(self._agents, folder.append_commands, starting=self._guests_start)
        self._unmade = AlikeFailures()
        self._stood: tuple[tuple[Resource, ...], int] | None = None

    def walk(self, steps: Sequence[Step], *, keep_going: bool = True) -> None:
        """Run the steps in order; store each trial before the next one starts.

        Raises:
            AgentError: the agent is lost.
            LabsUnmade: several consecutive labs could not be built for the same reason, and `keep_going` is false.
            StoreError: a trial could not be stored.
        """
        self._observer.run_begins(self._plan, len(steps), len(self._plan.steps) - len(steps))
        each_ns = self._plan.estimate_ns // max(1, len(self._plan.steps))
        begin_ns = self._clock.now_ns()
        left = len(steps)
        for turn in self._plan.at_once(steps):
            self._observer.trial_begins(turn[0], self._plan.cell(turn[0]), each_ns * left)
            for record, samples in self._do(turn):
                self._folder.append_trial(record, samples)
                left -= 1
                each_ns = (self._clock.now_ns() - begin_ns) // (len(steps) - left)
                self._observer.trial_ended(record, each_ns * left)
            if not keep_going:
                self._unmade.stop_if_hopeless()
        self._lab.take_down()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the agents of guests and remote hosts, which undo all changes; on lost hosts, a new agent undoes them.

        Raises:
            AgentError: an agent left changes behind, or could not undo some of its changes.
        """
        lost = {
            name: ssh for name, ssh in self._hosts.items() if name not in self._agents or self._is_lost(name)
        }
        troubles = [*self._lab.guests.troubles, *self._agents.close()]
        for name, ssh in lost.items():
            troubles += self._put_back(name, ssh, patient=kind is None and name not in self._absent)
        if troubles:
            raise AgentError(Phrase("errors.several-clauses", clauses=troubles))

    def _is_lost(self, kernel: str) -> bool:
        return self._agents.of(kernel).gone

    def _put_back(self, name: str, ssh: str, *, patient: bool) -> list[Text]:
        """Reach a lost host again: its new agent undoes the changes that the lost agent left.

        Return the errors as text.
        """
        try:
            trouble = (reach_again if patient else reach)(ssh, name, self._waiting).close()
        except (AgentError, UnsupportedError) as error:
            return [Phrase("run.lost-agent-not-reopened", name=name, reason=error, ssh=ssh)]
        return [Phrase("run.lost-agent-in-trouble", name=name, trouble=trouble)] if trouble else []

    def _do(self, turn: Sequence[Step]) -> Iterator[tuple[TrialRecord, Samples | None]]:
        """Run the steps of a turn in parallel; yield their records."""
        wall = self._clock.wall().isoformat(timespec="milliseconds")
        begin_ns, starts, first = self._clock.now_ns(), self._starts, turn[0]
        setup, cell = self._labs.setup(first), self._plan.cell(first)
        outcome = self._outcome(setup, turn)
        end_ns = self._clock.now_ns()
        if outcome.status is Status.OK and len(turn) == 1:
            measure = setup.measures[first.measure]
            took = Took(
                kind_of(setup.lab), measure.kind, started=self._starts > starts, first=starts == 0,
                beside_ns=end_ns - begin_ns - duration_ns(measure),
            )  # fmt: skip
            self.took.append(took)
        for step in turn:
            measure = setup.measures[step.measure]
            result = outcome.result(step.measure, begin_ns, end_ns, partial(self._warnings, step))
            yield (
                TrialRecord(
                    key=step.key, measure=step.measure, kind=measure.kind, direction=direction_of(measure),
                    sets_each_load=measure.sets_each_load, rest=self._labs.beside_direction(step),
                    block=step.block, cell=cell, wall=wall, result=result,
                ),
                outcome.samples(step.measure),
            )  # fmt: skip

    def _guests_start(self, names: Sequence[str]) -> None:
        self._starts += 1
        self._observer.guests_start(names)

    def _outcome(self, setup: Setup, turn: Sequence[Step]) -> Outcome:
        """Build the lab of the steps, measure, and read the lab back."""
        outcome = Outcome()
        try:
            planned = self._labs.of(turn[0])
            outcome = replace(outcome, placement=planned.placement)
            self._make(setup.lab, planned.resources)
            outcome = replace(outcome, guests=self._guests(setup.lab))
            self._descriptions.store(self._lab.guests)
            wrong = [] if self._stands(planned.resources) else self._settled_mismatches()
            if wrong:
                outcome = replace(
                    outcome,
                    status=Status.INVALID,
                    reason=LabDiffered(code="lab-differed-before", found=tuple(wrong)),
                )
            else:
                measured = self._measure(setup, turn, planned)
                outcome = replace(outcome, measured=measured)
                wrong = self._lab.mismatches()
                self._stood = None if wrong else (planned.resources, self._clock.now_ns())
                if wrong:
                    outcome = replace(
                        outcome,
                        status=Status.INVALID,
                        reason=LabDiffered(code="lab-differed-after", found=tuple(wrong)),
                    )
            if wrong:
                self._lab.take_down()  # settings that someone else changed are restored for the next trial
        except (LabError, TrialFailed, InputError) as error:
            return outcome.failed(self._failure(error))
        except AgentLost as error:
            if self._agents.here.gone:
                raise
            outcome = outcome.failed(_several(*self._losses(error.name), OtherFailure(said=str(error))))
            self._lab.take_down()  # the guest or remote host is restarted for the next trial
        except BadAnswer as error:
            if error.agent == HERE:
                raise
            outcome = outcome.failed(OtherFailure(said=str(error)))
            self._lab.take_down()  # a kernel whose agent gave an invalid answer is rebuilt before the next trial
        return outcome

    def _failure(self, error: LabError | TrialFailed | InputError) -> Failure:
        """Return the failure of a trial, with the differences in the lab; rebuild the lab if necessary."""
        if self._agents.here.gone:  # an error while the lab was being built: the run stops and can be resumed
            raise AgentLost(HERE, str(error)) from error
        if isinstance(error, LabUnusable):
            self._lab.take_down(error.hung)
            return error.failure
        return _several(*self._changes(), *self._losses(), failure_of(error))

    def _make(self, lab: Lab, resources: tuple[Resource, ...]) -> None:
        """Build a lab, and count the labs that cannot be built.

        Raises:
            LabError: a host cannot be reached, a command failed, or a kernel was lost.
        """
        try:
            self._reach(lab)
            self._lab.change_to(resources)
        except LabError as error:
            self._unmade.failed(failure_of(error))
            raise
        self._unmade.made()

    def _warnings(
        self, step: Step, guests: Mapping[str, GuestUse], placement: Placement | None
    ) -> tuple[TrialWarning, ...]:
        """Return the warnings about guests and hosts that apply to all figures of a trial."""
        setup = self._labs.setup(step)
        unready = host_warnings(setup.lab, self._host.facts, placement)
        part = None
        if guests:
            part = taking_part(setup.lab, self._labs.topology(step), setup.measures[step.measure])
        return (*guest_warnings(guests, self._host.emulated, part), *unready)

    def _losses(self, told: str | None = None) -> tuple[Failure, ...]:
        """Return the kernels lost since the last check, except `told`; the lab restarts them for the next trial."""
        if self._agents.here.gone or not (lost := self._agents.lost()):
            return ()
        self._lab.take_down()
        others = {name: said for name, said in lost.items() if name != told}
        return tuple(
            MachineLost(code="agent-was-lost", machine=name, said=said) for name, said in others.items()
        )

    def _changes(self) -> tuple[Failure, ...]:
        """Return the differences from the applied settings; if there are any, the lab is rebuilt."""
        wrong: list[Difference]
        try:
            wrong = self._lab.mismatches()
        except AgentLost as error:
            if self._agents.here.gone:
                raise
            wrong = [LabWasLost(said=str(error))]
        if not wrong:
            return ()
        self._lab.take_down()
        return (LabDiffered(code="lab-differs", found=tuple(wrong)),)

    def _stands(self, resources: tuple[Resource, ...]) -> bool:
        """Whether the same lab was read back shortly before, at the end of a trial, and had no differences."""
        stood, self._stood = self._stood, None
        if stood is None or stood[0] is not resources:
            return False
        return self._clock.now_ns() - stood[1] <= JUST_READ_NS

    def _settled_mismatches(self) -> list[Difference]:
        """Read the lab back until there are no differences or the settling time is over; return the last differences.

        A reading takes milliseconds.
        """
        begin_ns = self._clock.now_ns()
        while wrong := self._lab.mismatched():
            patience_ns = max(SETTLE_NS, *(one.patience_ns for one, _ in wrong))
            if self._clock.now_ns() - begin_ns >= patience_ns:
                break
        return [difference for _, difference in wrong]

    def _measure(
        self, setup: Setup, turn: Sequence[Step], planned: PlannedLab
    ) -> Mapping[str, Measured | Failure]:
        """Measure the parts of a turn in parallel; if the turn has only one measure, raise its failure."""
        topology, names = planned.topology, [step.measure for step in turn]
        kernel = self._kernel_of(setup, names[0], topology)
        site = Site(
            agent=self._agents.of(kernel),
            lab=setup.lab,
            topology=topology,
            placement=planned.placement,
            threads=self._threads(topology, planned.placement),
            calibration=self._host.calibrations.get(kernel),
            agents={kernel: self._agents.of(kernel) for kernel in self._agents},
            guests=self._guest_places(setup.lab),
            choices=self._choices,
        )
        start_draws(site, self._plan.seed, turn[0].block)
        found: Mapping[str, Measured | Failure]
        if len(names) == 1:
            found = {names[0]: measure_once(site, setup.measures[names[0]])}
        else:
            begins = parts_of(setup, names[0])
            parts = {name: TimedPart(setup.measures[name], begins[name]) for name in names}
            found = measure_at_once(site, parts, measure_once)
        for given in found.values():
            if isinstance(given, Measured):
                self._folder.append_commands(given.commands)
        return found

    def _threads(self, topology: Topology, placement: Placement | None) -> dict[str, ArrivalThread]:
        """Return the NAPI threads by port."""
        if placement is None:
            return {}
        ports = [port for port in topology.ports() if port.ref in placement.napi]
        found = {port.ref: self._lab.napi.at(port.netns, port.name, port.kernel) for port in ports}
        return {ref: thread for ref, thread in found.items() if thread is not None}

    def _reach(self, lab: Lab) -> None:
        """Start the agents of the lab's remote hosts, including lost ones.

        Raises:
            LabError: a host cannot be reached.
        """
        self._reached |= set(self._agents)
        for name, machine in lab.machines.items():
            if not isinstance(machine, Remote) or machine.ssh is None:
                continue
            self._hosts[name] = machine.ssh
            if name in self._agents:
                continue
            try:
                again = name in self._reached and name not in self._absent
                reaching = reach_again if again else reach
                self._agents.add(name, reaching(machine.ssh, name, self._waiting))
                self._absent.discard(name)
            except (AgentError, UnsupportedError) as error:
                self._absent.add(name)  # this trial has waited for the host, so later trials do not wait
                raise LabError(Phrase("run.host-not-reached", host=name, reason=error)) from error

    def _kernel_of(self, setup: Setup, name: str, topology: Topology) -> str:
        """Return the kernel that sends a measure's frames; for other measures the local host's kernel."""
        end = sending_end(setup.lab, topology, setup.measures[name])
        return HERE if end is None else end.kernel

    def _guests(self, lab: Lab) -> dict[str, GuestUse]:
        found = {name: self._lab.guests.use(name) for name in lab.machines}
        return {name: use for name, use in found.items() if use is not None}

    def _guest_places(self, lab: Lab) -> dict[str, GuestPlace]:
        places: dict[str, GuestPlace] = {}
        for name, use in self._guests(lab).items():
            running = self._lab.guests.started(name)
            cards = running.switches if running is not None else ()
            switches = {switch_id(name, card): card for card in cards}
            statistics = partial(self._lab.guests.block_statistics, name) if has_monitor(running) else None
            places[name] = GuestPlace(use.on, process_id(name), switches, statistics)
        return places


def _several(*failures: Failure) -> Failure:
    return SeveralFailures(failures=failures) if len(failures) > 1 else failures[0]
