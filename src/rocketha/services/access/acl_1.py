"""What a broker does with the files of ACL 1: looks whether they changed, or makes users of ACL 2 of what they say.

Java: ``PlainPermissionManager.watch``, ``AuthMigrator``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from twisted.python.failure import Failure

from rocketha.access.accounts import Accounts
from rocketha.observe.logging import make_logger
from rocketha.observe.metrics import Registry
from rocketha.services.config.acl_files import AclFiles
from rocketha.services.core.feature import BrokerFeature
from rocketha.services.waiting.blocking import BlockingWork

if TYPE_CHECKING:
    from rocketha.services.access.accounts_log import AccountsLog

LOOK_S = 5
"""Between two looks at the files; what two have found counts."""
AGAIN_S = 10
"""After a migration that failed."""


class WatchedAcl(BrokerFeature):
    """The rules change with their files.

    :param work: where they are read.
    """

    def __init__(self, files: AclFiles, work: BlockingWork) -> None:
        self._files = files
        self._work = work
        self._seconds = 0
        self._looking = False
        self._log = make_logger()

    def start(self) -> None:
        self._tell()

    def install(self, metrics: Registry) -> None:
        metrics.ask(
            "rocketha_acl_file_reloads_total",
            "How often changed files of ACL 1 were taken.",
            lambda: self._files.changes,
            "counter",
        )
        metrics.ask(
            "rocketha_acl_files_broken",
            "1: the files of ACL 1 have changed and cannot be used, so the old rules are; the log says why.",
            lambda: int(bool(self._files.problem)),
        )

    def second(self) -> None:
        self._seconds += 1
        if self._seconds % LOOK_S == 0 and not self._looking:
            self._looking = True
            self._work.run(self._files.look).addCallback(self._looked).addErrback(self._failed)

    def _looked(self, news: bool) -> None:
        self._looking = False
        if not news:
            return
        if self._files.problem:
            self._log.error("ACL 1: the old rules stay in use: {problem}", problem=self._files.problem)
            return
        self._tell()
        for warning in self._files.warnings:
            self._log.warn("{what}", what=warning)

    def _tell(self) -> None:
        count, paths = len(self._files.acl.accounts.users), ", ".join(self._files.paths)
        self._log.info("ACL 1: {count} accounts are in use, of {paths}", count=count, paths=paths)

    def _failed(self, failure: Failure) -> None:
        self._looking = False
        self._log.failure("ACL 1: {log_failure.value}", failure=failure)


class Migration(BrokerFeature):
    """The accounts become users, once the broker leads.

    :param log: where users are.
    """

    def __init__(self, files: AclFiles, log: AccountsLog) -> None:
        self._acl = files.acl
        self._users = log
        self._done = self._under_way = False
        self._wait_s = 0
        self._problem = ""
        self._log = make_logger()

    def second(self) -> None:
        self._wait_s = max(0, self._wait_s - 1)
        if self._done or self._under_way or self._wait_s or not self._users.leads:
            return
        before = self._users.accounts
        after, left_out = before.migrate(self._acl.accounts.users.values())
        if after is before:
            self._tell(before, after, left_out)
            return
        self._under_way = True
        changed = self._users.change(lambda present: present.migrate(self._acl.accounts.users.values())[0])
        changed.addCallback(lambda _: self._tell(before, after, left_out)).addErrback(self._failed)

    def unready(self) -> str | None:
        return (self._users.leads and self._problem) or None

    def _tell(self, before: Accounts, after: Accounts, left_out: Mapping[str, str]) -> None:
        self._done, self._under_way, self._problem = True, False, ""
        new = sorted(after.users.keys() - before.users.keys())
        known = len(self._acl.accounts.users) - len(new) - len(left_out)
        self._log.info(
            "ACL 1: of its accounts {known} are or were users already, new are {count}: {names}",
            known=known,
            count=len(new),
            names=", ".join(new),
        )
        for name, reason in left_out.items():
            self._log.error("ACL 1: {name} is no user, {reason}", name=name, reason=reason)
        if not new:
            return
        for name in new:
            if name in self._acl.white_of:
                self._log.warn("ACL 1: whiteRemoteAddress of {name} is left out: users sign from everywhere", name=name)
        if self._acl.white.patterns:
            self._log.warn("ACL 1: globalWhiteRemoteAddresses are left out: users sign from everywhere")

    def _failed(self, failure: Failure) -> None:
        self._under_way, self._wait_s = False, AGAIN_S
        self._problem = f"the accounts of ACL 1 are no users yet: {failure.getErrorMessage()}"
        self._log.error("{problem}; again in {seconds} s", problem=self._problem, seconds=AGAIN_S)
