// SPDX-License-Identifier: Apache-2.0
// Linker names as rustc makes them, without rustc: legacy and v0.
__attribute__((noinline)) int legacy(int x) __asm__(
    "_ZN5crate6module8function17h0123456789abcdefE");
int legacy(int x) { return x + 1; }
__attribute__((noinline)) int modern(int x) __asm__("_RNvNtCs1234_7mycrate3foo3bar");
int modern(int x) { return x + 2; }
int rust_static[4] __asm__("_ZN5crate6module6STATIC17h0123456789abcdefE");

int main(int count, char** words) { return legacy(count) + modern(count) + rust_static[count & 3]; }
