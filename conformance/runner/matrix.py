"""The matrix feature × SDK × version, from the outcomes of the cases."""

import json
import pathlib
import re

FEATURES = json.loads((pathlib.Path(__file__).resolve().parents[1] / "features.json").read_text())
TITLES = {
    "python sync": "Python",
    "python async": "Python async",
    "js": "JavaScript",
    "skep python sync": "skep, Python",
    "skep python async": "skep, Python async",
    "skep js": "skep, JavaScript",
    "cli": "CLI",
    "generation python": "Python",
    "generation js": "JavaScript",
    "bun": "Bun",
    "deno": "Deno",
    "workerd": "workerd",
    "frameworks": "as published",
    "notebooks": "nbformat",
    "mcp": "Python, TypeScript",
    "jupyter": "Jupyter Server",
}
ORDER = list(TITLES)


LEGEND = (
    "✅ every case passes · ❌ cases that fail · refused: answered with a clear error until it works · "
    "waits: needs what the server does not do yet · "
    "– not in that SDK · empty: says nothing about an SDK, so it is tried with one"
)


def where(case):
    return f"{case['feature']} ({TITLES[case['sdk']]} {case['version']}, {case['mode']} mode)"


def columns(outcomes):
    """SDK and version of each column, newest first within an SDK."""
    seen = {(case["sdk"], case["generation"], case["version"]) for case in outcomes}
    return sorted(seen, key=lambda column: (ORDER.index(column[0]), column[1] != "new", numbers(column[2])))


def numbers(version):
    """A version as something that sorts."""
    return [int(number) for number in re.findall(r"\d+", version)]


def cell(cases):
    """What one cell says: all well, what fails, that the SDK has no such method, or nothing."""
    tried = [case for case in cases if case["outcome"] != "absent"]
    if not tried:
        return "–" if cases else ""
    failed = sum(case["outcome"] == "failed" for case in tried)
    if failed:
        return f"❌ {failed} of {len(tried)}"
    if all(case["outcome"] == "waits" for case in tried):
        return f"waits: {tried[0]['detail']}"
    return "refused" if tried[0]["feature"].startswith("later.") else "✅"


def markdown(outcomes):
    """One table per group of features; a feature without any case has no row."""
    heads = columns(outcomes)
    names = [f"{TITLES[sdk]} {version}".strip() for sdk, _, version in heads]
    lines = []
    for group in FEATURES:
        rows = [
            (title, [cell(matching(outcomes, feature, head)) for head in heads])
            for feature, title in group["features"].items()
        ]
        rows = [(title, cells) for title, cells in rows if not set(cells) <= {"–", ""}]
        used = [index for index in range(len(heads)) if any(cells[index] not in ("–", "") for _, cells in rows)]
        if not rows:
            continue
        lines.append(f"| {group['group']} | {' | '.join(names[index] for index in used)} |")
        lines.append(f"|---|{'---|' * len(used)}")
        lines += [f"| {title} | {' | '.join(cells[index] for index in used)} |" for title, cells in rows]
        lines.append("")
    lines.append(LEGEND)
    return "\n".join(lines)


def matching(outcomes, feature, head):
    return [
        case
        for case in outcomes
        if case["feature"] == feature and (case["sdk"], case["generation"], case["version"]) == head
    ]
