# SPDX-License-Identifier: Apache-2.0
"""The assembler and disassembler of monitor cores.

A line holds a label, a directive or an instruction; `;` begins a comment.

    .detector misses event=l1_miss every=16 handler=on_miss
    .word count 0
    on_miss:
        ld   r6, count(r0)
        addi r6, r6, 1
        st   r6, count(r0)
        pmhalt

Without `.boot LABEL` a boot program is made that clears the core, sets the masks and fills the
table of handlers. `li rd, NUMBER|NAME` loads any 64-bit number, `jmp LABEL` jumps.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field, fields, replace

from stallscope import _engine
from stallscope.errors import StallscopeError
from stallscope.machines.fault import nearest
from stallscope.monitors import data_use

SIGNALS = 64
WORD, INSTRUCTION = 8, 4
LITERAL, SHORT = 18, 14  # bits
ALL_CORES = (1 << 64) - 1
MADE_BOOT = "stallscope_boot"
CHUNK = LITERAL - 1  # bits that one instruction of `li` adds


@dataclass(frozen=True)
class Detector:
    name: str
    event: int
    handler: str
    every: int = 1
    high: bool = False
    stalls: bool = False
    match: int = 0
    care: int = 0
    data_match: int = 0
    data_care: int = 0
    cores: int = ALL_CORES
    needs_data: bool = False  # it compares data, or its handler looks at it


@dataclass(frozen=True)
class Image:
    """What a monitor core is started with."""

    scratch: bytes
    boot: int
    detectors: tuple[Detector, ...]
    labels: dict[str, int]  # addresses of code
    words: dict[str, int]  # addresses of named words
    lines: dict[int, int] = field(default_factory=dict)  # address of an instruction: its line

    def to_engine(self) -> dict[str, object]:
        names = [one.name for one in fields(Detector) if one.name not in ("name", "handler")]
        detectors = [{name: getattr(one, name) for name in names} for one in self.detectors]
        return {"scratch": self.scratch, "boot": self.boot, "detectors": detectors}

    def signal(self, name: str) -> int:
        return [one.name for one in self.detectors].index(name)


@functools.cache
def instructions() -> dict[str, tuple[str, int]]:
    """Format and cycles, by name."""
    return {name: (form, cycles) for name, form, _, _, cycles, _ in _engine.monitor_instructions()}


@functools.cache
def events() -> list[str]:
    return [name for name, *_ in _engine.monitor_events()]


@functools.cache
def features() -> list[str]:
    return [name for name, *_ in _engine.monitor_features()]


class _Fault(Exception):
    pass


@dataclass
class _Line:
    number: int
    name: str
    operands: list[str]


class _Assembly:
    def __init__(self, text: str) -> None:
        self.code: list[_Line] = []
        self.labels: dict[str, int] = {}  # index of an instruction
        self.words: dict[str, tuple[int, list[int]]] = {}
        self.detectors: list[Detector] = []
        self.boot = ""
        self.data = 0  # words
        for number, line in enumerate(text.splitlines(), 1):
            try:
                self._line(number, line.split(";")[0].strip())
            except _Fault as fault:
                raise _error(number, str(fault)) from None

    def _line(self, number: int, line: str) -> None:
        while match := re.match(r"([A-Za-z_]\w*)\s*:\s*", line):
            self._fresh(match[1])
            self.labels[match[1]] = len(self.code)
            line = line[match.end() :]
        if not line:
            return
        name, _, rest = line.partition(" ")
        if name.startswith("."):
            self._directive(name, rest.split())
            return
        operands = [one.strip() for one in rest.split(",")] if rest.strip() else []
        self.code += self._expand(_Line(number, name.strip(), operands))

    def _fresh(self, name: str) -> None:
        if name in self.labels or name in self.words:
            raise _Fault(f"{name} is there twice")

    def _directive(self, name: str, words: list[str]) -> None:
        if name == ".boot" and len(words) == 1:
            self.boot = words[0]
        elif name in (".word", ".space") and len(words) == 2:
            self._fresh(words[0])
            value = _number(words[1])
            held = [value] if name == ".word" else [0] * value
            if not 0 < len(held) <= 8192:
                raise _Fault(f"{name} {words[0]}: between 1 and 8192 words")
            self.words[words[0]] = (self.data, held)
            self.data += len(held)
        elif name == ".detector" and words:
            self.detectors.append(_detector(words[0], words[1:]))
            if len(self.detectors) > SIGNALS:
                raise _Fault(f"the table of signals is full: it has room for {SIGNALS}")
        else:
            raise _Fault(f"{name} is no directive, or something is missing behind it")

    def _expand(self, line: _Line) -> list[_Line]:
        """What stands for several instructions, and which."""
        if line.name == "jmp" and len(line.operands) == 1:
            return [_Line(line.number, "jal", ["r0", *line.operands])]
        if line.name != "li":
            return [line]
        if len(line.operands) != 2:
            raise _Fault("li takes a register and a number")
        target, value = line.operands
        if re.fullmatch(r"[A-Za-z_]\w*", value):  # an address, which is small
            return [_Line(line.number, "addi", [target, "r0", value])]
        number = _number(value)
        if -(1 << CHUNK) <= number < 1 << CHUNK:
            return [_Line(line.number, "addi", [target, "r0", str(number)])]
        number &= (1 << 64) - 1
        chunks = [number >> at & ((1 << CHUNK) - 1) for at in range(0, 64, CHUNK)]
        made = [_Line(line.number, "addi", [target, "r0", str(chunks[-1])])]
        for chunk in reversed(chunks[:-1]):
            made.append(_Line(line.number, "shli", [target, target, str(CHUNK)]))
            made.append(_Line(line.number, "ori", [target, target, str(chunk)]))
        return made

    def add_boot(self) -> None:
        """Clears the core, then turns on what has a handler."""
        lines = [f"{MADE_BOOT}: cpm"]
        for signal, detector in enumerate(self.detectors):
            lines += [f"li r6, {detector.every}", f"wcmpm {signal}, r6"]
        for signal, detector in enumerate(self.detectors):
            if detector.handler != "none":
                lines += [f"li r6, {detector.handler}", f"wepm {signal}, r6"]
        for line in [*lines, "pmhalt"]:
            self._line(0, line)
        self.boot = MADE_BOOT


def _error(line: int, what: str) -> StallscopeError:
    return StallscopeError(f"line {line} of the monitor: {what}" if line else what)


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise _Fault(f"{text} is no number") from None


def _match(text: str) -> tuple[int, int]:
    """VALUE/CARE: bits that are 0 in CARE do not matter."""
    value, slash, care = text.partition("/")
    return _number(value), _number(care) if slash else (1 << 64) - 1


def _detector(name: str, words: list[str]) -> Detector:
    made: dict[str, object] = {"handler": name}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise _Fault(f"{word}: write KEY=VALUE")
        if key == "event":
            if value not in events():
                raise _Fault(f"there is no event {value}; {nearest(value, events())}".rstrip("; "))
            made["event"] = events().index(value)
        elif key == "handler":
            made["handler"] = value
        elif key == "every":
            made["every"] = _number(value)
            if _number(value) < 1:
                raise _Fault("every: at least 1")
        elif key == "address":
            made["match"], made["care"] = _match(value)
        elif key == "data":
            made["data_match"], made["data_care"] = _match(value)
        elif key == "core":
            made["cores"] = sum({1 << (_number(one) & 63) for one in value.split(",")})
        elif key == "priority" and value in ("high", "low"):
            made["high"] = value == "high"
        elif key == "stall" and value in ("yes", "no"):
            made["stalls"] = value == "yes"
        else:
            raise _Fault(
                f"{word}: there is event, handler, every, address, data, core, priority "
                "(high, low) and stall (yes, no)"
            )
    if "event" not in made:
        raise _Fault(f"detector {name} has no event")
    return Detector(name, **made)  # type: ignore[arg-type]


def assemble(text: str) -> Image:
    """The image of a monitor; an error names the line."""
    source = _Assembly(text)
    if not source.boot:
        source.add_boot()
    # Data first, behind address 0, which stands for no handler.
    first_word = WORD
    first = first_word + WORD * source.data
    words = {name: first_word + WORD * at for name, (at, _) in source.words.items()}
    labels = {name: first + INSTRUCTION * at for name, at in source.labels.items()}
    for wanted in [source.boot, *(one.handler for one in source.detectors)]:
        if wanted not in labels and wanted != "none":
            raise StallscopeError(
                f"the monitor has no label {wanted}", now=nearest(wanted, list(labels))
            )
    names = words | labels
    scratch = bytearray(first)
    for name, (_, held) in source.words.items():
        for i, value in enumerate(held):
            at = words[name] + WORD * i
            scratch[at : at + WORD] = (value & ((1 << 64) - 1)).to_bytes(WORD, "little")
    lines = {}
    for line in source.code:
        try:
            word = _encode(line, len(scratch), names, source.detectors)
        except _Fault as fault:
            raise _error(line.number, str(fault)) from None
        lines[len(scratch)] = line.number
        scratch += word.to_bytes(INSTRUCTION, "little")
    detectors = _with_data_use(source.detectors, data_use.code_of(scratch, first), labels)
    return Image(bytes(scratch), labels[source.boot], detectors, labels, words, lines)


def _with_data_use(
    detectors: list[Detector], code: data_use.Code, labels: dict[str, int]
) -> tuple[Detector, ...]:
    looking = data_use.looking(code)
    places = list(labels.values())
    boot = labels.get(MADE_BOOT, max(code, default=0) + INSTRUCTION)
    made = []
    for one in detectors:
        leads_to = data_use.handlers(code, labels.get(one.handler), places, boot)
        needs = bool(one.data_care) or any(at in looking for at in leads_to)
        made.append(replace(one, needs_data=needs))
    return tuple(made)


def _register(text: str) -> int:
    match = re.fullmatch(r"r(\d{1,2})", text)
    if not match or int(match[1]) > 15:
        raise _Fault(f"{text} is no register; there are r0 to r15")
    return int(match[1])


def _literal(text: str, names: dict[str, int], bits: int, signed: bool) -> int:
    value = names[text] if text in names else _number(text)
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)
    if not low <= value < high:
        raise _Fault(f"{text} does not fit into {bits} bits")
    return value


def _offset(text: str, at: int, names: dict[str, int]) -> int:
    if text not in names:
        raise _Fault(f"there is no label {text}; {nearest(text, list(names))}".rstrip("; "))
    return (names[text] - at - INSTRUCTION) // INSTRUCTION


def _encode(line: _Line, at: int, names: dict[str, int], detectors: list[Detector]) -> int:
    if line.name not in instructions():
        known = [*instructions(), "li", "jmp"]
        raise _Fault(
            f"there is no instruction {line.name}; {nearest(line.name, known)}".rstrip("; ")
        )
    form = instructions()[line.name][0]
    takes = {
        "three": 3,
        "literal": 3,
        "memory": 2,
        "branch": 3,
        "jump": 2,
        "reg": 1,
        "none": 0,
        "signal": 2,
        "check": 2,
        "act": 3,
    }[form]
    given = line.operands
    if form == "act" and len(given) == 2:
        given = [*given, "r0"]
    if len(given) != takes:
        raise _Fault(f"{line.name} takes {takes} operands, not {len(given)}")
    rd = ra = rb = literal = 0
    if form in ("three", "literal"):
        rd, ra = _register(given[0]), _register(given[1])
        if form == "three":
            rb = _register(given[2])
        else:
            literal = _literal(given[2], names, LITERAL, True)
    elif form == "memory":
        match = re.fullmatch(r"(.+)\((r\d+)\)", given[1])
        if not match:
            raise _Fault(f"{given[1]}: write NUMBER(REGISTER)")
        rd, ra = _register(given[0]), _register(match[2])
        literal = _literal(match[1].strip(), names, LITERAL, True)
    elif form == "branch":
        ra, rb = _register(given[0]), _register(given[1])
        literal = _offset(given[2], at, names)
    elif form == "jump":
        rd, literal = _register(given[0]), _offset(given[1], at, names)
    elif form == "reg":
        ra = _register(given[0])
    elif form == "check":
        rd, literal = _register(given[0]), _named(given[1], features(), "feature")
    elif form == "signal":
        signals = [one.name for one in detectors]
        literal, ra = _named(given[0], signals, "signal"), _register(given[1])
    elif form == "act":
        kinds = features() if line.name == "pmsig" else []
        literal = _named(given[0], kinds, "feature")
        ra, rb = _register(given[1]), _register(given[2])
    found: int = _engine.monitor_encode(line.name, rd, ra, rb, literal)
    return found


def _named(text: str, known: list[str], what: str) -> int:
    """A number, or a name that stands for its place in a list."""
    if text in known:
        return known.index(text)
    if re.fullmatch(r"0x[0-9a-fA-F]+|\d+", text):
        return _literal(text, {}, SHORT, False)
    raise _Fault(f"there is no {what} {text}; {nearest(text, known)}".rstrip("; "))


def disassemble(word: int, address: int = 0) -> str:
    """One instruction as the assembler takes it; branches by where they go."""
    found = _engine.monitor_decode(word)
    if found is None:
        return f".bad {word:#010x}"
    name, rd, ra, rb, literal = found
    there = f"{address + INSTRUCTION * (literal + 1):#x}"
    form = instructions()[name][0]
    feature = features()[literal] if 0 <= literal < len(features()) else str(literal)
    operands = {
        "three": f"r{rd}, r{ra}, r{rb}",
        "literal": f"r{rd}, r{ra}, {literal}",
        "memory": f"r{rd}, {literal}(r{ra})",
        "branch": f"r{ra}, r{rb}, {there}",
        "jump": f"r{rd}, {there}",
        "reg": f"r{ra}",
        "none": "",
        "signal": f"{literal}, r{ra}",
        "check": f"r{rd}, {feature}",
        "act": f"{feature if name == 'pmsig' else literal}, r{ra}, r{rb}",
    }[form]
    return f"{name} {operands}".strip()


@dataclass(frozen=True)
class Listed:
    """A word of the scratch-pad: code as instructions, data as numbers."""

    address: int
    label: str
    text: str


def listing(image: Image) -> list[Listed]:
    names = {at: name for name, at in (image.words | image.labels).items()}
    first = min(image.lines, default=len(image.scratch))
    rows = []
    for at in range(WORD, first, WORD):
        value = int.from_bytes(image.scratch[at : at + WORD], "little")
        rows.append(Listed(at, names.get(at, ""), f".word {value}"))
    for at in range(first, len(image.scratch), INSTRUCTION):
        word = int.from_bytes(image.scratch[at : at + INSTRUCTION], "little")
        rows.append(Listed(at, names.get(at, ""), disassemble(word, at)))
    return rows
