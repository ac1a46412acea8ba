# SPDX-License-Identifier: Apache-2.0
"""What pyelftools says about a small program: slow, simple, and written by others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from elftools.dwarf.descriptions import describe_form_class
from elftools.elf.elffile import ELFFile


class Frame(NamedTuple):
    function: str
    line: int
    inlined: bool


class Variable(NamedTuple):
    name: str
    size: int
    line: int


class Member(NamedTuple):
    name: str
    offset: int
    size: int
    bit_offset: int
    bit_size: int


class Layout(NamedTuple):
    size: int
    members: list[Member]


COMPOSITES = ("DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type")


class Row(NamedTuple):
    address: int
    line: int
    file: str
    ends: bool


class Oracle:
    def __init__(self, path: Path) -> None:
        self.stream = path.open("rb")
        self.elf = ELFFile(self.stream)
        self.dwarf = self.elf.get_dwarf_info()
        self.ranges = self.dwarf.range_lists()

    def segments(self) -> list[tuple[int, int, int, int]]:
        return [
            (s["p_vaddr"], s["p_offset"], s["p_filesz"], s["p_memsz"])
            for s in self.elf.iter_segments("PT_LOAD")
        ]

    def functions(self) -> dict[str, tuple[int, int]]:
        """First and last address of every function with debug information."""
        found = {}
        for unit in self.dwarf.iter_CUs():
            for entry in unit.iter_DIEs():
                ranges = self.ranges_of(entry) if entry.tag == "DW_TAG_subprogram" else []
                if ranges:
                    found[self.name_of(entry)] = max(ranges, key=lambda r: r[1] - r[0])
        return found

    def frames(self, address: int) -> list[Frame]:
        """Innermost first."""
        for unit in self.dwarf.iter_CUs():
            chain = self.chain(unit.get_top_DIE(), address)
            if chain:
                row = self.row(unit, address)
                return self.frames_of(chain, row.line if row else 0)
        return []

    def frames_of(self, chain: list[Any], line: int) -> list[Frame]:
        frames = []
        for entry in reversed(chain):
            inlined = entry.tag == "DW_TAG_inlined_subroutine"
            frames.append(Frame(self.name_of(entry), line, inlined))
            if inlined:
                line = entry.attributes["DW_AT_call_line"].value
        return frames

    def chain(self, entry: Any, address: int) -> list[Any]:
        for child in entry.iter_children():
            deeper = self.chain(child, address)
            if child.tag in ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine"):
                if any(low <= address < high for low, high in self.ranges_of(child)):
                    return [child, *deeper]
            elif deeper:
                return deeper
        return []

    def row(self, unit: Any, address: int) -> Row | None:
        for sequence in self.sequences(unit):
            if sequence[0].address <= address < sequence[-1].address:
                return sequence[bisect_right([r.address for r in sequence], address) - 1]
        return None

    def sequences(self, unit: Any) -> Iterator[list[Row]]:
        program = self.dwarf.line_program_for_CU(unit)
        names = [entry.name.decode() for entry in program.header["file_entry"]]
        base = 0 if program.header["version"] >= 5 else 1
        rows: list[Row] = []
        for entry in program.get_entries():
            state = entry.state
            if state is None:
                continue
            name = names[state.file - base] if state.file - base < len(names) else ""
            rows.append(Row(state.address, state.line, name, state.end_sequence))
            if state.end_sequence:
                yield rows
                rows = []

    def ranges_of(self, entry: Any) -> list[tuple[int, int]]:
        attributes = entry.attributes
        if "DW_AT_ranges" in attributes:
            return self.listed_ranges(entry)
        if "DW_AT_low_pc" not in attributes or "DW_AT_high_pc" not in attributes:
            return []
        low = attributes["DW_AT_low_pc"].value
        high = attributes["DW_AT_high_pc"]
        is_offset = describe_form_class(high.form) == "constant"
        return [(low, low + high.value if is_offset else high.value)]

    def listed_ranges(self, entry: Any) -> list[tuple[int, int]]:
        top = entry.cu.get_top_DIE().attributes
        base = top["DW_AT_low_pc"].value if "DW_AT_low_pc" in top else 0
        found = []
        for item in self.ranges.get_range_list_at_offset(
            entry.attributes["DW_AT_ranges"].value, cu=entry.cu
        ):
            if hasattr(item, "base_address"):
                base = item.base_address
            else:
                shift = 0 if getattr(item, "is_absolute", False) else base
                found.append((item.begin_offset + shift, item.end_offset + shift))
        return found

    def attribute(self, entry: Any, name: str) -> Any:
        while entry is not None:
            if name in entry.attributes:
                return entry, entry.attributes[name]
            for origin in ("DW_AT_abstract_origin", "DW_AT_specification"):
                if origin in entry.attributes:
                    entry = entry.get_DIE_from_attribute(origin)
                    break
            else:
                return None, None
        return None, None

    def name_of(self, entry: Any) -> str:
        _, found = self.attribute(entry, "DW_AT_name")
        return found.value.decode() if found else ""

    def variables(self) -> dict[int, Variable]:
        found: dict[int, Variable] = {}
        for unit in self.dwarf.iter_CUs():
            for entry in unit.iter_DIEs():
                address = self.address_of(entry) if entry.tag == "DW_TAG_variable" else None
                if address is None:
                    continue
                holder, _ = self.attribute(entry, "DW_AT_type")
                _, line = self.attribute(entry, "DW_AT_decl_line")
                size = self.size_of(holder.get_DIE_from_attribute("DW_AT_type"))
                found[address] = Variable(self.name_of(entry), size, line.value if line else 0)
        return found

    def address_of(self, entry: Any) -> int | None:
        location = entry.attributes.get("DW_AT_location")
        if location is None or location.form not in ("DW_FORM_exprloc", "DW_FORM_block1"):
            return None
        expression = bytes(location.value)
        is_address = len(expression) == 9 and expression[0] == 0x03
        return int.from_bytes(expression[1:], "little") if is_address else None

    def size_of(self, entry: Any) -> int:
        if "DW_AT_byte_size" in entry.attributes:
            return int(entry.attributes["DW_AT_byte_size"].value)
        count = 1
        if entry.tag == "DW_TAG_array_type":
            for child in entry.iter_children():
                count *= child.attributes["DW_AT_upper_bound"].value + 1
        return count * self.size_of(entry.get_DIE_from_attribute("DW_AT_type"))

    def layouts(self) -> dict[str, Layout]:
        """Every struct, class and union with a name, by its plain name."""
        found = {}
        for unit in self.dwarf.iter_CUs():
            for entry in unit.iter_DIEs():
                if entry.tag not in COMPOSITES or "DW_AT_declaration" in entry.attributes:
                    continue
                if "DW_AT_name" in entry.attributes:
                    found[entry.attributes["DW_AT_name"].value.decode()] = self.layout(entry)
        return found

    def layout(self, entry: Any) -> Layout:
        members = [self.member(c) for c in entry.iter_children() if self.is_member(c)]
        size = entry.attributes["DW_AT_byte_size"].value
        is_union = entry.tag == "DW_TAG_union_type"
        return Layout(size, members if is_union else sorted(members, key=lambda m: m.offset))

    def is_member(self, entry: Any) -> bool:
        attributes = entry.attributes
        if "DW_AT_external" in attributes or "DW_AT_declaration" in attributes:
            return False
        if entry.tag == "DW_TAG_inheritance":
            return "DW_AT_virtuality" not in attributes
        return bool(entry.tag == "DW_TAG_member")

    def member(self, entry: Any) -> Member:
        attributes = entry.attributes
        name = attributes["DW_AT_name"].value.decode() if "DW_AT_name" in attributes else ""
        offset = 0
        if "DW_AT_data_member_location" in attributes:
            offset = self.constant(attributes["DW_AT_data_member_location"].value)
        size = self.whole_size(entry.get_DIE_from_attribute("DW_AT_type"))
        if "DW_AT_bit_size" not in attributes:
            return Member(name, offset, size, 0, 0)
        bits = attributes["DW_AT_bit_size"].value
        if "DW_AT_data_bit_offset" in attributes:
            first = attributes["DW_AT_data_bit_offset"].value
        else:
            unit = attributes["DW_AT_byte_size"].value if "DW_AT_byte_size" in attributes else size
            first = 8 * offset + 8 * unit - attributes["DW_AT_bit_offset"].value - bits
        last = first + bits - 1
        return Member(name, first // 8, last // 8 - first // 8 + 1, first % 8, bits)

    def constant(self, value: Any) -> int:
        """A number, or DW_OP_plus_uconst and one, as DWARF 2 has it."""
        if isinstance(value, int):
            return value
        assert value[0] == 0x23
        return sum((byte & 0x7F) << 7 * i for i, byte in enumerate(value[1:]))

    def whole_size(self, entry: Any) -> int:
        """As size_of, also of pointers without a size and arrays without an end."""
        if "DW_AT_byte_size" in entry.attributes:
            return int(entry.attributes["DW_AT_byte_size"].value)
        if entry.tag in ("DW_TAG_pointer_type", "DW_TAG_reference_type"):
            return 8
        count = 1
        if entry.tag == "DW_TAG_array_type":
            for child in entry.iter_children():
                upper = child.attributes.get("DW_AT_upper_bound")
                exact = child.attributes.get("DW_AT_count")
                count *= exact.value if exact else upper.value + 1 if upper else 0
        return count * self.whole_size(entry.get_DIE_from_attribute("DW_AT_type"))
