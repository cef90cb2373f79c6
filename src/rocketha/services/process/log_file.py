"""The log in a file, as JSON lines, which is put aside when it has grown long.

Theory of operation.  Twisted's own ``LogFile`` does the rotation: NAME becomes NAME.1, and so on up to a bound.  Where
the process writes its standard error into the same file, as those of ``rocketha-cluster`` do, standard output and error
follow to the new one: a traceback of a dying interpreter stands behind the last line, and nothing keeps on writing
into a file that was put aside.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.application import service
from twisted.logger import globalLogPublisher
from twisted.python.logfile import LogFile

from rocketha.observe.logging import LineObserver
from rocketha.services.process.fatal import end_process
from rocketha.store.posix_disk import FILE_MODE, private_dirs, private_file

LOG_BYTES_MAX = 16 << 20
"""A log that is longer is put aside."""

LOGS_KEPT_MAX = 5
"""Of those put aside; the oldest goes."""

STDOUT, STDERR = 1, 2


class RotatedLog(LogFile):
    """A text stream for log lines.

    :param path: its directory is made if there is none.
    """

    def __init__(self, path: str, bytes_max: int = LOG_BYTES_MAX) -> None:
        directory, name = os.path.split(os.path.abspath(path))
        private_dirs(directory)
        self._is_stderr = _same_file(path, STDERR)
        super().__init__(name, directory, bytes_max, defaultMode=FILE_MODE, maxRotatedFiles=LOGS_KEPT_MAX)

    def _openFile(self) -> None:
        os.close(private_file(self.path, os.O_WRONLY | os.O_CREAT))  # Twisted sets the mode when the file is there
        super()._openFile()
        if self._is_stderr:
            # One open file for all three, so that none writes over what another wrote.
            for descriptor in (STDOUT, STDERR):
                os.dup2(self._file.fileno(), descriptor)

    def rotate(self) -> None:
        """Twisted: put it aside, and begin anew; where that fails, go on with what is there."""
        try:
            super().rotate()
        finally:
            if self._file.closed:
                self._openFile()


def _same_file(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


class LogFileService(service.Service):
    """Writes the process's log to a file from its start to its end.

    :param path: of the file.
    """

    def __init__(self, path: str, reactor: Any = None) -> None:
        self.setName("log file")
        self._path = path
        self._reactor = reactor

    def privilegedStartService(self) -> None:
        """Twisted: before all others. It stays to the end of the process, for they also say how they ended."""
        try:
            stream: Any = RotatedLog(self._path)
        except OSError as problem:
            if self._reactor is None:
                from twisted.internet import reactor

                self._reactor = reactor
            end_process(self._reactor, f"--log-file {self._path} can not be written: {problem.strerror}")
            return
        globalLogPublisher.addObserver(LineObserver(stream, as_json=True))
