"""Sentences that older versions stored instead of codes; they are quoted unchanged. Types only."""

from iolab.messages.caveats import Caveat
from iolab.messages.commands import CommandNote
from iolab.messages.drop_reasons import DropReason
from iolab.messages.evidence import Disturbance
from iolab.messages.instrument import PathReason, Sharing
from iolab.messages.places import Place
from iolab.messages.searches import SearchEnd
from iolab.messages.statement import Name, Quoted
from iolab.messages.unmet import UnmetRequirement
from iolab.messages.warnings import TrialWarning


class InWords(
    CommandNote, Disturbance, Caveat, DropReason, UnmetRequirement, PathReason, Place, SearchEnd, Sharing
):
    """A sentence of an older version."""

    said: Quoted


class WarningInWords(TrialWarning):
    """A warning of an older version."""

    was: Name
    """Code of the warning in the older version."""
    said: Quoted
    advice: Quoted
    """Advice; empty: there is no advice."""
