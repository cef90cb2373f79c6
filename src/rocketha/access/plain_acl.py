"""The accounts of ACL 1 of RocketMQ, as ``plain_acl.yml`` has them, as users and policies.

Pure.  An account is a :class:`~rocketha.access.accounts.User` by the name of its accessKey, so that everything else
about it is that of ACL 2.  An account with ``admin`` is a Super user.  What stands in ``topicPerms`` and ``groupPerms``
are custom entries, the defaults default ones; where a name that is listed may less than the default says, a default
entry for that name denies the rest, for in ACL 1 what is listed decides.  Names are literal there, and everybody may
send to the topic of traces.  White addresses have no counterpart in ACL 2: :meth:`PlainAcl.lets_in`.

Texts are taken as they stand: an accessKey of digits is those digits.  Errors and warnings name file, line and key,
never a secret.

Needs the extra ``rocketha[acl]``: import it only where ACL 1 is wanted.

Java: ``PlainPermissionManager``, ``PlainAccessConfig``, ``Permission``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import yaml

from rocketha.access.accounts import USERS_MAX, WORD_CHARACTERS_MAX, Accounts, User
from rocketha.access.address_patterns import Addresses
from rocketha.access.policies import (
    NAME_CHARACTERS_MAX,
    Action,
    Decision,
    Entry,
    Kind,
    Pattern,
    Policies,
    PolicyType,
    Resource,
)
from rocketha.broker.names import RETRY_PREFIX, TRACE_TOPIC
from rocketha.errors import ConfigError

KEY_CHARACTERS_MIN = 7
"""Of accessKey and secretKey."""
PERMISSIONS_MAX = 2000
"""Of one account."""
WARNINGS_MAX = 50
DEPTH_MAX = 20

Actions = frozenset[Action]

DENY: Actions = frozenset()
_PUB, _SUB, _ALL = frozenset((Action.PUB,)), frozenset((Action.SUB,)), frozenset((Action.ALL,))
PERMISSIONS: Mapping[str, Actions] = {
    "DENY": DENY,
    "PUB": _PUB,
    "SUB": _SUB,
    "PUB|SUB": _PUB | _SUB,
    "SUB|PUB": _PUB | _SUB,
}
_FILE_KEYS = ("globalWhiteRemoteAddresses", "accounts", "dataVersion")
_ACCOUNT_KEYS = (
    "accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm", "defaultGroupPerm", "topicPerms",
    "groupPerms",
)  # fmt: skip
_YES, _NO = ("true", "yes", "on"), ("false", "no", "off", "")
_STR, _INT, _NULL, _MERGE = (f"tag:yaml.org,2002:{tag}" for tag in ("str", "int", "null", "merge"))
_QUOTED = re.compile("[\"'].*[\"']")
_WORD = re.compile("[A-Za-z0-9_-]*")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@attrs.frozen
class PlainAcl:
    """What several files say together.

    :ivar accounts: of each accessKey, as the first file that names it has it.
    :ivar white: addresses that need no signature.
    :ivar white_of: likewise where a request names that accessKey.
    :ivar warnings: what a person should know about them.
    """

    accounts: Accounts = attrs.field(factory=Accounts)
    white: Addresses = attrs.field(factory=Addresses)
    white_of: Mapping[str, Addresses] = attrs.field(factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def has_white(self) -> bool:
        """Whether there is any such address."""
        return bool(self.white.patterns or self.white_of)

    def lets_in(self, name: str, host: str) -> bool:
        """Whether a request from this IP address, which names that accessKey, needs no signature."""
        of_account = self.white_of.get(name)
        return self.white.has(host) or (of_account is not None and of_account.has(host))


def read(files: Iterable[tuple[str, bytes]]) -> PlainAcl:
    """All of them.

    :param files: the name and the bytes of each, the first that counts first.
    :raises ConfigError: one is no file of ACL 1, or none names an account.
    """
    warnings: list[str] = []
    users: dict[str, User] = {}
    white_of: dict[str, Addresses] = {}
    white = Addresses()
    names: list[str] = []
    for name, data in files:
        names.append(name)
        file = _File(name, warnings)
        top = file.members(file.root(data), _FILE_KEYS)
        for node in file.items(top.get("globalWhiteRemoteAddresses"), "globalWhiteRemoteAddresses"):
            white += file.addresses(node, "globalWhiteRemoteAddresses")
        for node in file.items(top.get("accounts"), "accounts"):
            user, addresses = _account(file, node)
            if user.name in users:
                warnings.append(f"{file.at(node)}: accessKey {user.name} stands further up already, and that counts")
                continue
            users[user.name] = user
            if addresses.patterns:
                white_of[user.name] = addresses
            if len(users) > USERS_MAX:
                raise ConfigError(f"{file.at(node)}: more than {USERS_MAX} accounts")
    if not users and not white.patterns:
        raise ConfigError(f"{', '.join(names) or 'ACL 1'}: no accounts, so nobody could log in")
    if white.all or any(each.all for each in white_of.values()):
        warnings.insert(0, f"{', '.join(names)}: a white address is *: clients need no signature, wherever they are")
    if len(warnings) > WARNINGS_MAX:
        warnings[WARNINGS_MAX:] = [f"{', '.join(names)}: {len(warnings) - WARNINGS_MAX} more of the kind"]
    return PlainAcl(Accounts(users), white, white_of, tuple(warnings))


class _File:
    """One file: its nodes, which know their lines.

    :param warnings: takes what a person should know.
    """

    def __init__(self, name: str, warnings: list[str]) -> None:
        self._name = name
        self.warnings = warnings

    def at(self, node: Any) -> str:
        """Where that stands."""
        return f"{self._name}, line {node.start_mark.line + 1}"

    def root(self, data: bytes) -> Any:
        """Of the whole file; None where it is empty.

        :raises ConfigError: it is no YAML.
        """
        try:
            text = data.decode("utf-8-sig")
            self._look_down(text)
            return yaml.compose(text, _LOADER)
        except yaml.MarkedYAMLError as problem:
            mark = problem.problem_mark or problem.context_mark
            line = f", line {mark.line + 1}" if mark is not None else ""
            said = _QUOTED.sub("...", problem.problem or "")  # it may be a secret that begins with * or !
            raise ConfigError(f"{self._name}{line}: no YAML: {said}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{self._name}: is not UTF-8") from None
        except (yaml.YAMLError, ValueError):
            raise ConfigError(f"{self._name}: no YAML: a character that may not stand there") from None

    def _look_down(self, text: str) -> None:
        """Nodes are made by recursion, which ends the process where libyaml is 0.2.5 and a file is very deep."""
        depth = 0
        for event in yaml.parse(text, _LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEPTH_MAX:
                raise ConfigError(f"{self.at(event)}: no YAML of ACL 1: lists and keys in each other, {depth} deep")

    def members(self, node: Any, known: Sequence[str]) -> dict[str, Any]:
        """The values of a mapping by their keys; those that are not known are told of.

        :raises ConfigError: it is none, or a key stands there twice.
        """
        if node is None or self._blank(node):
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(f"{self.at(node)}: keys and values are wanted: {', '.join(known)}")
        found: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == _MERGE or not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"{self.at(key)}: only plain keys are read, no << and no lists")
            if key.value in found:
                raise ConfigError(f"{self.at(key)}: {_shown(key)} stands there twice")
            found[key.value] = value
            if key.value not in known:
                self.warnings.append(f"{self.at(key)}: {_shown(key)!r} is no key of ACL 1")
        return found

    def items(self, node: Any, key: str) -> Sequence[Any]:
        """Those of a list; none where there is no value.

        :raises ConfigError: it is none.
        """
        if node is None or self._blank(node):
            return ()
        if not isinstance(node, yaml.SequenceNode):
            raise ConfigError(f"{self.at(node)}: {key}: a list is wanted, a line each with - before it")
        items: Sequence[Any] = node.value
        return items

    def text(self, node: Any, key: str) -> str:
        """A value as it stands there; empty where there is none.

        :raises ConfigError: it is no text.
        """
        if node is None or self._blank(node):
            return ""
        if not isinstance(node, yaml.ScalarNode):
            raise ConfigError(f"{self.at(node)}: {key}: one value is wanted, no list and no keys")
        text: str = node.value
        return text

    def addresses(self, node: Any, key: str) -> Addresses:
        """White addresses.

        :raises ConfigError: they are none.
        """
        try:
            return Addresses.of(self.text(node, key))
        except ConfigError as problem:
            raise ConfigError(f"{self.at(node)}: {key}: {problem}") from None

    @staticmethod
    def _blank(node: Any) -> bool:
        return bool(node.tag == _NULL and isinstance(node, yaml.ScalarNode))


def _shown(key: Any) -> str:
    """The first word of a key: with a blank forgotten the value, maybe a secret, is part of it."""
    found = _WORD.match(key.value)
    return found[0][:40] if found is not None else ""


def _account(file: _File, node: Any) -> tuple[User, Addresses]:
    values = file.members(node, _ACCOUNT_KEYS)
    name, secret = (_word(file, node, values.get(key), key) for key in ("accessKey", "secretKey"))
    where = f"accessKey {name}"
    admin = file.text(values.get("admin"), "admin").strip().lower()
    if admin not in _YES + _NO:
        raise ConfigError(f"{file.at(values['admin'])}: {where}: admin: true or false is wanted")
    defaults = {
        kind: _permission(file, values[key], file.text(values[key], key).strip(), f"{where}: {key}")
        for kind, key in ((Kind.TOPIC, "defaultTopicPerm"), (Kind.GROUP, "defaultGroupPerm"))
        if file.text(values.get(key), key).strip()
    }
    listed: dict[tuple[Kind, str], Actions] = {}
    for kind, key in ((Kind.TOPIC, "topicPerms"), (Kind.GROUP, "groupPerms")):
        for item in file.items(values.get(key), key):
            listed.update(_listed(file, item, kind, f"{where}: {key}"))
    if len(listed) > PERMISSIONS_MAX:
        raise ConfigError(f"{file.at(node)}: {where} has more than {PERMISSIONS_MAX} permissions")
    if admin in _YES and listed:
        file.warnings.append(f"{file.at(node)}: {where} is admin: it may do everything, whatever is listed")
    addresses = file.addresses(values.get("whiteRemoteAddress"), f"{where}: whiteRemoteAddress")
    return User(name, secret, admin in _YES, policies=_policies(defaults, listed)), addresses


def _word(file: _File, account: Any, node: Any, key: str) -> str:
    """An accessKey or secretKey: what clients have in their configuration."""
    text = file.text(node, key)
    if not text.strip():
        raise ConfigError(f"{file.at(account)}: an account without {key}")
    if not KEY_CHARACTERS_MIN <= len(text) <= WORD_CHARACTERS_MAX or not text.isprintable():
        wanted = f"{KEY_CHARACTERS_MIN} to {WORD_CHARACTERS_MAX} characters that can be printed are wanted"
        raise ConfigError(f"{file.at(node)}: {key}: {wanted}")
    if node.tag != _STR and not (node.tag == _INT and text.isdigit() and text[0] != "0"):
        raise ConfigError(f"{file.at(node)}: {key}: put it in quotes, for YAML takes it for something else than a text")
    return text


def _permission(file: _File, node: Any, text: str, where: str) -> Actions:
    found = PERMISSIONS.get(text)
    if found is None:
        file.warnings.append(f"{file.at(node)}: {where} counts as DENY: it is none of {', '.join(PERMISSIONS)}")
        return DENY
    return found


def _listed(file: _File, node: Any, kind: Kind, where: str) -> Iterator[tuple[tuple[Kind, str], Actions]]:
    """A row ``NAME=PERMISSION``; a group may also be listed as the topic of its retries."""
    name, _, permission = (word.strip() for word in file.text(node, where).partition("="))
    if not name or not permission or "=" in permission:
        raise ConfigError(f"{file.at(node)}: {where}: NAME=PERMISSION is wanted")
    if len(name) > NAME_CHARACTERS_MAX or not name.isprintable():
        raise ConfigError(f"{file.at(node)}: {where}: a name has up to {NAME_CHARACTERS_MAX} characters")
    actions = _permission(file, node, permission, f"{where}: {name}")
    if "*" in name:
        file.warnings.append(f"{file.at(node)}: {where}: {name} is about nothing: names are no patterns in ACL 1")
    elif kind is Kind.TOPIC and name.startswith(RETRY_PREFIX):
        yield (Kind.GROUP, name.removeprefix(RETRY_PREFIX)), actions
    else:
        yield (kind, name), actions


def _policies(defaults: Mapping[Kind, Actions], listed: Mapping[tuple[Kind, str], Actions]) -> Policies:
    custom = {_named(*each): actions for each, actions in listed.items()}
    trace = _named(Kind.TOPIC, TRACE_TOPIC)
    if Action.PUB not in custom.get(trace, defaults.get(Kind.TOPIC, DENY)):
        custom[trace] = custom.get(trace, DENY) | _PUB
    default = [_entry(Resource(kind, "", Pattern.ANY), actions) for kind, actions in defaults.items()]
    for kind, name in listed:
        resource = _named(kind, name)
        rest = defaults.get(kind, DENY) - custom[resource]
        if rest and custom[resource]:
            default.append(Entry(resource, rest, (), Decision.DENY))
    found = {PolicyType.CUSTOM: tuple(map(_entry, custom, custom.values())), PolicyType.DEFAULT: tuple(default)}
    return {kind: entries for kind, entries in found.items() if entries}


def _named(kind: Kind, name: str) -> Resource:
    return Resource(kind, name, Pattern.LITERAL)


def _entry(resource: Resource, actions: Actions) -> Entry:
    return Entry(resource, actions or _ALL, (), Decision.ALLOW if actions else Decision.DENY)
