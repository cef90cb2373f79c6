"""Which page of the status port is at which path: Klein's part, imported only by a process that opens the port.

What it must not know: what is on the pages.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from importlib import resources
from typing import cast

import attrs
from klein import Klein
from twisted.python.failure import Failure
from twisted.web.iweb import IRequest
from twisted.web.resource import Resource
from twisted.web.server import Request
from werkzeug.exceptions import NotFound

from rocketha.observe.http import TEXT, Page, not_found, only_reading

HEADERS = {
    b"content-security-policy": (
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
}
"""Of what a browser is to show: nothing comes from elsewhere, nothing goes anywhere, nobody frames it."""


@attrs.frozen
class Plain:
    """The pages for programs."""

    metrics: Resource
    healthz: Page
    readyz: Page


class StatusApp:
    """See the module.

    :param plain: served as they are, whoever asks.
    :param document: the JSON of the page.
    """

    app = Klein()
    app.url_map.merge_slashes = False

    def __init__(self, plain: Plain, document: Callable[[], bytes]) -> None:
        self._plain = plain
        self._files = {
            name: _file(name, kind)
            for name, kind in (
                ("page.html", b"text/html; charset=utf-8"),
                ("page.css", b"text/css; charset=utf-8"),
                ("page.js", b"text/javascript; charset=utf-8"),
            )
        }
        self._document = Page(b"application/json", near(lambda request: document()), HEADERS)

    @app.route("/metrics", strict_slashes=False)
    def metrics(self, request: Request) -> Resource:
        return self._plain.metrics

    @app.route("/healthz", strict_slashes=False)
    def healthz(self, request: Request) -> Resource:
        return self._plain.healthz

    @app.route("/readyz", strict_slashes=False)
    def readyz(self, request: Request) -> Resource:
        return self._plain.readyz

    @app.route("/")
    def page(self, request: Request) -> Resource:
        return self._files["page.html"]

    @app.route("/page.css")
    def style(self, request: Request) -> Resource:
        return self._files["page.css"]

    @app.route("/page.js")
    def script(self, request: Request) -> Resource:
        return self._files["page.js"]

    @app.route("/overview.json")
    def overview(self, request: Request) -> Resource:
        return self._document

    @app.handle_errors(NotFound)
    def missing(self, request: IRequest, failure: Failure) -> Resource:
        return Page(TEXT, not_found)

    def resource(self) -> Resource:
        """The root of the site."""
        return _Root(self.app.resource())


class _Root(Resource):
    """Lets in what Klein can read: GET and HEAD, and paths that are text."""

    isLeaf = True

    def __init__(self, inner: Resource) -> None:
        super().__init__()
        self._inner = inner

    def render(self, request: Request) -> bytes | int:
        """Twisted: a request."""
        if request.method not in (b"GET", b"HEAD"):
            return only_reading(request)
        try:
            b"/".join(request.postpath or ()).decode("utf-8")
        except UnicodeDecodeError:
            return Page(TEXT, not_found).render(request)
        return cast("bytes | int", self._inner.render(request))


def _file(name: str, kind: bytes) -> Page:
    """A file of the package."""
    data = resources.files("rocketha.observe").joinpath("site", name).read_bytes()
    return Page(kind, near(lambda request: data), HEADERS)


def near(render: Callable[[Request], bytes]) -> Callable[[Request], bytes]:
    """Refuse a browser that was led here: a page of somebody else's whose name was made to mean 127.0.0.1.

    What came by a loopback address must have asked for one, or for ``localhost``; by other addresses any name will do.
    """

    def checked(request: Request) -> bytes:
        here, asked = str(getattr(request.getHost(), "host", "")), request.getHeader(b"host")
        if asked is not None and _is_loopback(here) and not _is_loopback(_name_in(asked)):
            request.setResponseCode(421)
            request.setHeader(b"content-type", TEXT)
            return b"this port is on loopback: ask for it as 127.0.0.1, [::1] or localhost\n"
        return render(request)

    return checked


def _name_in(host: bytes) -> str:
    """Of a Host header, without its port."""
    text = host.decode("latin-1").strip().lower()
    return text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None  # by a port on [::]
    return (mapped or address).is_loopback
