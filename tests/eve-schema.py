"""Validates EVE events against Suricata's schema: eve-schema.py SCHEMA FILE...

Every event is validated as it is. An event also has the object that its type names; that of a type without a place in the schema is
in metadata.flowvars. Prints each kind of violation once with its number, and exits with 1 if there is one.
"""

import collections
import json
import sys

import jsonschema


def has_object(event):
    """Whether an event has the object of its type."""
    name = event.get("event_type")
    ours = event.get("metadata", {}).get("flowvars", [])
    return name in event or any(name in variable for variable in ours)


schema = json.load(open(sys.argv[1], encoding="utf-8"))
validator = jsonschema.validators.validator_for(schema)(schema)
violations = collections.Counter()
types = collections.Counter()
for path in sys.argv[2:]:
    for line in open(path, encoding="utf-8"):
        event = json.loads(line)
        name = event.get("event_type")
        types[name] += 1
        if not has_object(event):
            violations[(name, "", "no object of that name")] += 1
        for error in validator.iter_errors(event):
            place = "/".join(str(part) for part in error.absolute_path if not isinstance(part, int))
            violations[(name, place, error.message[-160:])] += 1
for (name, place, message), number in violations.most_common():
    print(f"{number} {name} {place}: {message}")
print(f"{sum(types.values())} events of {len(types)} types, {sum(violations.values())} violations")
sys.exit(1 if violations else 0)
