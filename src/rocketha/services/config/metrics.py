"""Who is given metrics besides those that ask the status port: RocketMQ's keys for Prometheus, ours for OpenTelemetry.

Java's ``BrokerConfig`` and ``ControllerConfig`` have the same keys.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

import attrs

from rocketha.errors import ConfigError
from rocketha.services.config.checks import bare_address, bind_address, check_bind
from rocketha.services.config.exposure import check_exposure
from rocketha.services.config.settings import Section, choice, flag, number, text
from rocketha.services.config.tls import TlsConfig

_LABELS = "NAME:VALUE,NAME:VALUE, each name of letters, digits and _"
_URL = (
    "an http or https URL such as http://127.0.0.1:4318/v1/metrics, or nothing; without a user and password, which "
    "belong into OTEL_EXPORTER_OTLP_HEADERS: who may see the configuration sees the URL"
)


def check_labels(value: str) -> str | None:
    """Constant labels as Java has them."""
    for pair in filter(None, value.split(",")):
        name, _, _ = pair.partition(":")
        if pair.count(":") != 1 or not name.isascii() or not name.isidentifier():
            return _LABELS
    return None


def check_url(value: str) -> str | None:
    """Where OTLP goes by HTTP."""
    if not value:
        return None
    try:
        parts = urlsplit(value)
        named = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and (parts.port or 1) > 0
            and "@" not in parts.netloc
        )
    except ValueError:
        named = False
    return None if named else _URL


@attrs.define(slots=True)
class MetricsConfig(Section):
    """See the module."""

    metrics_exporter_type: str = choice(
        "DISABLE",
        ("DISABLE", "OTLP_GRPC", "PROM", "LOG"),
        "PROM opens a port for Prometheus with RocketMQ's own names and labels. OTLP_GRPC and LOG export nothing here: "
        "metricsOtlpEndpoint does.",
    )
    metrics_prom_exporter_port: int = number(5557, "The port of PROM.", low=1, high=65_535)
    metrics_prom_exporter_host: str = text(
        "",
        "The address that it listens on; empty is brokerIP1 if that is an address, else bindAddress, and for a "
        "controller bindAddress.",
        check=lambda value: check_bind(bare_address(value)),
        java_default="brokerIP1; for a controller all addresses",
    )
    metrics_label: str = text(
        "", f"Labels that all of RocketMQ's metrics get besides their own: {_LABELS}.", check=check_labels
    )
    metrics_in_delta: bool = flag(False, "Whether all of them have the label aggregation=delta.")
    metrics_otel_cardinality_limit: int = number(
        50_000,
        "Most series of one metric.",
        low=1,
        no_effect="there are at most 1000 of each metric, see docs/metrics.rst",
    )
    enable_stats_metrics: bool = flag(True, "Whether PROM has permission and numbers of topics and groups.")
    enable_request_metrics: bool = flag(True, "Whether it has messages, bytes and sizes by topic.")
    enable_connection_metrics: bool = flag(True, "Whether it has producers and consumers.")
    enable_lag_and_dlq_metrics: bool = flag(True, "Whether it has what consumers have not consumed.")
    enable_remoting_metrics: bool = flag(True, "Whether it has how long requests took.")
    enable_message_store_metrics: bool = flag(True, "Whether it has the store's.")
    metrics_otlp_endpoint: str = text(
        "",
        "URL to which rocketha's own metrics are sent, as OTLP over HTTP; needs rocketha[otel]. Headers and "
        "certificates are those of OpenTelemetry's environment variables. Empty: they are not sent.",
        check=check_url,
        ours=True,
    )
    metrics_otlp_interval: int = number(
        60_000, "How often they are sent.", low=1000, high=86_400_000, unit="ms", ours=True
    )

    @property
    def exported(self) -> bool:
        """Whether there is a port with RocketMQ's names."""
        return self.metrics_exporter_type == "PROM"

    def labels(self, own: Mapping[str, str]) -> dict[str, str]:
        """Those of every metric.

        :param own: of this server, which win.
        """
        given = dict(pair.split(":") for pair in self.metrics_label.split(",") if pair)
        delta = {"aggregation": "delta"} if self.metrics_in_delta else {}
        return {**given, **delta, **own}


def complete_metrics(config: MetricsConfig, hosts: tuple[str, ...], tls: TlsConfig, warnings: list[str]) -> None:
    """Fill in where the port listens, and see that it may.

    :param hosts: where if nothing is said: the first that is an address.
    :raises ConfigError: others could reach it, and must not.
    """
    kind = config.metrics_exporter_type
    if kind in ("OTLP_GRPC", "LOG"):
        warnings.append(
            f"metricsExporterType={kind} exports nothing: PROM opens a port for Prometheus, metricsOtlpEndpoint sends "
            "OTLP over HTTP (rocketha[otel]), --http opens the status port with /metrics"
        )
    if not config.exported:
        return
    given = config.metrics_prom_exporter_host
    config.metrics_prom_exporter_host = host = bind_address(bare_address(given)) or next(filter(_is_address, hosts))
    check_exposure(prom_endpoint(config), tls, f"metricsPromExporterHost={host}")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def prom_endpoint(config: MetricsConfig) -> str:
    """The endpoint string of the port."""
    host = config.metrics_prom_exporter_host
    kind, shown = ("tcp6", host.replace(":", r"\:")) if ":" in host else ("tcp", host)
    return f"{kind}:{config.metrics_prom_exporter_port}:interface={shown}"


def check_otlp(config: MetricsConfig) -> None:
    """See that what sends OTLP is installed.

    :raises ConfigError: it is wanted and is not.
    """
    if config.metrics_otlp_endpoint:
        try:
            import opentelemetry.exporter.otlp.proto.http.metric_exporter  # noqa: F401
        except ImportError:
            raise ConfigError("metricsOtlpEndpoint needs OpenTelemetry: pip install 'rocketha[otel]'") from None
