"""Work for a thread: what a job is.

Pure.  The store itself runs in one thread (the reactor's) and must not wait for the disk.  It hands out jobs; the
caller runs
:meth:`Job.run` in any thread and then calls :meth:`MessageStore.finished
<rocketha.store.message_store.MessageStore.finished>` in the store's thread with the error, if there was one.  ``run``
works on a snapshot taken when the job was made and touches files only, never the store's state; ``apply`` and
``fail`` run in the store's thread and touch state, never files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from rocketha.errors import DiskFailure


def _nothing() -> None:
    return None


def _ignore(_error: Exception) -> None:
    return None


@attrs.frozen(eq=False)
class Job:
    """One piece of blocking work.

    :ivar kind: ``flush``, ``queues``, ``index``, ``segment``, ``expire`` ...; one of a kind is out at a time,
        ``flush`` excepted.
    :ivar run: blocking; raises :class:`DiskFailure`.
    :ivar apply: called after ``run`` succeeded.
    :ivar fail: called with the error after it failed.
    """

    kind: str
    run: Callable[[], None]
    apply: Callable[[], None] = _nothing
    fail: Callable[[Exception], None] = _ignore


def run_here(jobs: Sequence[Job], finished: Callable[[Job, Exception | None], None]) -> None:
    """Run jobs at once, in this thread: at a clean stop, in recovery and in tests."""
    for job in jobs:
        try:
            job.run()
        except DiskFailure as error:
            finished(job, error)
            raise
        finished(job, None)
