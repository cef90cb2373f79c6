"""What a run of the fuzzer against a port saw, and how it is told to a person and to a program."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator
from typing import Any

import attrs

from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.fuzz.case import Case

EXAMPLES = 5
REMARKS = 400
"""Kinds of remarks remembered; numbers and names in a remark count as one kind."""

GROWTH_MIB = 64.0
SETTLED = 0.25
"""Part of the memory samples left out at the start of a run: pools fill, code warms up."""

READABLE_CLOSED = "readable and closed"
DIFFERENCES = ("unreadable and kept open", READABLE_CLOSED, "unanswered", "answer unreadable", "our end ignored")
"""Outcomes other than our own reader expects; found only when the run is strict."""


def resident_bytes(pid: int) -> int | None:
    """VmRSS of a process, None when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            found = re.search(r"^VmRSS:\s+(\d+) kB", status.read(), re.MULTILINE)
    except OSError:
        return None
    return int(found.group(1)) * 1024 if found else None


@attrs.define
class PortReport:
    """Counts of one run.

    :ivar outcomes: what cases got, other than answers.
    :ivar answers: (request code, response code) -> how many.
    :ivar errors: (request code, remark with its numbers and names left out) -> (how many, an example) of SYSTEM_ERROR.
    :ivar examples: outcome -> the first few cases that got it, as text.
    :ivar suspects: for each close on readable cases, the cases one of which it answers.
    :ivar found: what counts against the server, a line each.
    :ivar memory: VmRSS in bytes, once a second.
    """

    sent: int = 0
    seconds: float = 0.0
    connections: int = 0
    kinds: collections.Counter[str] = attrs.Factory(collections.Counter)
    outcomes: collections.Counter[str] = attrs.Factory(collections.Counter)
    answers: collections.Counter[tuple[int, int]] = attrs.Factory(collections.Counter)
    errors: dict[tuple[int, str], list[Any]] = attrs.Factory(dict)
    examples: dict[str, list[str]] = attrs.Factory(dict)
    suspects: list[list[int]] = attrs.Factory(list)
    found: list[str] = attrs.Factory(list)
    probes: list[float] = attrs.Factory(list)
    memory: list[int] = attrs.Factory(list)

    def answer(self, case: Case, request_code: int, code: int, remark: str | None) -> None:
        """An answer came."""
        self.answers[request_code, code] += 1
        if code == ResponseCode.SYSTEM_ERROR:
            key = request_code, re.sub(r"[0-9]+|[A-Za-z%_|./-]{40,}|[^\x20-\x7e]+", "~", (remark or "")[:200])[:100]
            if key in self.errors:
                self.errors[key][0] += 1
            elif len(self.errors) < REMARKS:
                self.errors[key] = [1, case.index, (remark or "")[:200]]

    def note(self, outcome: str, case: Case | None, detail: str = "") -> None:
        """An outcome worth an example."""
        self.outcomes[outcome] += 1
        examples = self.examples.setdefault(outcome, [])
        if len(examples) < EXAMPLES:
            examples.append(f"{case if case is not None else 'no case'}{': ' + detail if detail else ''}")

    def probe(self, seconds: float, late_seconds: float) -> None:
        """A plain request was answered."""
        self.probes.append(seconds)
        if seconds > late_seconds:
            self.found.append(f"late: a plain request took {seconds:.2f} s after {self.sent} cases")

    def sample(self, resident: int | None, last: bool = False) -> None:
        """The process's memory."""
        if resident is not None:
            self.memory.append(resident)

    def growth(self) -> float | None:
        """MiB between the settled start and the end, None without samples."""
        if len(self.memory) < 2:
            return None
        return (self.memory[-1] - self.memory[int(len(self.memory) * SETTLED)]) / (1 << 20)

    def conclude(self, growth_mib_max: float, strict: bool) -> None:
        """Add what can only be said at the end."""
        growth = self.growth()
        if growth is not None and growth > growth_mib_max:
            self.found.append(f"growth: {growth:.0f} MiB since a quarter of the run, at most {growth_mib_max:.0f}")
        if strict:
            for name in DIFFERENCES:
                if self.outcomes[name]:
                    self.found.append(f"difference: {self.outcomes[name]} cases {name}")

    def lines(self) -> Iterator[str]:
        """The report for a person."""
        speed = self.sent / self.seconds if self.seconds else 0.0
        yield f"{self.sent} cases in {self.seconds:.1f} s ({speed:.0f} a second) on {self.connections} connections"
        yield "kinds: " + ", ".join(f"{name} {count}" for name, count in sorted(self.kinds.items()))
        codes: collections.Counter[int] = collections.Counter()
        for (_, code), count in self.answers.items():
            codes[code] += count
        yield f"answered: {sum(codes.values())}"
        for code, count in codes.most_common():
            yield f"  {count:9} {code} {code_name(ResponseCode, code)}"
        for name, count in sorted(self.outcomes.items()):
            yield f"{name}: {count}"
            yield from (f"    {text}" for text in self.examples.get(name, ()))
        if self.errors:
            yield "SYSTEM_ERROR (1) by remark, the most frequent:"
            for (code, _), (count, index, remark) in sorted(self.errors.items(), key=lambda row: -row[1][0])[:20]:
                yield f"  {count:9} request {code} {code_name(RequestCode, code)}, case {index}: {remark!r}"
        if self.probes:
            ordered = sorted(self.probes)
            middle, worst = ordered[len(ordered) // 2], ordered[-1]
            yield f"plain requests between: {len(ordered)}, median {middle * 1e3:.1f} ms, slowest {worst * 1e3:.1f} ms"
        if self.memory:
            start, most, end = (value / (1 << 20) for value in (self.memory[0], max(self.memory), self.memory[-1]))
            yield f"memory: start {start:.1f} MiB, most {most:.1f} MiB, end {end:.1f} MiB"
        yield from (f"FOUND {text}" for text in self.found)
        yield "nothing found" if not self.found else f"{len(self.found)} found"

    def summary(self) -> dict[str, Any]:
        """The report for a program."""
        answers: dict[str, dict[str, int]] = {}
        for (request_code, code), count in sorted(self.answers.items()):
            answers.setdefault(str(request_code), {})[str(code)] = count
        return {
            "sent": self.sent,
            "seconds": round(self.seconds, 3),
            "connections": self.connections,
            "kinds": dict(sorted(self.kinds.items())),
            "answers": answers,
            "outcomes": dict(sorted(self.outcomes.items())),
            "probes": len(self.probes),
            "probe_seconds_max": round(max(self.probes, default=0.0), 4),
            "memory_bytes": {"start": self.memory[0], "max": max(self.memory), "end": self.memory[-1]}
            if self.memory
            else None,
            "found": self.found,
        }


def code_name(codes: type[RequestCode] | type[ResponseCode], code: int) -> str:
    """Java's name of a code, empty for one it does not have."""
    try:
        return codes(code).name
    except ValueError:
        return ""
