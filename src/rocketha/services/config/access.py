"""The keys of RocketMQ's ACL 2, and of ACL 1 before it: who may log in to a broker, and what users may do.

Java: ``AuthConfig``; of ACL 1 ``BrokerConfig.aclEnable`` and the property ``rocketmq.acl.plain.file``.
"""

from __future__ import annotations

import json

import attrs

from rocketha.access.accounts import Accounts
from rocketha.access.policies import Refused
from rocketha.access.signer import Credentials
from rocketha.errors import ConfigError
from rocketha.services.config.acl_files import AclFiles
from rocketha.services.config.checks import check_plain_path
from rocketha.services.config.settings import Section, choice, flag, number, text

SECRET_BYTES_MIN, SECRET_BYTES_MAX = 16, 4096
_NEEDS_IDENTITIES = (
    "in a group of brokers needs tls.identities=required: a signature does not say which replica asks, their "
    "certificates do (docs/identities)"
)


def codes_of(value: str) -> frozenset[int]:
    """Request codes, comma separated.

    :raises ValueError: one is no number.
    """
    return frozenset(int(word) for word in value.split(",") if word.strip())


def _check_codes(value: str) -> str | None:
    try:
        codes_of(value)
    except ValueError:
        return "request codes, comma separated"
    return None


@attrs.define(slots=True)
class AccessConfig(Section):
    """See the module.

    :ivar secret: what stands in ``authSecretFile``.
    :ivar plain: the files of ACL 1, where they are wanted.
    """

    authentication_enabled: bool = flag(
        False, "Whether every request to the broker must be signed by one of its users."
    )
    authorization_enabled: bool = flag(
        False, "Whether a user may do only what his policies allow; a Super user may do everything."
    )
    init_authentication_user: str = text(
        "", 'A Super user that is there from the start: {"username":"..","password":".."}.', secret=True
    )
    inner_client_authentication_credentials: str = text(
        "",
        "The user as which this broker signs what it asks other servers, and one more Super user here: "
        '{"accessKey":"..","secretKey":".."}.',
        secret=True,
    )
    authentication_whitelist: str = text(
        "", "Codes of requests that need no signature, comma separated.", check=_check_codes
    )
    authorization_whitelist: str = text("", "Codes of requests that every user may ask.", check=_check_codes)
    auth_secret_file: str = text(
        "",
        "File with a secret of 16 bytes or more that all brokers of a group share: users' passwords are encrypted with "
        "it where they are stored.",
        check=check_plain_path,
        ours=True,
    )
    acl_enable: bool = flag(
        False,
        "Whether every request must be signed by an account of ACL 1, which has the rights that stand in its file; "
        "without effect where authenticationEnabled.",
    )
    acl_files: str = text(
        "",
        "Files of ACL 1, and folders of such, comma separated; the first that names an accessKey counts.  They are "
        "looked at every 5 s, and a change counts when the next look finds the same.  Without it: conf/acl and "
        "conf/plain_acl.yml below rocketmqHome, as in RocketMQ.",
        ours=True,
    )
    migrate_auth_from_v1_enabled: bool = flag(
        False, "Whether the accounts of ACL 1 become users with policies, each once, where there is none of its name."
    )
    signed_time_window: int = number(
        300,
        "How old a request with a signed time may be, as rocketha's own commands and brokers send it: none is served "
        "twice. Clocks may differ by that much; but what a client signs whose clock is behind is answered 2 for as "
        "long as it is behind, after each start of the broker and each switch.",
        low=1,
        high=3600,
        unit="s",
        ours=True,
    )
    signed_time_required: str = choice(
        "none",
        ("none", "super", "all"),
        "Of which users the signed time is demanded; clients of RocketMQ sign none.",
        ours=True,
    )
    secret: bytes = attrs.field(default=b"", repr=False)
    plain: AclFiles | None = attrs.field(default=None, repr=False)

    @property
    def judges_by_acl_1(self) -> bool:
        """Beside ACL 2 it has no effect."""
        return self.acl_enable and not self.authentication_enabled

    @property
    def plain_accounts(self) -> AclFiles | None:
        """Where requests are judged by ACL 1: its files."""
        return self.plain if self.judges_by_acl_1 else None

    @property
    def authorizes(self) -> bool:
        """Whether a user may do only what he is allowed."""
        return self.authorization_enabled or self.plain_accounts is not None

    @property
    def unsigned_codes(self) -> frozenset[int]:
        """Of ``authenticationWhitelist``, in ACL 2."""
        return codes_of(self.authentication_whitelist) if self.authentication_enabled else frozenset()

    @property
    def free_codes(self) -> frozenset[int]:
        """Of ``authorizationWhitelist``, in ACL 2."""
        return codes_of(self.authorization_whitelist) if self.authentication_enabled else frozenset()

    @property
    def credentials(self) -> Credentials | None:
        """Those of ``innerClientAuthenticationCredentials``.

        :raises ConfigError: they are none.
        """
        value = self.inner_client_authentication_credentials
        if not value:
            return None
        name, password = _pair("innerClientAuthenticationCredentials", value, ("accessKey", "secretKey"))
        return Credentials(name, password)

    @property
    def built_in(self) -> Accounts:
        """The users that the keys name.

        :raises ConfigError: one is none.
        """
        accounts = Accounts()
        for key, value, words in (
            ("initAuthenticationUser", self.init_authentication_user, ("username", "password")),
            (
                "innerClientAuthenticationCredentials",
                self.inner_client_authentication_credentials,
                ("accessKey", "secretKey"),
            ),
        ):
            if value:
                name, password = _pair(key, value, words)
                accounts = accounts.delete(name).create(name, {"password": password, "userType": "Super"})
        return accounts


