"""The unique message id that a client (or the broker, for a message without one) puts into UNIQ_KEY.

Pure: address, process id, start of the month and present time come in.  Layout, as upper-case hex: address 4 or 16
bytes, low 16 bits of the process id, 4 bytes that tell apart the class loaders of one JVM (here: any number the owner
likes), milliseconds since the start of the month 4 bytes, counter 2 bytes.

Java: ``MessageClientIDSetter``.
"""

from __future__ import annotations


class UniqueIds:
    """Makes ids; one per process and purpose.

    :param address: 4 or 16 bytes.
    :param process_id: any; its low 16 bits are used.
    :param distinction: 32 bits that tell this generator from others of the process.
    """

    def __init__(self, address: bytes, process_id: int, distinction: int) -> None:
        owner = (process_id & 0xFFFF).to_bytes(2) + (distinction & 0xFFFFFFFF).to_bytes(4)
        self._prefix = (address + owner).hex().upper()
        self._counter = 0

    def next(self, since_month_start_ms: int) -> str:
        """The next id; the same counter value returns only after 65,536 others."""
        self._counter = (self._counter + 1) & 0xFFFF
        return f"{self._prefix}{since_month_start_ms & 0xFFFFFFFF:08X}{self._counter:04X}"
