"""What must be known of machines to read a figure."""

from tests.wording import in_words

from iolab.record.trial import GuestUse
from iolab.trial.guest_warnings import guest_warnings

USE = GuestUse(
    engine="qemu", on="", accel="kvm", hypervisor="7.2", image="", packages="", emulated=False, boot_ns=1
)


def test_an_emulated_computer_counts_as_an_emulated_guest_does() -> None:
    """Whoever measures between hosts that are emulated themselves reads no performance either."""
    assert guest_warnings({"dut": USE}) == ()
    (told,) = guest_warnings({"dut": USE}, ["pc6"])
    assert told.code == "emulated"
    assert in_words(told) == "pc6 ran under emulation: the figures are functional, not performance"
