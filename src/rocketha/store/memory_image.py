"""What a file of a disk in memory holds.

Pure.  Pages that nobody wrote take no memory: files of a log are made full size.
"""

from __future__ import annotations

from rocketha.store.disk import Buffer

PAGE = 4096


def pages(offset: int, size: int) -> range:
    """Numbers of the pages that have these bytes."""
    return range(offset // PAGE, -(-(offset + size) // PAGE))


class Image:
    """Sparse bytes.

    :ivar pages: by number; one that is missing is zeros.
    """

    __slots__ = ("pages", "size")

    def __init__(self) -> None:
        self.pages: dict[int, bytearray] = {}
        self.size = 0

    def copy(self) -> Image:
        """Another one with the same bytes."""
        other = Image()
        other.pages = {number: bytearray(page) for number, page in self.pages.items()}
        other.size = self.size
        return other

    def read(self, offset: int, size: int) -> bytes:
        """The bytes at ``offset``; fewer where they end."""
        size = max(0, min(size, self.size - offset))
        parts = []
        while size > 0:
            number, start = divmod(offset, PAGE)
            step = min(size, PAGE - start)
            page = self.pages.get(number)
            parts.append(bytes(step) if page is None else bytes(page[start : start + step]))
            offset += step
            size -= step
        return b"".join(parts)

    def write(self, offset: int, data: Buffer) -> None:
        """These bytes at ``offset``."""
        view = memoryview(data)
        self.size = max(self.size, offset + len(view))
        while view:
            number, start = divmod(offset, PAGE)
            step = min(len(view), PAGE - start)
            page = self.pages.get(number)
            if page is None:
                page = self.pages[number] = bytearray(PAGE)
            page[start : start + step] = view[:step]
            view = view[step:]
            offset += step

    def truncate(self, size: int) -> None:
        """So many bytes; what is new is zeros."""
        last, start = divmod(size, PAGE)
        for number in [number for number in self.pages if number > last or (number == last and start == 0)]:
            del self.pages[number]
        if start and last in self.pages:
            self.pages[last][start:] = bytes(PAGE - start)
        self.size = size
