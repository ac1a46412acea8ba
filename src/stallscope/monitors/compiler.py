# SPDX-License-Identifier: Apache-2.0
"""The declarative form of monitors, which compiles to their assembly language.

name = "many-misses"
about = "says when the first cache misses often"
words = { misses = 0, rate = 0 }

[[when]]
event = "l1_miss"
do = ["count misses"]

[[when]]
event = "cycles"
every = 10000
average = { rate = "misses" }        # half old, half new; misses begins at 0 again
if = ["rate above 500"]
for = 3                              # times in a row
do = ["log rate", "interrupt 0"]
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from stallscope.errors import StallscopeError
from stallscope.machines.fault import nearest
from stallscope.monitors.assembler import SIGNALS, Image, events, features

PAYLOAD = {"address": "r1", "data": "r2", "core": "r3", "cycle": "r4"}
CONDITIONS = {
    "above": "bgeu {limit}, {value}, {no}",
    "below": "bgeu {value}, {limit}, {no}",
    "is": "bne {value}, {limit}, {no}",
    "not": "beq {value}, {limit}, {no}",
}
ADDRESS_BITS = 64
NAMED = ("software", "watched")
ACCESSED = ("watched", "load", "store")
ACCESSES = {"reads": 1, "writes": 2, "both": 3}


class When(msgspec.Struct, forbid_unknown_fields=True):
    """When EVENT [every n] [in RANGE] [if …] [for T]: do ACTIONS."""

    event: str
    do: list[str] = []
    every: int = 1
    name: str = ""
    within: str = msgspec.field(name="in", default="")
    named: str = ""  # a condition of STALLSCOPE_WHEN, or what is watched
    data: str = ""
    core: int | None = None
    each_core: int = 0  # one such rule for each of so many cores
    priority: str = "low"
    stall: bool = False
    average: dict[str, str] = {}
    conditions: list[str] = msgspec.field(name="if", default=[])
    value: str = ""
    above: int | None = None
    below: int | None = None
    times: int = msgspec.field(name="for", default=1)


class Source(msgspec.Struct, forbid_unknown_fields=True):
    name: str = ""
    about: str = ""
    words: dict[str, int | list[int]] = {}
    core: dict[str, int] = {}  # queues and the like, see docs/monitor.md
    watch: list[str] = []  # memory whose accesses are the event `watched`
    access: str = "writes"  # of these: reads, writes or both
    when: list[When] = []


CORE_KEYS = ("high_queue", "low_queue", "scratch", "send_buffer", "wake", "task_limit")


def parse(text: str, where: str) -> Source:
    import tomllib

    try:
        source = msgspec.convert(tomllib.loads(text), Source)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise StallscopeError(f"{where} is no monitor", str(error)) from error
    for key in source.core:
        if key not in CORE_KEYS:
            raise StallscopeError(
                f"{where}: a monitor core has no {key}",
                f"there is: {', '.join(CORE_KEYS)}",
                nearest(key, list(CORE_KEYS)),
            )
    if source.access not in ACCESSES:
        raise StallscopeError(f"{where}: access is {', '.join(ACCESSES)}, not {source.access!r}")
    return source


def looks_at_data(image: Image) -> bool:
    """Whether a detector or its handler needs to know what was read or written."""
    return any(one.needs_data and events()[one.event] in ACCESSED for one in image.detectors)


def compile_monitor(source: Source) -> str:
    """Its assembly."""
    return _Compiler(source).run()


def when_name(name: str) -> int:
    """The number that stands for a condition's name: FNV-1a, as the engine computes it."""
    number = 0xCBF29CE484222325
    for byte in name.encode():
        number = (number ^ byte) * 0x100000001B3 % (1 << ADDRESS_BITS)
    return number


def cover(low: int, high: int) -> tuple[int, int]:
    """The match and care bits of the smallest aligned stretch that holds the bytes low..high-1."""
    bits = (low ^ (high - 1)).bit_length()
    care = ((1 << ADDRESS_BITS) - 1) >> bits << bits
    return low & care, care


