"""Prints what AWS SAM makes of a template (YAML in, JSON out, CloudFormation's short forms resolved to the long ones). Offline: no account, region or network."""

import json
import os
import sys

os.environ.setdefault("AWS_DEFAULT_REGION", "ap-northeast-2")  # the translator asks boto for a region; nothing is sent there

from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

with open(sys.argv[1], encoding="utf-8") as f:
    template = yaml_parse(f)

# The translator accepts code in S3 only; `sam build` and `sam deploy` put it there.
for section in [template.get("Globals", {}).get("Function", {})] + [r.get("Properties", {}) for r in template["Resources"].values()]:
    if "CodeUri" in section:
        section["CodeUri"] = "s3://bucket/key"

# An empty map of managed policies: roles are explicit, so the translator has nothing to look up in IAM.
out = Translator({}, Parser()).translate(template, parameter_values={})
json.dump(out, sys.stdout, indent=1, sort_keys=True)
