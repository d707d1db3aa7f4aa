"""Walk the plan: bring the lab about through the agents, read back, measure, append; interrupt, resume, extend."""

from iolab.own_kinds import provide_own_kinds

provide_own_kinds()  # whoever runs experiments reads them first
