"""What older versions stored as a sentence: it is quoted, since no code can be told from it. Types only."""

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
    """What an older version said, whatever it is about."""

    said: Quoted


class WarningInWords(TrialWarning):
    """A warning of an older version."""

    was: Name
    """The code that it had."""
    said: Quoted
    advice: Quoted
    """What to do about it; empty: nothing."""
