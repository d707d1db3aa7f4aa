"""The names of plugin.py for type checkers and editors: a test compares them."""

from iolab.agent.client import Agent as Agent
from iolab.agent.client import Refused as Refused
from iolab.agent.messages import ProcessEnded as ProcessEnded
from iolab.errors import AgentError as AgentError
from iolab.errors import InputError as InputError
from iolab.errors import Problem as Problem
from iolab.errors import TrialFailed as TrialFailed
from iolab.experiment.experiment import Section as Section
from iolab.experiment.model.instruments import WithInstrument as WithInstrument
from iolab.experiment.model.measures import Measure as Measure
from iolab.experiment.model.quantities import BitsPerSecond as BitsPerSecond
from iolab.experiment.model.quantities import Bytes as Bytes
from iolab.experiment.model.quantities import Count as Count
from iolab.experiment.model.quantities import Flag as Flag
from iolab.experiment.model.quantities import Nanoseconds as Nanoseconds
from iolab.experiment.model.quantities import Period as Period
from iolab.experiment.model.quantities import Ratio as Ratio
from iolab.experiment.model.quantities import SomeBytes as SomeBytes
from iolab.experiment.model.quantities import SomeNanoseconds as SomeNanoseconds
from iolab.experiment.model.quantities import SomeWholeSeconds as SomeWholeSeconds
from iolab.experiment.model.quantities import WholeSeconds as WholeSeconds
from iolab.experiment.references.view import View as View
from iolab.experiment.references.view import check_pair as check_pair
from iolab.lab.requirements.need import Wanted as Wanted
from iolab.lab.topology import Endpoint as Endpoint
from iolab.lab.topology import Topology as Topology
from iolab.messages.places import Purpose as Purpose
from iolab.registry.rows import InstrumentKind as InstrumentKind
from iolab.registry.rows import MeasureKind as MeasureKind
from iolab.registry.rows import ShortForm as ShortForm
from iolab.results.metric import LARGER as LARGER
from iolab.results.metric import SMALLER as SMALLER
from iolab.results.metric import Dimensions as Dimensions
from iolab.results.metric import Metric as Metric
from iolab.results.metric import Metrics as Metrics
from iolab.results.series import Series as Series
from iolab.results.series import series as series
from iolab.results.trial import CommandRecord as CommandRecord
from iolab.trial.instruments.instrument import Instrument as Instrument
from iolab.trial.instruments.instrument import Seen as Seen
from iolab.trial.lab_access import Site as Site
from iolab.trial.measurement import Measured as Measured
from iolab.trial.measurement import Readings as Readings

HOMES: dict[str, tuple[str, ...]]
