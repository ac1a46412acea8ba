// SPDX-License-Identifier: Apache-2.0
// Functions of an assembler, which the compiler's debug information does not know: one with a
// size, one without, and one whose name is no UTF-8.
__asm__(
    ".text\n"
    ".globl sized\n.type sized, @function\n"
    "sized: nop\n nop\n ret\n.size sized, .-sized\n"
    ".globl unsized\n.type unsized, @function\n"
    "unsized: nop\n nop\n ret\n"
    ".globl \"odd\377name\"\n.type \"odd\377name\", @function\n"
    "\"odd\377name\": ret\n.size \"odd\377name\", .-\"odd\377name\"\n");
void sized(void);
void unsized(void);

int main(int count, char** words) {
  sized();
  unsized();
  return count - 1;
}
