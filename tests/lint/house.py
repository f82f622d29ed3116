# SPDX-License-Identifier: MIT
"""
house.py floors|circles|symbols|twice TREE [BUILD]

Holds lib against the rules that TREE/HACKING.md prints between the markers
<!-- NAME --> and <!-- end NAME -->.  Prints one line for each breach; the exit
status is 1 where there is one.
"""
import collections
import fnmatch
import pathlib
import re
import subprocess
import sys

RUN = 12  # lines that may not stand in two folders


def marked(tree, name):
    """The lines "KEY: VALUE" of a marked list, in order."""
    text = (tree / "HACKING.md").read_text()
    found = re.search(rf"<!-- {name} -->(.*?)<!-- end {name} -->", text, re.S)
    if not found:
        sys.exit(f"HACKING.md: no list <!-- {name} -->")
    pairs = re.findall(r"^([\w/ ]+?): *(.*)$", found[1], re.M)
    return {key: value.strip() for key, value in pairs}


def sources(tree):
    return sorted(p for p in tree.glob("lib/*/*.[ch]") if p.parent.name != "include")


def floors(tree):
    may = {room: rooms.split() for room, rooms in marked(tree, "floors").items()}
    order = list(may)
    for room, rooms in may.items():
        for other in rooms:
            if other not in order or order.index(other) <= order.index(room):
                yield f"HACKING.md: {room} may include {other}, which is not below it in the list"
    for path in sources(tree):
        room = path.parent.name
        for number, line in enumerate(path.read_text().splitlines(), 1):
            include = re.match(r'#include "(?:(\w+)/)?([\w.]+)"', line)
            if not include or include[1] in (room, "uapi"):
                continue
            if room not in may:
                yield f"{path.relative_to(tree)}: HACKING.md's floors do not name the room {room}"
            elif include[1] not in may[room]:
                yield (f'{path.relative_to(tree)}:{number}: {line}: {room} may include only '
                       f'{", ".join([room] + may[room])} and public headers')


def objects(build):
    """{room/file: (symbols that it defines, symbols that it uses)}"""
    paths = sorted(build.glob("lib/*/*.o"))
    if not paths:
        sys.exit(f"{build}: no objects; run make all")
    found = {f"{path.parent.name}/{path.stem}": (set(), set()) for path in paths}
    # One run for all: each line is "PATH:VALUE KIND NAME".
    out = subprocess.run(["nm", "-gA", *paths], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        path, _, symbol = line.partition(".o:")
        *_, kind, name = symbol.split()
        found["/".join(path.split("/")[-2:])][kind in "Uw"].add(name)
    return found


def module_files(tree):
    """The same of the kernel modules' sources, which a plain make does not build."""
    found = {}
    for path in sorted(tree.glob("kmod/*.c")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        defines = re.findall(r"^(?!static)\w[^;{}()=]*?\b(mrg_\w+)\([^;{}]*?\)\n\{", text, re.M)
        found[f"kmod/{path.stem}"] = (set(defines), set(re.findall(r"\bmrg_\w+", text)))
    return found


def edges(files):
    where = collections.defaultdict(list)
    for file, (defines, _) in files.items():
        for name in defines:
            where[name].append(file)
    for file, (defines, uses) in files.items():
        room = file.split("/")[0]
        for name in uses - defines:
            # The guard has functions of its own in place of the library's.
            for other in ([f for f in where[name] if f.split("/")[0] == room] or
                          [f for f in where[name] if not f.startswith("guard/")]):
                yield file, other, name


def groups(graph):
    """Tarjan's strongly connected components of more than one file."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for node in list(graph):
        if node not in index:
            visit(node)
    return [group for group in found if len(group) > 1]


def circles(tree, build):
    allowed = {tuple(sorted(files.split())) for files in marked(tree, "circles")}
    graph, names = collections.defaultdict(set), collections.defaultdict(set)
    for file, other, name in list(edges(objects(build))) + list(edges(module_files(tree))):
        graph[file].add(other)
        graph[other].update()
        names[file, other].add(name)
    if len(allowed) > 2:
        yield f"HACKING.md allows {len(allowed)} circles; 2 is the most"
    circles_found = {tuple(group) for group in groups(graph)}
    for group in sorted(circles_found - allowed):
        calls = "; ".join(f"{a} uses {min(names[a, b])} of {b}"
                          for a in group for b in group if names[a, b])
        yield f"a circle that HACKING.md does not allow: {' '.join(group)} ({calls})"
    for group in sorted(allowed - circles_found):
        yield f"HACKING.md allows a circle that is not there: {' '.join(group)}"


def symbols(tree, build):
    public = " ".join(p.read_text() for p in tree.glob("lib/include/mrguard/*.h"))
    public = set(re.findall(r"\bmrg_\w+", public))
    own = {room: names.split() for room, names in marked(tree, "symbols").items()}
    for file, (defines, _) in objects(build).items():
        room = file.split("/")[0]
        allowed = [f"{room}_*", "mrg_private_*"] + own.get(room, [])
        for name in sorted(defines - public):
            if not any(fnmatch.fnmatchcase(name, pattern) for pattern in allowed):
                yield (f"{file}: {name} is neither {room}_*, nor mrg_private_*, "
                       "nor declared in lib/include")


def code_lines(path):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), path.read_text(), flags=re.S)
    for number, line in enumerate(text.splitlines(), 1):
        line = " ".join(line.split())
        if line.strip("{};") and not line.startswith("#include"):
            yield number, line


def twice(tree):
    seen = {}
    for path in sources(tree):
        lines = list(code_lines(path))
        last = None
        for at in range(len(lines) - RUN + 1):
            run = tuple(line for _, line in lines[at:at + RUN])
            other, number = seen.setdefault(run, (path, lines[at][0]))
            if other.parent != path.parent and last != at - 1:
                yield (f"{path.relative_to(tree)}:{lines[at][0]}: {RUN} lines alike in "
                       f"{other.relative_to(tree)}:{number}")
            if other.parent != path.parent:
                last = at


def main():
    rule, *places = sys.argv[1:]
    breaches = list(globals()[rule](*map(pathlib.Path, places)))
    print("\n".join(breaches), end="\n" if breaches else "")
    return bool(breaches)


sys.exit(main())
