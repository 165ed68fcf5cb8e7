"""Reads a page of metrics on standard input with the parsers of Prometheus' own
client, and writes it as JSON: families by name."""

import json
import sys

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client import parser as prometheus

text = sys.stdin.read()
parse = openmetrics if sys.argv[1] == "openmetrics" else prometheus
families = {}
for family in parse.text_string_to_metric_families(text):
    assert family.name not in families, f"{family.name} is there twice"
    samples = [[sample.name, dict(sample.labels), sample.value] for sample in family.samples]
    families[family.name] = {"type": family.type, "help": family.documentation, "samples": samples}
json.dump(families, sys.stdout)
