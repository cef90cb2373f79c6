"""What a user may do: resources, actions, and entries that allow or deny.

Pure.  Theory of operation.  A request *needs* something (:class:`Need`): on a resource, one of some actions.  Of the
entries that match it the closest one decides: custom ones before default ones; a literal name before a prefix, a longer
prefix before a shorter one, any name after these, any kind of resource last; among equals one that denies.  Without one
it is refused.

Java: ``AbstractAuthorizationHandler``, ``AclAuthorizationHandler``, ``Resource``, ``PolicyEntry``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TypeVar

import attrs

from rocketha.addresses import address_of

_E = TypeVar("_E", bound=Enum)

NAME_CHARACTERS_MAX = 255
SOURCES_MAX = 256


class Refused(Exception):
    """Something in a policy is none; the text is Java's."""


class Action(Enum):
    """What is done to a resource."""

    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Kind(Enum):
    """Of a resource."""

    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(Enum):
    """How an entry's name is meant, the closest first."""

    LITERAL = "Literal"
    PREFIXED = "Prefixed"
    ANY = "Any"


class Decision(Enum):
    """Of an entry."""

    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(Enum):
    """Custom entries come before default ones."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


def named(enum: type[_E], text: str | None) -> _E | None:
    """The member with this value, without regard to case; None: there is none."""
    lowered = (text or "").lower()
    return next((each for each in enum if each.value.lower() == lowered), None)


@attrs.frozen
class Need:
    """What a request needs.

    :ivar name: of the resource; empty: whichever, so only an entry for all names will do.
    :ivar actions: one of them is enough.
    """

    kind: Kind
    name: str
    actions: frozenset[Action]

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.name[:NAME_CHARACTERS_MAX] or '*'}"


@attrs.frozen
class Resource:
    """What an entry is about: ``*``, ``Topic:*``, ``Topic:pre*``, ``Topic:name``."""

    kind: Kind
    name: str
    pattern: Pattern

    @classmethod
    def of(cls, text: str | None) -> Resource:
        """From its text.

        :raises Refused: it is none.
        """
        if text == "*":
            return cls(Kind.ANY, "", Pattern.ANY)
        word, colon, name = (text or "").partition(":")
        kind = named(Kind, word)
        if kind is None or kind is Kind.ANY or not colon or not name or len(name) > NAME_CHARACTERS_MAX:
            raise Refused("The resource is null.")
        if name == "*":
            return cls(kind, "", Pattern.ANY)
        if name.endswith("*"):
            return cls(kind, name[:-1], Pattern.PREFIXED)
        return cls(kind, name, Pattern.LITERAL)

    def __str__(self) -> str:
        if self.kind is Kind.ANY:
            return "*"
        star = "" if self.pattern is Pattern.LITERAL else "*"
        return f"{self.kind.value}:{self.name}{star}"

    def matches(self, need: Need) -> bool:
        """Whether it is about that."""
        if self.kind not in (Kind.ANY, need.kind):
            return False
        match self.pattern:
            case Pattern.LITERAL:
                return self.name == need.name
            case Pattern.PREFIXED:
                return bool(need.name) and need.name.startswith(self.name)
            case Pattern.ANY:
                return True


@attrs.frozen
class Entry:
    """Of a policy.

    :ivar sources: networks that it is for; none: all.
    """

    resource: Resource
    actions: frozenset[Action]
    sources: tuple[str, ...]
    decision: Decision

    @classmethod
    def of(cls, resource: str | None, actions: Iterable[str], sources: Sequence[str], decision: str | None) -> Entry:
        """From Java's words.

        :raises Refused: one of them is wrong.
        """
        found = Resource.of(resource)
        words = [(word, named(Action, word)) for word in actions]
        if any(word.lower() == "any" for word, _ in words):
            raise Refused("The actions can not be Any.")
        if not words or any(action is None for _, action in words):
            raise Refused("The actions is empty.")
        if len(sources) > SOURCES_MAX:
            raise Refused("The source ip is invalid.")
        for source in sources:
            try:
                ipaddress.ip_network(source, strict=False)
            except ValueError:
                raise Refused("The source ip is invalid.") from None
        said = named(Decision, decision)
        if said is None:
            raise Refused("The decision is null or illegal.")
        return cls(found, frozenset(each for _, each in words if each is not None), tuple(sources), said)

    def matches(self, need: Need, source: str) -> bool:
        """Whether it decides about what somebody there needs."""
        if not self.resource.matches(need) or not (Action.ALL in self.actions or self.actions & need.actions):
            return False
        return not self.sources or any(_within(source, network) for network in self.sources)

    @property
    def distance(self) -> tuple[bool, int, int, bool]:
        """The smaller, the closer."""
        patterns = list(Pattern)
        resource = self.resource
        return (
            resource.kind is Kind.ANY,
            patterns.index(resource.pattern),
            -len(resource.name),
            self.decision is Decision.ALLOW,
        )


def _within(source: str, network: str) -> bool:
    try:
        return address_of(source) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


Policies = dict[PolicyType, tuple[Entry, ...]]


def decide(policies: Policies, need: Need, source: str) -> Decision | None:
    """What becomes of a need; None: no entry is about it.

    :param source: the IP address that it comes from.
    """
    for kind in PolicyType:
        found = [each for each in policies.get(kind, ()) if each.matches(need, source)]
        if found:
            return min(found, key=lambda each: each.distance).decision
    return None
