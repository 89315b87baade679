"""Fails if the manifest's rust-version is below what a dependency of the library asks for."""

import json
import subprocess
import sys


def version(text):
    return tuple(int(part) for part in (text.split(".") + ["0", "0"])[:3])


metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--format-version", "1", "--locked"]))
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
root = metadata["resolve"]["root"]
stated = packages[root]["rust_version"]

seen, queue = set(), [root]
while queue:
    node = queue.pop()
    if node in seen:
        continue
    seen.add(node)
    for dependency in nodes[node]["deps"]:
        if any(kind["kind"] in (None, "build") for kind in dependency["dep_kinds"]):
            queue.append(dependency["pkg"])

asking = [(version(packages[i]["rust_version"]), packages[i]["name"]) for i in seen - {root} if packages[i]["rust_version"]]
highest, name = max(asking)
if highest > version(stated):
    sys.exit(f"rust-version is {stated}, but {name} needs {'.'.join(map(str, highest))}: raise it in Cargo.toml")
print(f"rust-version {stated} suffices for all {len(seen) - 1} dependencies (the most is asked by {name})")
