"""What a language must say of a shaper that was judged."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShaperWords:
    """The answer of `iolab verify-shaper`."""

    title: str
    """{link} {trial} {verdict}"""
    passed: str
    failed: str
    rate: str
    """The long-run rate is not above the asked one."""
    reached: str
    """The asked rate is reached."""
    window: str
    """No window holds more than rate and burst allow."""
    at_least: str
    """{what} {window} {seen} {allowed} {held}"""
    at_most: str
    """As at_least."""
    held: str
    missed: str
    advice: str
    """{key} {value}"""