def _pair(key: str, value: str, words: tuple[str, str]) -> tuple[str, str]:
    """Name and password of a user in a key's JSON."""
    try:
        found = json.loads(value)
        name, password = (found[word] for word in words)
        Accounts().create(name, {"password": password})  # it may be refused
    except (ValueError, KeyError, TypeError, Refused):
        shape = ",".join(f'"{word}":".."' for word in words)
        raise ConfigError(f"{key}: {{{shape}}} is wanted") from None
    return name, password


def check_access(config: AccessConfig, read_secret: bytes | None, replicas: bool, identified: bool) -> None:
    """See that access control is whole or off.

    :param read_secret: what stands in ``authSecretFile``.
    :param replicas: whether other brokers copy this one.
    :param identified: whether they show who they are.
    :raises ConfigError: it is half.
    """
    config.built_in  # noqa: B018  it may be refused
    if config.authorization_enabled and not config.authentication_enabled:
        raise ConfigError("authorizationEnabled=true needs authenticationEnabled=true: else any name would be believed")
    if config.migrate_auth_from_v1_enabled and not config.authentication_enabled:
        raise ConfigError(
            "migrateAuthFromV1Enabled=true needs authenticationEnabled=true: it makes users of the accounts of ACL 1"
        )
    if config.judges_by_acl_1 and replicas and not identified:
        raise ConfigError(f"aclEnable=true {_NEEDS_IDENTITIES}")
    if not config.authentication_enabled:
        return
    if config.acl_enable and not config.authorization_enabled:
        raise ConfigError(
            "aclEnable=true has no effect beside authenticationEnabled=true, and without authorizationEnabled=true "
            "every account might do everything: set that, or aclEnable=false"
        )
    if read_secret is None:
        raise ConfigError(
            "authenticationEnabled=true needs authSecretFile, with which passwords are encrypted: such as "
            "`head -c 32 /dev/urandom > FILE && chmod 600 FILE`, the same on all brokers of a group"
        )
    if not SECRET_BYTES_MIN <= len(read_secret) <= SECRET_BYTES_MAX:
        raise ConfigError(
            f"authSecretFile: {config.auth_secret_file} holds {len(read_secret)} bytes, allowed is "
            f"{SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}"
        )
    if not config.built_in.users:
        raise ConfigError(
            "authenticationEnabled=true without initAuthenticationUser: nobody could log in to make the first user"
        )
    if replicas and not identified:
        raise ConfigError(f"authenticationEnabled=true {_NEEDS_IDENTITIES}")
    config.secret = read_secret


def read_acl_files(config: AccessConfig, home: str, warnings: list[str]) -> None:
    """Read the files of ACL 1 where they are wanted.

    :param home: rocketmqHome.
    :param warnings: takes what a person should know.
    :raises ConfigError: one is missing or wrong.
    """
    if config.acl_enable and config.authentication_enabled:
        warnings.append(
            "aclEnable has no effect beside authenticationEnabled, as in RocketMQ: the users of ACL 2 count; "
            "migrateAuthFromV1Enabled=true makes users of the accounts of ACL 1"
        )
    for key, wanted in (
        ("migrateAuthFromV1Enabled", config.migrate_auth_from_v1_enabled),
        ("aclEnable", config.judges_by_acl_1),
    ):
        if wanted:
            try:
                config.plain = AclFiles(config.acl_files, home)
            except ConfigError as problem:
                raise ConfigError(f"{key}=true: {problem}") from None
            warnings += config.plain.warnings
            return
