"""Names that refer to other sections: that they exist, in every cell. What one section says alone is checked elsewhere."""

from iolab.experiment.experiment import Experiment
from iolab.experiment.problems import Problems


def check_references(experiment: Experiment, problems: Problems) -> None:
    """Note every reference that leads nowhere."""
