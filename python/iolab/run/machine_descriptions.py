"""What each machine with a kernel of its own is: stored when a session first meets it."""

from collections.abc import Mapping
from dataclasses import asdict

from iolab.agent.messages import Json
from iolab.lab.kernels import HERE
from iolab.run.agents import Agents
from iolab.run.guests.guest_facts import GuestFacts
from iolab.run.guests.guests import Guests
from iolab.run.hosts.host_facts import machine_facts
from iolab.store.folder import RunFolder


class MachineDescriptions:
    """The descriptions in a run's folder."""

    def __init__(self, folder: RunFolder, agents: Agents, hosts: Mapping[str, Mapping[str, Json]]) -> None:
        """`hosts`: the facts of other hosts that were read before the run, by machine."""
        self._folder, self._agents, self._hosts = folder, agents, hosts
        self._guest_facts = GuestFacts()
        self._described = {HERE}

    def store(self, guests: Guests) -> None:
        """Describe the machines that have not been described yet. Raises AgentError."""
        for kernel in self._agents:
            if kernel not in self._described:
                self._folder.write_machine(kernel, self._description(kernel, guests))
                if (guest := guests.started(kernel)) and guest.launch.packages:
                    self._folder.write_packages(guest.launch.packages)
                self._described.add(kernel)

    def _description(self, kernel: str, guests: Guests) -> dict[str, Json]:
        agent, use = self._agents.of(kernel), guests.use(kernel)
        if use is not None:
            return {**self._guest_facts.read(agent, guests.image_of(kernel)), "guest": asdict(use)}
        return {**(self._hosts.get(kernel) or machine_facts(agent)), "guest": None}
