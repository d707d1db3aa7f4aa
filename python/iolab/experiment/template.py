"""The text that `iolab new NAME` writes: small, commented, and complete."""

_TEXT = """\
# {title}
# `iolab check FILE` explains what is wrong, `iolab plan FILE` shows what would be done, `iolab run FILE` does it.
title: "{title}"

lab:
  machines:                # netns: a network namespace of this computer; see the reference for host and vm
    left: {{kind: netns}}
    right: {{kind: netns}}
  links:                   # two ends make a cable, more ends a switch; addresses are given automatically
    wire: {{ends: [left.eth0, right.eth0], mtu: 1500}}

measure:
  tcp: {{kind: stream, protocol: tcp, from: left, to: right, duration: 2s}}

factors:                   # whatever is written above can be varied: its path, and the values to try
  links.wire.mtu: [1500, 9000]

baseline: {{links.wire.mtu: 1500}}   # what the other levels are compared with
blocks: 4                  # each combination is measured once per block; 4 is the least that gives an interval
"""


def starter(name: str) -> str:
    """Return the text of a first experiment with this name; it passes every check."""
    title = "".join(letter for letter in name if letter.isalnum() or letter in " -_.").strip(" -.")[:100]
    if not title or not title[0].isalpha():
        title = f"Experiment {title}".strip()
    return _TEXT.format(title=title)
