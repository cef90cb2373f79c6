"""The users of a broker group and what each may do.

Pure.  An :class:`Accounts` never changes: an administrator's request makes another one, which counts when the group has
it (:mod:`rocketha.services.access.accounts_log`).  Texts of refusals are Java's.

Java: ``AuthenticationMetadataManagerImpl``, ``AuthorizationMetadataManagerImpl``, ``UserInfo``, ``AclInfo``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from rocketha.access.policies import Entry, Policies, PolicyType, Refused, Resource, named
from rocketha.wire import json_dialect, json_members

TOPIC = "rmq_sys_rocketha_accounts"
"""In whose queue 0 the states are; nobody sends to it but the broker."""
USERS_MAX = 10_000
ENTRIES_MAX = 1000
"""Of one user."""
WORD_CHARACTERS_MAX = 255
SUBJECT = "User:"


@attrs.frozen
class User:
    """One.

    :ivar password: the secret that signatures are made with.
    :ivar is_super: may do everything.
    """

    name: str
    password: str = attrs.field(repr=False)
    is_super: bool = False
    enabled: bool = True
    policies: Policies = attrs.field(factory=dict)


@attrs.frozen
class Accounts:
    """All of them, by name.

    :ivar migrated: names in files of ACL 1 that were users once, whether or not they still are.
    """

    users: Mapping[str, User] = attrs.field(factory=dict)
    migrated: frozenset[str] = frozenset()

    def with_user(self, user: User) -> Accounts:
        """And this one, in place of one with his name."""
        return self.with_users({**self.users, user.name: user})

    def with_users(self, users: Mapping[str, User]) -> Accounts:
        """These in place of all."""
        return attrs.evolve(self, users=users)

    # --- users

    def create(self, name: str, info: Mapping[str, Any]) -> Accounts:
        """CREATE_USER.

        :raises Refused: he is there, or something is wrong with what he is to be.
        """
        if name in self.users:
            raise Refused("The user is existed")
        if len(self.users) >= USERS_MAX:
            raise Refused(f"There are {USERS_MAX} users.")
        return self.with_user(_changed(User(_word(name, "username"), ""), info))

    def update(self, name: str, info: Mapping[str, Any]) -> Accounts:
        """UPDATE_USER; what is not there stays.

        :raises Refused: he is not there, or as for :meth:`create`.
        """
        user = self.users.get(name)
        if user is None:
            raise Refused("The user is not exist")
        return self.with_user(_changed(user, info))

    def delete(self, name: str) -> Accounts:
        """DELETE_USER, and what he might do; of nobody too."""
        return self.with_users({each: user for each, user in self.users.items() if each != name})

    def migrate(self, users: Iterable[User]) -> tuple[Accounts, Mapping[str, str]]:
        """And these, who were accounts of ACL 1, where nobody has that name; each once, so that whom an administrator
        deletes is not there again.  Itself where there is none; and why some were left out, by their names.
        """
        named, made, left_out = tuple(users), dict(self.users), dict[str, str]()
        for user in named:
            if user.name in made or user.name in self.migrated:
                continue
            if len(made) >= USERS_MAX:
                left_out[user.name] = f"there are {USERS_MAX} users"
            elif sum(map(len, user.policies.values())) > ENTRIES_MAX:
                left_out[user.name] = f"more than {ENTRIES_MAX} entries"
            else:
                made[user.name] = user
        migrated = self.migrated.union(user.name for user in named if user.name in made)
        return (Accounts(made, migrated) if migrated != self.migrated else self), left_out

    # --- what they may do

    def grant(self, subject: str, policies: Iterable[Mapping[str, Any]]) -> Accounts:
        """CREATE_ACL and UPDATE_ACL: entries come beside those of other resources, and in place of those of the same.

        :raises Refused: nobody is called so, or an entry is none.
        """
        user = self._subject(subject)
        merged = dict(user.policies)
        for each in policies:
            kind = _type(each.get("policyType"))
            entries = {entry.resource: entry for entry in merged.get(kind, ())}
            entries.update((entry.resource, entry) for entry in map(_entry, _rows(each, "entries")))
            merged[kind] = tuple(entries.values())
        if sum(map(len, merged.values())) > ENTRIES_MAX:
            raise Refused(f"{subject} has more than {ENTRIES_MAX} entries.")
        return self.with_user(attrs.evolve(user, policies=merged))

    def revoke(self, subject: str, policy_type: str | None, resource: str | None) -> Accounts:
        """DELETE_ACL: one entry, or without a resource all.

        :raises Refused: nobody is called so.
        """
        user = self._subject(subject)
        kind, about = (_type(policy_type) if policy_type else None), (Resource.of(resource) if resource else None)
        left = {
            each: tuple(entry for entry in entries if (kind or each) is not each or about not in (None, entry.resource))
            for each, entries in user.policies.items()
        }
        return self.with_user(attrs.evolve(user, policies={each: entries for each, entries in left.items() if entries}))

    def _subject(self, subject: str) -> User:
        user = self.users.get(subject.removeprefix(SUBJECT)) if subject.startswith(SUBJECT) else None
        if user is None:
            raise Refused(f"The subject of {subject[:300]} is not exist.")
        return user

    # --- what is shown

    def user_infos(self, part: str = "") -> list[dict[str, str]]:
        """Those with these letters in their names; never a password."""
        return [user_info(user) for name, user in sorted(self.users.items()) if part in name]

    def acl_infos(self, subject: str = "", resource: str = "") -> list[dict[str, Any]]:
        """Those who may do something, with these letters in name and resource."""
        found = []
        for name, user in sorted(self.users.items()):
            if subject in f"{SUBJECT}{name}":
                info = acl_info(user, resource)
                if info["policies"]:
                    found.append(info)
        return found

    # --- as bytes

    def dump(self) -> bytes:
        """All of it, passwords too: for nobody's eyes."""
        rows = [
            {**user_info(user), "password": user.password, "policies": acl_info(user)["policies"]}
            for _, user in sorted(self.users.items())
        ]
        return json_dialect.dumps({"users": rows, "migrated": sorted(self.migrated)})

    @classmethod
    def load(cls, data: bytes) -> Accounts:
        """What :meth:`dump` gave.

        :raises RemoteProtocolError: it is something else.
        :raises Refused: likewise.
        """
        accounts, value = cls(), json_members.json_object(data, "accounts")
        for row in json_members.rows(value, "users", USERS_MAX):
            name = json_members.text(row, "username")
            accounts = accounts.create(name, row)
            if row.get("policies"):
                accounts = accounts.grant(SUBJECT + name, _rows(row, "policies"))
        return attrs.evolve(accounts, migrated=frozenset(_texts(value.get("migrated"))))


