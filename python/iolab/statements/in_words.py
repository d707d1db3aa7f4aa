"""What older versions stored as a sentence: it is quoted, since no code can be told from it. Types only."""

from iolab.statements.clauses import Disturbance
from iolab.statements.commands import CommandNote
from iolab.statements.doubts import Doubt
from iolab.statements.drop_reasons import DropReason
from iolab.statements.instrument import PathReason, Sharing
from iolab.statements.lacks import Lack
from iolab.statements.places import Place
from iolab.statements.searches import SearchEnd
from iolab.statements.statement import Name, Quoted
from iolab.statements.warnings import Warning


class InWords(CommandNote, Disturbance, Doubt, DropReason, Lack, PathReason, Place, SearchEnd, Sharing):
    """What an older version said, whatever it is about."""

    said: Quoted


class WarningInWords(Warning):
    """A warning of an older version."""

    was: Name
    """The code that it had."""
    said: Quoted
    advice: Quoted
    """What to do about it; empty: nothing."""
