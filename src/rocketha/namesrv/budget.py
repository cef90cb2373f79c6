"""How often the nameserver connects to one port and to one host, whoever names them.

Who registers chooses the port, and at his own host's address the nameserver believes him.  So that he cannot have it
connect to port after port of a host that others share with him, or to one of them again and again, each has a number at
once and then one every ten seconds.
"""

from __future__ import annotations

from rocketha.rates import Rates


class Budget:
    """Of one kind of question."""

    def __init__(self, of_port: int, of_host: int) -> None:
        self._ports, self._hosts = Rates(of_port), Rates(of_host)

    def take(self, port: str, now_ms: int) -> bool:
        """Whether a ``host:port`` may be asked now; that counts."""
        return self._ports.take(port, now_ms) and self._hosts.take(port.rpartition(":")[0], now_ms)