class _Compiler:
    def __init__(self, source: Source) -> None:
        self.words = dict(source.words)
        self.rules: list[tuple[str, When]] = []
        for number, rule in enumerate(source.when, 1):
            name = rule.name or f"when{number}"
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                raise StallscopeError(f"{name!r} is no name for a rule")
            for core in range(rule.each_core):
                self.rules.append(
                    (f"{name}_{core}", msgspec.structs.replace(rule, core=core, each_core=0))
                )
            if not rule.each_core:
                self.rules.append((name, rule))
        if not self.rules:
            raise StallscopeError("the monitor has no rule", now="[[when]] event = …, do = […]")
        if len(self.rules) > SIGNALS:
            raise StallscopeError(
                f"the monitor has {len(self.rules)} rules", f"the table has room for {SIGNALS}"
            )
        for word in self.words:
            if not re.fullmatch(r"[A-Za-z_]\w*", word) or word in PAYLOAD:
                raise StallscopeError(f"{word!r} is no name for a word")
        self.code: list[str] = []
        self.rule = ""

    def run(self) -> str:
        detectors = [self._detector(name, rule) for name, rule in self.rules]
        for name, rule in self.rules:
            self.rule = name
            self._handler(name, rule)
        words = []
        for name, value in self.words.items():
            if isinstance(value, list):
                if any(value):
                    raise self._fault(f"{name}: several words begin at 0")
                words.append(f".space {name} {len(value)}")
            else:
                words.append(f".word {name} {value}")
        return "\n".join([*detectors, *words, *self.code, ""])

    def _fault(self, what: str, now: str = "") -> StallscopeError:
        return StallscopeError(f"{self.rule}: {what}" if self.rule else what, now=now)

    def _detector(self, name: str, rule: When) -> str:
        self.rule = name
        if rule.event not in events():
            raise self._fault(f"there is no event {rule.event!r}", nearest(rule.event, events()))
        if rule.every < 1 or rule.times < 1:
            raise self._fault("every and for are at least 1")
        if rule.priority not in ("high", "low"):
            raise self._fault(f"priority is high or low, not {rule.priority!r}")
        words = [f".detector {name} event={rule.event} handler={name}", f"every={rule.every}"]
        if rule.within:
            match, care = cover(*self._range(rule.within))
            words.append(f"address={match:#x}/{care:#x}")
        if rule.named:
            if rule.event not in NAMED or rule.within:
                raise self._fault(
                    "named is for conditions of a program and for what is watched",
                    'event = "software" or "watched"',
                )
            words.append(f"address={when_name(rule.named):#x}/{(1 << ADDRESS_BITS) - 1:#x}")
        if rule.data:
            words.append(f"data={rule.data}")
        if rule.core is not None:
            words.append(f"core={rule.core}")
        if rule.priority == "high":
            words.append("priority=high")
        if rule.stall:
            words.append("stall=yes")
        return " ".join(words)

    def _range(self, text: str) -> tuple[int, int]:
        low, dash, high = text.partition("-")
        try:
            first, last = int(low, 0), int(high, 0)
        except ValueError:
            first, last = 0, 0
        if not dash or not first < last:
            raise self._fault(f"in = {text!r}: write FIRST-BEHIND, as 0x1000-0x1040")
        return first, last

    def _emit(self, *lines: str) -> None:
        self.code += [f"    {line}" for line in lines]

    def _handler(self, name: str, rule: When) -> None:
        self.code.append(f"{name}:")
        end = f"{name}_end"
        if rule.within:
            self._check_range(name, rule.within)
        for average, of in rule.average.items():
            self._average(average, of)
        conditions = list(rule.conditions)
        if rule.value:
            average = f"{name}_average"
            self.words.setdefault(average, 0)
            self._average(average, rule.value)
            conditions += [f"{average} above {rule.above}"] if rule.above is not None else []
            conditions += [f"{average} below {rule.below}"] if rule.below is not None else []
        no = f"{name}_no" if rule.times > 1 else end
        for condition in conditions:
            self._condition(condition, no)
        if rule.times > 1:
            self._streak(name, rule.times, end)
        for action in rule.do:
            self._action(action, name)
        if rule.times > 1:
            self._emit(f"jmp {end}")
            self.code.append(f"{no}:")
            self._emit(f"st r0, {name}_times(r0)")
        self.code.append(f"{end}:")
        self._emit("pmhalt")

    def _check_range(self, name: str, within: str) -> None:
        """The detector's match may be wider than the range: what is outside is counted."""
        low, high = self._range(within)
        self.words.setdefault(f"{name}_false", 0)
        self._emit(f"li r6, {low}", f"bltu r1, r6, {name}_miss")
        self._emit(f"li r6, {high}", f"bltu r1, r6, {name}_hit")
        self.code.append(f"{name}_miss:")
        self._emit(f"ld r6, {name}_false(r0)", "addi r6, r6, 1", f"st r6, {name}_false(r0)")
        self._emit("pmhalt")
        self.code.append(f"{name}_hit:")

    def _streak(self, name: str, times: int, end: str) -> None:
        self.words.setdefault(f"{name}_times", 0)
        self._emit(f"ld r6, {name}_times(r0)", "addi r6, r6, 1", f"li r7, {times}")
        self._emit(f"bgeu r6, r7, {name}_yes", f"st r6, {name}_times(r0)", f"jmp {end}")
        self.code.append(f"{name}_yes:")
        self._emit(f"st r0, {name}_times(r0)")

    def _place(self, text: str) -> str:
        """The operand of a load or store. An index by core is checked first: r9 is it."""
        match = re.fullmatch(r"([A-Za-z_]\w*)(?:\[(core|\d+)\])?", text)
        if not match or match[1] not in self.words:
            known = nearest(match[1], list(self.words)) if match else ""
            raise self._fault(f"there is no word {text!r}", known)
        held = self.words[match[1]]
        size = len(held) if isinstance(held, list) else 1
        if match[2] is None:
            return f"{match[1]}(r0)"
        if match[2] != "core":
            if int(match[2]) >= size:
                raise self._fault(f"{text}: {match[1]} has {size} words")
            self._emit(f"li r9, {8 * int(match[2])}")
        else:
            self._emit(f"li r10, {size}", f"bgeu r3, r10, {self.rule}_end", "shli r9, r3, 3")
        return f"{match[1]}(r9)"

    def _load(self, text: str, register: str) -> None:
        if text in PAYLOAD:
            self._emit(f"addi {register}, {PAYLOAD[text]}, 0")
        elif re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", text):
            self._emit(f"li {register}, {text}")
        elif text in features() and text not in self.words:
            self._emit(f"pmchk {register}, {text}")
        else:
            self._emit(f"ld {register}, {self._place(text)}")

    def _average(self, average: str, of: str) -> None:
        self._load(of, "r6")
        self._load(average, "r7")
        self._emit("add r6, r6, r7", "shri r6, r6, 1")
        self._emit(f"st r6, {self._place(average)}", f"st r0, {self._place(of)}")

    def _condition(self, text: str, no: str) -> None:
        words = text.split()
        if len(words) != 3 or words[1] not in CONDITIONS:
            raise self._fault(f"{text!r}: write WORD {'|'.join(CONDITIONS)} NUMBER|WORD")
        self._load(words[0], "r6")
        self._load(words[2], "r7")
        self._emit(CONDITIONS[words[1]].format(value="r6", limit="r7", no=no))

    def _action(self, text: str, name: str) -> None:
        words = text.split()
        match words:
            case ["count", word] | ["count", word, "by", _]:
                self._load(words[3] if len(words) == 4 else "1", "r7")
                place = self._place(word)
                self._emit(f"ld r6, {place}", "add r6, r6, r7", f"st r6, {place}")
            case ["set", word, "to", value]:
                self._load(value, "r7")
                self._emit(f"st r7, {self._place(word)}")
            case ["clear", word]:
                self._emit(f"st r0, {self._place(word)}")
            case ["signal", feature, value] if feature in features():
                self._load(value, "r7")
                self._emit(f"pmsig {feature}, r7")
            case ["interrupt", core]:
                self._load(core, "r7")
                self._emit("pmsig interrupt, r7, r2")
            case ["verdict", value]:
                self._load(value, "r7")
                self._emit("pmsig verdict, r3, r7")
            case ["grant", value]:
                self._load(value, "r7")
                self._emit("pmsig grant, r3, r7")
            case ["log", value] | ["log", value, _]:
                self._load(value, "r6")
                self._load(words[2] if len(words) == 3 else "address", "r7")
                self._emit("pmsig log, r6, r7")
            case ["send", value, "to", monitor, "as", signal] if monitor.isdigit():
                self._load(value, "r6")
                self._emit(f"li r7, {self._signal(signal)}", f"pmsend {monitor}, r6, r7")
            case ["queue", rule]:
                self._emit(f"pmtask {self._signal(rule)}, r2")
            case ["off"] | ["off", _]:
                self._emit(f"wepm {self._signal(words[1] if len(words) == 2 else name)}, r0")
            case ["every", rule, number] if number.isdigit():
                self._emit(f"li r6, {number}", f"wcmpm {self._signal(rule)}, r6")
            case _:
                raise self._fault(f"{text!r} is no action", ACTIONS)

    def _signal(self, text: str) -> int:
        if text.isdigit() and int(text) < SIGNALS:
            return int(text)
        names = [name for name, _ in self.rules]
        if text not in names:
            raise self._fault(f"there is no rule {text!r}", nearest(text, names))
        return names.index(text)


ACTIONS = (
    "count WORD [by N], set WORD to N, clear WORD, signal FEATURE N, interrupt CORE, verdict N, "
    "grant N, log WORD [WORD], send WORD to MONITOR as RULE, queue RULE, off [RULE], every RULE N"
)


def described(source: Source) -> dict[str, Any]:
    return {"name": source.name, "about": source.about, "rules": len(source.when)}
