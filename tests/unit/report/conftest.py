"""Runs shared by several tests."""

import pytest
from tests.unit.report.builder import quickstart

from iolab.analysis import analyse
from iolab.analysis.types import Analysis
from iolab.experiment.experiment import Experiment
from iolab.store.records import StoredRun

Made = tuple[StoredRun, Analysis, Experiment]


@pytest.fixture(scope="session")
def made() -> Made:
    """Return a quickstart run of ten blocks, with an outlier, invalid trials and warnings."""
    run, experiment = quickstart(10)
    return run, analyse(run.trials, run.plan), experiment


@pytest.fixture(scope="session")
def small() -> Made:
    """Return the same run with three blocks: no intervals."""
    run, experiment = quickstart(3)
    return run, analyse(run.trials, run.plan), experiment
