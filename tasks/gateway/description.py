"""The OpenAPI description, made of the operations themselves, so it can not tell otherwise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec
from starlette.responses import Response

from tasks.gateway.operations import Call, Operation, serves
from tasks.gateway.problems import CODES, MEDIA_TYPE
from worker.log.view import Followed

_REF = "#/components/schemas/{name}"
#: What every operation may answer, and what those that take a token or a body may as well.
_ALWAYS = (
    "malformed",
    "cross_site",
    "unknown_host",
    "failed",
    "store_refused",
    "store_unreachable",
)
_WITH_TOKEN = ("unauthorized", "forbidden", "too_many_failures")
_WITH_JOB = ("unknown_job",)
_WITH_BODY = (
    "slow_request",
    "too_large",
    "too_much_at_once",
    "unsupported_media_type",
    "invalid",
)
_PARAMETER = re.compile(r"\{(\w+)\}")
#: Media types that clients read as more than text.
_PARSED = ("application/json", "text/event-stream")


class ProblemDocument(msgspec.Struct, rename={"kind": "type"}):
    """RFC 9457. `code` says what happened, for programs, and never changes."""

    kind: str
    title: str
    status: int
    code: str
    detail: str = ""


def description(operations: Sequence[Operation]) -> dict[str, Any]:
    described = [operation for operation in operations if operation.described]
    types = [ProblemDocument, Followed, *_types(described)]
    _, components = msgspec.json.schema_components(types, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for operation in described:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "longstream", "version": version("longstream")},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "longstream_token"},
            },
        },
    }


def _types(operations: Sequence[Operation]) -> list[Any]:
    bodies = [operation.body for operation in operations if operation.body is not None]
    replies = [reply for operation in operations for reply in operation.replies.values()]
    return [*bodies, *(reply for reply in replies if reply is not None and _is_type(reply))]


def _is_type(reply: Any) -> bool:
    return not isinstance(reply, str | tuple)


def _operation(operation: Operation) -> dict[str, Any]:
    told: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": _name(operation),
        "parameters": _parameters(operation),
        "responses": _responses(operation),
    }
    if operation.scope is not None:
        told["security"] = [{}, {"token": []}, {"cookie": []}]
        told["description"] = f"Needs the scope `{operation.scope}`."
    if operation.body is not None:
        told["requestBody"] = {"required": True, "content": _content(operation.body)}
    return told


def _name(operation: Operation) -> str:
    words = re.findall(r"[a-z.]+", operation.path)
    return "_".join([operation.method.lower(), *words])


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    told = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(operation.path)
    ]
    told += [
        {
            "name": header.name,
            "in": "header",
            "schema": {"type": "string", "pattern": header.pattern},
            "description": header.meaning,
        }
        for header in operation.headers
    ]
    if operation.query is not None:
        (schema,), components = msgspec.json.schema_components(
            [operation.query], ref_template="{name}"
        )
        fields = components[schema["$ref"]]
        told += [
            {
                "name": name,
                "in": "query",
                "required": name in fields.get("required", ()),
                "schema": _inlined(field, components),
            }
            for name, field in fields["properties"].items()
        ]
    return told


def _inlined(schema: Any, components: dict[str, Any]) -> Any:
    """A parameter of the query is small, and refers to nothing."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(components[schema["$ref"]], components)
        return {name: _inlined(part, components) for name, part in schema.items()}
    return schema


def _responses(operation: Operation) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for status, reply in operation.replies.items():
        told[str(status)] = {"description": "As asked"}
        if reply is not None:
            told[str(status)]["content"] = _content(reply)
    for code in _codes(operation):
        status, title = CODES[code]
        known = told.setdefault(str(status), _problem())
        known["content"] = {**known.get("content", {}), **_problem()["content"]}
        known["description"] += f"{'; ' if known['description'] else ''}`{code}`: {title}"
    return told


def _problem() -> dict[str, Any]:
    schema = {"$ref": _REF.format(name="ProblemDocument")}
    return {"description": "", "content": {MEDIA_TYPE: {"schema": schema}}}


def _codes(operation: Operation) -> list[str]:
    codes = [*_ALWAYS, *operation.codes]
    codes += _WITH_TOKEN if operation.scope is not None else ()
    codes += _WITH_JOB if _PARAMETER.search(operation.path) else ()
    codes += _WITH_BODY if operation.body is not None else ()
    return list(dict.fromkeys(codes))


def _content(reply: Any) -> dict[str, Any]:
    if isinstance(reply, tuple):
        return {
            media_type: content for each in reply for media_type, content in _content(each).items()
        }
    if isinstance(reply, str):
        return {reply: {"schema": {} if reply in _PARSED else {"type": "string"}}}
    (schema,), _ = msgspec.json.schema_components([reply], ref_template=_REF)
    return {"application/json": {"schema": schema}}


@serves("GET /openapi.json", "This description", None, replies={200: "application/json"})
async def _describe(call: Call) -> Response:
    body = msgspec.json.encode(call.request.app.state.description)
    return Response(body, media_type="application/json")


OPERATIONS = (_describe,)
