"""The requests about users and what they may do: 3001 to 3010.

Java: ``AdminBrokerProcessor.createUser`` and the others; ``UserInfo``, ``AclInfo``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.access.accounts import SUBJECT, Accounts, acl_info, user_info
from rocketha.access.policies import Refused
from rocketha.broker.request import Responder, read_body
from rocketha.errors import RequestRefused, RockethaError
from rocketha.interfaces import Refused as NotPut
from rocketha.observe.logging import make_logger
from rocketha.services.access.users import refused
from rocketha.services.core.feature import BrokerFeature
from rocketha.wire import json_dialect, json_members
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Answer, Command

if TYPE_CHECKING:
    from rocketha.services.access.accounts_log import AccountsLog

_log = make_logger()

Change = Callable[[Accounts, Command], Accounts]


class AccountRequests(BrokerFeature):
    """Of one broker.  Passwords are in no answer.

    :param log: where the users are; None: nobody logs in here.
    """

    def __init__(self, log: AccountsLog | None) -> None:
        self._log_of = log
        self.requests: Mapping[int, Responder] = {
            RequestCode.AUTH_CREATE_USER: self._changing(_create_user),
            RequestCode.AUTH_UPDATE_USER: self._changing(_update_user),
            RequestCode.AUTH_DELETE_USER: self._changing(_delete_user),
            RequestCode.AUTH_GET_USER: self._get_user,
            RequestCode.AUTH_LIST_USER: self._list_users,
            RequestCode.AUTH_CREATE_ACL: self._changing(_grant),
            RequestCode.AUTH_UPDATE_ACL: self._changing(_grant),
            RequestCode.AUTH_DELETE_ACL: self._changing(_revoke),
            RequestCode.AUTH_GET_ACL: self._get_acl,
            RequestCode.AUTH_LIST_ACL: self._list_acls,
        }

    @property
    def _log(self) -> AccountsLog:
        if self._log_of is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "authenticationEnabled is false: this broker has no users")
        return self._log_of

    def _changing(self, change: Change) -> Responder:
        def respond(connection: Any, command: Command, now_ms: int) -> Answer | None:
            changed = defer.maybeDeferred(self._log.change, lambda present: change(present, command))
            changed.addCallbacks(lambda _: Answer(), _told)
            changed.addCallback(lambda answer: connection.answer(command, answer))
            return None

        return respond

    def _get_user(self, connection: Any, command: Command, now_ms: int) -> Answer:
        user = self._log.accounts.users.get(_name(command))
        return Answer() if user is None else Answer(body=json_dialect.dumps(user_info(user)))

    def _list_users(self, connection: Any, command: Command, now_ms: int) -> Answer:
        return Answer(body=json_dialect.dumps(self._log.accounts.user_infos(command.fields.get("filter", ""))))

    def _get_acl(self, connection: Any, command: Command, now_ms: int) -> Answer:
        subject = command.fields.get("subject", "")
        user = self._log.accounts.users.get(subject.removeprefix(SUBJECT))
        info = None if user is None else acl_info(user)
        return Answer() if info is None or not info["policies"] else Answer(body=json_dialect.dumps(info))

    def _list_acls(self, connection: Any, command: Command, now_ms: int) -> Answer:
        found = self._log.accounts.acl_infos(
            command.fields.get("subjectFilter", ""), command.fields.get("resourceFilter", "")
        )
        return Answer(body=json_dialect.dumps(found)) if found else Answer()


def _told(failure: Failure) -> Answer:
    problem = failure.value
    if isinstance(problem, Refused):
        return Answer(ResponseCode.NO_PERMISSION, str(problem))
    if isinstance(problem, RequestRefused | NotPut):
        return Answer(problem.code, str(getattr(problem, "remark", None) or problem))
    if not isinstance(problem, RockethaError):
        _log.failure("a request about users failed: {log_failure.value}", failure=failure)
    return Answer(ResponseCode.SYSTEM_ERROR, str(problem))


def _name(command: Command) -> str:
    name = command.fields.get("username", "")
    if not name.strip():
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, "The username is blank")
    return name


def _object(command: Command) -> dict[str, Any]:
    return read_body(lambda body: json_members.json_object(body, "a user or an ACL"), command.body)


def _create_user(present: Accounts, command: Command) -> Accounts:
    return present.create(_name(command), _object(command))


def _update_user(present: Accounts, command: Command) -> Accounts:
    return present.update(_name(command), _object(command))


def _delete_user(present: Accounts, command: Command) -> Accounts:
    return present.delete(_name(command))


def _grant(present: Accounts, command: Command) -> Accounts:
    return present.grant(_subject(command), json_members.rows(_object(command), "policies", 2))


def _revoke(present: Accounts, command: Command) -> Accounts:
    fields = command.fields
    return present.revoke(_subject(command), fields.get("policyType"), fields.get("resource"))


def _subject(command: Command) -> str:
    subject = command.fields.get("subject", "")
    if not subject.startswith(SUBJECT):
        raise (
            refused("The subject is null.")
            if not subject
            else RequestRefused(ResponseCode.SYSTEM_ERROR, "An system error occurred, please try again later.")
        )
    return subject
