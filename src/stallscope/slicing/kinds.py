# SPDX-License-Identifier: Apache-2.0
"""What kind of load one is: how its address comes from what went before."""

from __future__ import annotations

from iced_x86 import Mnemonic, Register

from stallscope.slicing.slice import Dependences
from stallscope.slicing.trace import Declined, Trace

KINDS = ("stride", "indirect", "chase", "walk", "irregular")
MEANINGS = {
    "stride": "the address grows by the same amount from one run to the next",
    "indirect": "the address is made from what another load got, as in a[b[i]]",
    "chase": "the address comes from the load's own earlier result, as in a list",
    "walk": "a chase that chooses its way or starts anew, as in a tree or a hash table",
    "irregular": "the address is computed in another way, or nothing is known of it",
}
# What keeps a number that grows by steps one that does.
_AFFINE = frozenset(
    (
        *(Mnemonic.MOV, Mnemonic.LEA, Mnemonic.ADD, Mnemonic.SUB, Mnemonic.INC, Mnemonic.DEC),
        *(Mnemonic.MOVSXD, Mnemonic.MOVZX, Mnemonic.MOVSX, Mnemonic.SHL, Mnemonic.SAL),
        *(Mnemonic.IMUL, Mnemonic.PUSH, Mnemonic.POP, Mnemonic.CDQE, Mnemonic.XOR),
    )
)


def kind_of(trace: Trace | Declined) -> str:
    """One of KINDS."""
    if isinstance(trace, Declined):
        return "irregular"
    known = Dependences(trace, frozenset({trace.load}), frozenset())
    before = known.closure(trace.load)
    loads = {at for at in before if known.moves(at)}
    if known.refusal and not loads:
        return "irregular"
    cyclic = {at for at in loads if at in known.closure(at)}
    if cyclic:
        return "walk" if _chooses(known, cyclic, loads - cyclic) else "chase"
    if loads:
        return "indirect"
    plain = all(known.trace.step(at).instruction.mnemonic in _AFFINE for at in before)
    return "stride" if before and plain else "irregular"


def _chooses(known: Dependences, cyclic: set[int], others: set[int]) -> bool:
    """A chain that takes one of several ways, or begins at what a load outside of any chain got."""
    if any(not cyclic & known.closure(at) for at in others):
        return True
    for at in cyclic:
        part = known.trace.step(at).operand()
        if part is not None and part.index != Register.NONE and part.base != Register.NONE:
            return True
    # Ways that a branch chooses: several loads of the cycle can come last before one of them.
    for at in cyclic:
        part = known.trace.step(at).operand()
        for register in part.registers if part is not None else ():
            last = known.definitions(at, register)
            pointers = {one for one in last if one in cyclic}
            places = {
                (step.base, step.displacement)
                for step in (known.trace.step(one).operand() for one in pointers)
                if step is not None
            }
            if len({displacement for _, displacement in places}) > 1:
                return True
    return False
