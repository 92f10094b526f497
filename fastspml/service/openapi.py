"""The description of the service in the terms of OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from fastspml import __version__
from fastspml.service.link_service import SHOWN_UNKNOWN, LinkService


def describe(service: LinkService) -> dict[str, Any]:
    """Return the OpenAPI description of a service, as plain values for JSON."""
    limits = service.limits
    sources = {
        "text": {"type": "string", "description": "Text of a new node; its words become counts of features."},
        "counts": {
            "type": "object",
            "additionalProperties": {"type": "number"},
            "description": f"Features of a new node and their counts. At most {limits.features} known ones are read.",
        },
        "node": {"type": ["string", "integer"], "description": "Node of the network; its known links are left out."},
    }
    offered = sources if service.reads_features else {"node": sources["node"]}
    options = {
        "k": {"type": "integer", "minimum": 1, "maximum": limits.k, "default": service.k},
        "reasons": {"type": "integer", "minimum": 0, "maximum": limits.reasons, "default": 5},
    }
    request = {
        "type": "object",
        "properties": offered | options,
        "additionalProperties": False,
        "oneOf": [{"required": [name]} for name in offered],
    }
    failures = {
        "400": "The request is malformed.",
        "404": "No such node, or no such page.",
        "405": "The page has another method.",
        "408": f"The request did not arrive within {limits.request_s:g} seconds.",
        "411": "The body has no Content-Length.",
        "413": f"The body has more than {limits.body_bytes:,} bytes.",
    }
    link = _object(LINK_FIELDS | ({"through": THROUGH} if service.uses_links else {}))
    example = {"text": "command line package manager", "k": 3}
    if not service.reads_features:
        example = {"node": service.network.nodes[0].item(), "k": 3}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"Links of {service.network.name}",
            "version": __version__,
            "description": f"Predicts links to the {service.network.n_nodes:,} nodes of a network.",
        },
        "paths": {
            "/links": {
                "post": {
                    "operationId": "predictLinks",
                    "summary": "Predict the links of a node",
                    "requestBody": {
                        "required": True,
                        "content": {
                            "application/json": {"schema": {"$ref": "#/components/schemas/Request"}, "example": example}
                        },
                    },
                    "responses": {"200": _response("The best candidates, best first.", "Answer")}
                    | {status: _response(text, "Error") for status, text in failures.items()},
                }
            }
        },
        "components": {"schemas": {"Request": request, "Answer": ANSWER, "Link": link, "Error": ERROR}},
    }


def _response(description: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": description, "content": content}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


REASON = _object(
    {
        "feature": {"type": "string", "description": "Feature of the node."},
        "other": {"type": "string", "description": "Feature of the candidate; often the same."},
        "shared": {"type": "number", "description": "What the pair of features adds to the similarity."},
    }
)
LINK_FIELDS: dict[str, Any] = {
    "candidate": {"type": "string", "description": "Name of a node of the network, or its position."},
    "score": {"type": "number", "description": "Similarity, or minus the squared distance; larger is likelier."},
    "probability": {
        "type": ["number", "null"],
        "description": "Share of pairs with such a score that are links, at the density of links that the model was "
        "calibrated on; null without a calibration.",
    },
    "reasons": {"type": "array", "items": REASON},
}
THROUGH = {
    "type": ["string", "null"],
    "description": "Of the nodes that are known to link to the candidate, the one that scores best, whose score the "
    "candidate's is averaged with; null where no node links to it.",
}
ANSWER = _object(
    {
        "task": {"type": "string"},
        "node": {"type": ["string", "null"], "description": "The node of the request, if it named one."},
        "ranked_by": {"enum": ["distance", "similarity"]},
        "is_blank": {
            "type": "boolean",
            "description": "Whether the node has no feature with a weight: then all such nodes have the same links.",
        },
        "n_unknown": {"type": "integer", "description": "Features of the request that the model does not know."},
        "unknown": {"type": "array", "items": {"type": "string"}, "maxItems": SHOWN_UNKNOWN},
        "links": {"type": "array", "items": {"$ref": "#/components/schemas/Link"}},
    }
)
ERROR = _object({"error": {"type": "string", "description": "What was expected, what was given, and what to do."}})