def user_info(user: User) -> dict[str, str]:
    """``UserInfo`` without the password."""
    return {
        "username": user.name,
        "userType": "Super" if user.is_super else "Normal",
        "userStatus": "enable" if user.enabled else "disable",
    }


def acl_info(user: User, part: str = "") -> dict[str, Any]:
    """``AclInfo``."""
    policies = []
    for kind, entries in user.policies.items():
        rows = [_entry_info(entry) for entry in entries if part in str(entry.resource)]
        if rows:
            policies.append({"policyType": kind.value, "entries": rows})
    return {"subject": SUBJECT + user.name, "policies": policies}


def _entry_info(entry: Entry) -> dict[str, Any]:
    """``PolicyEntryInfo``; as Java's without ``sourceIps`` where any will do."""
    row: dict[str, Any] = {
        "resource": str(entry.resource),
        "actions": sorted(each.value for each in entry.actions),
        "decision": entry.decision.value,
    }
    return row | ({"sourceIps": list(entry.sources)} if entry.sources else {})


def _word(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Refused(f"The {what} is blank")
    if len(value) > WORD_CHARACTERS_MAX or not value.isprintable():
        raise Refused(f"The {what} is not 1 to {WORD_CHARACTERS_MAX} characters that can be printed")
    return value


def _changed(user: User, info: Mapping[str, Any]) -> User:
    given = info.get("password")
    password = _word(given, "password") if given or not user.password else user.password
    kind, status = info.get("userType"), info.get("userStatus")
    if kind and str(kind).lower() not in ("super", "normal"):
        raise Refused("The userType is illegal.")
    if status and str(status).lower() not in ("enable", "disable"):
        raise Refused("The userStatus is illegal.")
    return attrs.evolve(
        user,
        password=password,
        is_super=str(kind).lower() == "super" if kind else user.is_super,
        enabled=str(status).lower() == "enable" if status else user.enabled,
    )


def _type(text: Any) -> PolicyType:
    if not text:
        return PolicyType.CUSTOM
    found = named(PolicyType, str(text))
    if found is None:
        raise Refused("The policy type is illegal.")
    return found


def _rows(value: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    return json_members.rows(dict(value), name, ENTRIES_MAX)


def _entry(row: Mapping[str, Any]) -> Entry:
    return Entry.of(
        _text(row.get("resource")), _texts(row.get("actions")), _texts(row.get("sourceIps")), _text(row.get("decision"))
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []
