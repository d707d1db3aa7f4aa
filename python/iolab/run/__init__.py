"""Execute a plan: build the lab through the agents, read its settings back, measure, and append the trial to the
run."""

from iolab.own_kinds import provide_own_kinds

provide_own_kinds()  # imported first, because every run reads experiments first
