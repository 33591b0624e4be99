"""The page over HTTP: what is answered, to whom, and what a browser may do with it.

    GET  /                 the page: one file, nothing from anywhere else
    GET  /api/state        samples since a number, and how the fleet is
    POST /api/try          a file in the body: its class, its nearest, its feature
    POST /api/curve        a file in the body: how feature and input move along one slider
    POST /api/order        drain, resume or reload, with the admin key

Whoever reaches the port may look and try. A page of another site may not: names other than this host's are refused
(DNS rebinding), and so are requests that another site's page makes.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import math
from collections.abc import Awaitable, Callable, MutableMapping
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from streamfeat.errors import (
    CallerError,
    InternalError,
    InvalidArgument,
    OperatorError,
    Overloaded,
    PermissionDenied,
    StreamfeatError,
    TooLarge,
)
from streamfeat.page.desk import Desk
from streamfeat.page.trial import Asked
from streamfeat.signals.signal import printable

MOST_BYTES = 8 << 20
"""Of one upload: 30 s of stereo at 44.1 kHz and 16 bits are 5.3 MB."""

MOST_ORDER_BYTES = 4096
UPLOAD_S = 30.0
FILE_TYPE = "application/octet-stream"
"""What uploads say they are. No form of another site can say so, and a script of it would have to ask first."""

log = logging.getLogger("streamfeat.page")
Answer = Callable[[Request], Awaitable[dict[str, Any]]]


def page_app(desk: Desk, hosts: list[str]) -> Starlette:
    """The application.

    Parameters
    ----------
    desk : Desk
    hosts : list of str
        Names under which it may be asked for.
    """
    html, policy = page_html()

    async def page(_request: Request) -> Response:
        return HTMLResponse(html)

    async def state(request: Request) -> dict[str, Any]:
        since = request.query_params.get("since", "0")
        return desk.state(int(since) if since.isascii() and since.isdigit() and len(since) < 16 else 0)

    async def attempt(request: Request) -> dict[str, Any]:
        with desk.place():
            return await desk.answer(await _asked(request))

    async def curve(request: Request) -> dict[str, Any]:
        with desk.place():
            return await desk.curve(await _asked(request))

    async def order(request: Request) -> dict[str, Any]:
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not desk.takes_orders:
            return await desk.order(key, "", None)  # which says why not
        act, worker = _order(await _body(request, MOST_ORDER_BYTES))
        return await desk.order(key, act, worker)

    routes = [
        Route("/", page),
        Route("/api/state", _answering(state)),
        Route("/api/try", _answering(attempt), methods=["POST"]),
        Route("/api/curve", _answering(curve), methods=["POST"]),
        Route("/api/order", _answering(order), methods=["POST"]),
    ]
    guards = [
        Middleware(_Headers, policy=policy),
        Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
    ]
    return Starlette(routes=routes, middleware=guards)


def page_html() -> tuple[str, str]:
    """The page in one piece, and the policy under which only its own script and style run."""
    folder = files("streamfeat.page")
    script, style = ((folder / name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
    html = (folder / "page.html").read_text(encoding="utf-8")
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    policy = (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; img-src data:; "
        "media-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html.replace("{{style}}", style).replace("{{script}}", script), policy


class _Headers:
    """Puts the same headers on every answer."""

    def __init__(self, app: Any, policy: str) -> None:
        self._app = app
        given = {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "permissions-policy": "microphone=(self), camera=(), geolocation=()",
            "cache-control": "no-store",
        }
        self._headers = [(name.encode(), value.encode()) for name, value in given.items()]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *self._headers]}
            await send(message)

        await self._app(scope, receive, sending)


def _answering(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    """JSON of the answer, or of what was wrong."""

    async def answering(request: Request) -> Response:
        try:
            _refuse_other_sites(request)
            return JSONResponse(await answer(request))
        except StreamfeatError as error:
            return _complaint(error)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception:
            log.exception("%s %s", request.method, request.url.path)
            return _complaint(InternalError(""))

    return answering


def _complaint(error: StreamfeatError) -> Response:
    """What a browser is told: callers what to mend, others the code alone, since a reason may name paths."""
    headers = {}
    if isinstance(error, TooLarge):
        status = 413
    elif isinstance(error, PermissionDenied):
        status = 403
    elif isinstance(error, CallerError):
        status = 422
    else:
        status = 503 if isinstance(error, OperatorError) else 500
    reason = error.reason if isinstance(error, CallerError | Overloaded) else "the fleet could not answer; see its log"
    if isinstance(error, Overloaded):
        headers["retry-after"] = "1"
    return JSONResponse({"error": {"code": error.code, "reason": reason}}, status, headers)


def _refuse_other_sites(request: Request) -> None:
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "same-origin")
    own = f"{request.url.scheme}://{request.headers.get('host', '')}"
    if origin not in (None, own) or site not in ("same-origin", "none"):
        raise PermissionDenied("asked for by a page of another site; open this one in a tab of its own")


async def _asked(request: Request) -> Asked:
    if request.headers.get("content-type", "") != FILE_TYPE:
        raise InvalidArgument(f"the body is the file itself, of type {FILE_TYPE}")
    query = request.query_params
    name = printable(query.get("name", "").replace("\\", "/").rpartition("/")[2])[-100:]
    data = await _body(request, MOST_BYTES)
    return Asked(
        data, name or "unnamed", query.get("bank", "")[:100], query.get("move", "")[:20], _amount(query.get("amount"))
    )


def _amount(text: str | None) -> float | None:
    try:
        number = None if text is None else float(text)
    except ValueError:
        number = math.nan
    if number is not None and not math.isfinite(number):
        raise InvalidArgument(f"amount must be a finite number, got {text!r:.40}")
    return number


async def _body(request: Request, most: int) -> bytes:
    """The body, if it has no more bytes than that and comes in time; no more of it is taken in."""
    told = request.headers.get("content-length", "")
    if told.isdigit() and int(told) > most:
        raise TooLarge(f"{told} bytes, {most} are the most here; send a smaller file")
    data = bytearray()
    try:
        async with asyncio.timeout(UPLOAD_S):
            async for piece in request.stream():
                data += piece
                if len(data) > most:
                    raise TooLarge(f"more than {most} bytes, which are the most here; send a smaller file")
    except TimeoutError:
        raise InvalidArgument(f"the file took longer than {UPLOAD_S:g} s to come") from None
    return bytes(data)


def _order(body: bytes) -> tuple[str, str | None]:
    try:
        told = json.loads(body)
        act, worker = told["act"], told.get("worker")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidArgument('an order is {"act": "drain", "worker": "features-1"}') from None
    if act not in ("drain", "resume", "reload") or not isinstance(worker, str | None):
        raise InvalidArgument("act is drain, resume or reload, and worker the name of one")
    return act, worker
