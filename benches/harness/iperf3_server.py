"""An iperf3 server in a namespace, as somebody would start it by hand."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

LISTENING = "listening"
"""What its line says when a client may come."""
END_S = 10


@contextmanager
def serving(netns: str, port: int = 5201, before: Sequence[str] = ()) -> Iterator[None]:
    """Start a server for one client, and wait until it listens; leaving waits for its end.

    `before` are words that stand before the program: what starts it.
    """
    program = ("iperf3", "--server", "--one-off", "--port", str(port), "--forceflush")
    argv = ("ip", "netns", "exec", netns, *before, *program)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if LISTENING in line:
                break
        yield
        running.communicate(timeout=END_S)
