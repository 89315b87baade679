"""Checks what the workspace depends on.

- The core has no I/O, no clock and no randomness in its tree.
- In the core, values know nothing of leases, and a lease nothing of the machines that hold one.
- The testing crate knows nothing of elections, and the library nothing of keys and the command.
- No dependency asks for a newer Rust than the manifest states.
"""

import json
import pathlib
import re
import subprocess
import sys

NOT_IN_CORE = {"tokio", "async-nats", "rand", "rand_core", "getrandom", "rustix", "futures", "mio", "metrics", "tracing"}
MAY_KNOW = {
    "nats-elect-core": set(),
    "nats-elect-testing": set(),
    "nats-elect": {"nats-elect-core"},
    "nats-elect-signing": {"nats-elect", "nats-elect-core"},
    "nats-elect-cli": {"nats-elect", "nats-elect-core", "nats-elect-signing"},
}
# Modules of the core that others must not use; what is not named here are values.
ABOVE = {
    "election": {"member"},
    "member": {"election"},
    "lease": {"election", "member"},
    "lib": set(),
}
ABOVE_VALUES = {"election", "lease", "member"}


def version(text):
    return tuple(int(part) for part in (text.split(".") + ["0", "0"])[:3])


metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--format-version", "1", "--locked"]))
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
members = {packages[member]["name"]: member for member in metadata["workspace_members"]}


def tree(root):
    """What a package is built from, its tests apart."""
    seen, queue = set(), [root]
    while queue:
        node = queue.pop()
        if node in seen:
            continue
        seen.add(node)
        for dependency in nodes[node]["deps"]:
            if any(kind["kind"] in (None, "build") for kind in dependency["dep_kinds"]):
                queue.append(dependency["pkg"])
    return seen - {root}


# Nothing that is published is built from examples and benchmarks.
members = {name: member for name, member in members.items() if not name.startswith(("nats-elect-example", "nats-elect-benches"))}
if set(members) != set(MAY_KNOW):
    sys.exit(f"members are {sorted(members)}: say in .ci/dependencies.py what each may know")
below = {name: tree(root) for name, root in members.items()}
names = {name: {packages[node]["name"] for node in nodes} for name, nodes in below.items()}

for name, may in MAY_KNOW.items():
    if too_much := names[name] & set(members) - may:
        sys.exit(f"{name} must not depend on {', '.join(sorted(too_much))}")
if impure := names["nats-elect-core"] & NOT_IN_CORE:
    sys.exit(f"nats-elect-core must not depend on {', '.join(sorted(impure))}")

core = pathlib.Path("crates/nats-elect-core/src")
for path in core.rglob("*.rs"):
    module = path.relative_to(core).parts[0].removesuffix(".rs")
    used = set(re.findall(r"\bcrate::(\w+)", path.read_text(encoding="utf-8")))
    if too_high := used & ABOVE.get(module, ABOVE_VALUES):
        sys.exit(f"{path} must not use {', '.join(sorted(too_high))}")

stated = {packages[member]["rust_version"] for member in members.values()}
if len(stated) != 1:
    sys.exit(f"the members state different rust-versions: {sorted(stated)}")
stated = stated.pop()
others = set().union(*below.values()) - set(members.values())
asking = [(version(packages[i]["rust_version"]), packages[i]["name"]) for i in others if packages[i]["rust_version"]]
highest, name = max(asking)
if highest > version(stated):
    sys.exit(f"rust-version is {stated}, but {name} needs {'.'.join(map(str, highest))}: raise it in Cargo.toml")
print(f"the crates depend on what they may; rust-version {stated} suffices (the most is asked by {name})")
