"""Asks a Beacon, and validates each answer against the schemas of the specification."""

import json
import pathlib
import sys
import urllib.error
import urllib.request

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

RESPONSES = {"B": "beaconBooleanResponse", "C": "beaconCountResponse", "E": "beaconErrorResponse"}
DESCRIPTIONS = {
    "/": "beaconInfoResponse",
    "/info": "beaconInfoResponse",
    "/service-info": "ga4gh-service-info-1-0-0-schema",
    "/configuration": "beaconConfigurationResponse",
    "/map": "beaconMapResponse",
    "/entry_types": "beaconEntryTypesResponse",
    "/filtering_terms": "beaconFilteringTermsResponse",
}


def read(uri):
    """The schema of a file's URI; schemas refer to one another by relative paths."""
    text = pathlib.Path(uri.removeprefix("file://")).read_text(encoding="utf-8")
    return Resource.from_contents(json.loads(text), default_specification=DRAFT202012)


def ask(url, body):
    """The status and the document of an answer."""
    data = None if body is None else body.encode()
    headers = {} if body is None else {"content-type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=120) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def questions(path):
    """Path, body, kind of answer and status of each question."""
    for address, schema in DESCRIPTIONS.items():
        yield address, None, schema, 200
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        kind, rest = line.split(" ", 1)
        address, body = ("/g_variants", rest) if rest.startswith("{") else ("/g_variants" + rest, None)
        yield address, body, RESPONSES[kind[0]], int(kind[1:] or 200)
    yield "/nothing", None, RESPONSES["E"], 404


def main(schemas, beacon, path):
    registry = Registry(retrieve=read)
    bad = total = 0
    for address, body, schema, expected in questions(path):
        file = pathlib.Path(schemas).resolve() / "responses" / f"{schema}.json"
        validator = Draft202012Validator(
            {"$ref": file.as_uri()}, registry=registry, format_checker=Draft202012Validator.FORMAT_CHECKER
        )
        status, found = ask(beacon + address, body)
        errors = [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(found)]
        good = status == expected and not errors
        total, bad = total + 1, bad + (not good)
        print("ok " if good else "BAD", status, schema, address[:100], (body or "")[:60])
        for error in errors:
            print("   ", error)
    print(f"{total - bad} of {total} answers have the status and the form of the specification")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
