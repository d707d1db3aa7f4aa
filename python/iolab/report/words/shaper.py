"""What a language must say of a shaper that was judged."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShaperWords:
    """The answer of `iolab verify-shaper`."""

    title: str
    """{link} {trial} {verdict}"""
    passed: str
    failed: str
    not_judged: str
    rate: str
    """The long-run rate is not above the asked one."""
    reached: str
    """The asked rate is reached."""
    window: str
    """No window holds more than rate and burst allow."""
    ceil: str
    """While a class sends, it has no more than its ceil."""
    alone: str
    """While it sends alone, it has its ceil."""
    share: str
    """While others send too, it has its rate."""
    of_class: str
    """{name}"""
    silent_class: str
    """{name}: it sent nothing, or the watch did not see it."""
    flows_unseen: str
    """{flows}, how many to tell apart: the watch behind the shaper does not tell flows apart."""
    at_least: str
    """{what} {window} {seen} {allowed} {held}"""
    at_most: str
    """As at_least."""
    held: str
    missed: str
    excused: str
    """{why}: not kept, and why that says nothing."""
    advice: str
    """{key} {value}"""
