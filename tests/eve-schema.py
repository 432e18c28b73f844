"""Validates EVE events against Suricata's schema: eve-schema.py SCHEMA FILE...

Prints each kind of violation once with its number, and exits with 1 if there is one. Events of types that the schema does not know
(it is older than the event) are counted apart. The object `weir` of an event is ours, and taken out before.
"""

import collections
import json
import sys

import jsonschema

schema = json.load(open(sys.argv[1]))
validator = jsonschema.validators.validator_for(schema)(schema)
known = schema["properties"]
# The type of these events is not the name of their object.
OBJECTS = {"fileinfo": "fileinfo", "smtp": "smtp", "anomaly": "anomaly"}

violations = collections.Counter()
events, unknown = 0, collections.Counter()
for path in sys.argv[2:]:
    for line in open(path, encoding="utf-8"):
        event = json.loads(line)
        event.pop("weir", None)
        events += 1
        name = event.get("event_type")
        if OBJECTS.get(name, name) not in known:
            unknown[name] += 1
            continue
        for error in validator.iter_errors(event):
            place = "/".join(str(part) for part in error.absolute_path if not isinstance(part, int))
            violations[(name, place, error.message[:160])] += 1
for (name, place, message), number in violations.most_common():
    print(f"{number} {name} {place}: {message}")
print(f"{events} events, {sum(violations.values())} violations, {sum(unknown.values())} of types without a schema {dict(unknown)}")
sys.exit(1 if violations else 0)
