"""The description of the service in the terms of OpenAPI 3.1. Fills openapi.json."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from fastspml import __version__
from fastspml.service.link_service import SHOWN_UNKNOWN, LinkService


def describe(service: LinkService) -> dict[str, Any]:
    """Return the OpenAPI description of a service, as plain values for JSON."""
    description = json.loads((files("fastspml.service") / "openapi.json").read_text("utf-8"))
    description["info"] = {
        "title": f"Links of {service.network.name}",
        "version": __version__,
        "description": f"Predicts links to the {service.network.n_nodes:,} nodes of a network.",
    }
    post, schemas = description["paths"]["/links"]["post"], description["components"]["schemas"]
    limits, request, link = service.limits, schemas["Request"], schemas["Link"]
    request["properties"]["k"] |= {"maximum": limits.k, "default": service.k}
    request["properties"]["reasons"]["maximum"] = limits.reasons
    request["properties"]["counts"]["description"] += f" At most {limits.features} known ones are read."
    post["responses"]["408"]["description"] = f"The request did not arrive within {limits.request_s:g} seconds."
    post["responses"]["413"]["description"] = f"The body has more than {limits.body_bytes:,} bytes."
    schemas["Answer"]["properties"]["unknown"]["maxItems"] = SHOWN_UNKNOWN
    if not service.reads_features:
        del request["properties"]["text"], request["properties"]["counts"]
        request["oneOf"] = [{"required": ["node"]}]
        post["requestBody"]["content"]["application/json"]["example"] = {
            "node": service.network.nodes[0].item(),
            "k": 3,
        }
    if not service.shows_through:
        del link["properties"]["through"]
        link["required"].remove("through")
    return description
