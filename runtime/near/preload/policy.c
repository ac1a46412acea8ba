// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "policy.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 4096, MOST_SITES = SLOTS / 2, MOST_BYTES = 1 << 18 };

static struct policy_site sites[SLOTS];
static unsigned count;

struct wanted {
  char id[2 * RULE_MOST_ID + 1];
  uintptr_t bias;
  bool found;
};

static struct policy_site* slot_of(uintptr_t address) {
  unsigned slot = (unsigned)(address * 0x9e3779b97f4a7c15u >> 52);
  while (sites[slot].address != 0 && sites[slot].address != address) slot = (slot + 1) % SLOTS;
  return &sites[slot];
}

struct policy_site* policy_find(const void* address) {
  if (count == 0) return NULL;
  struct policy_site* site = slot_of((uintptr_t)address);
  return site->address ? site : NULL;
}

bool policy_exists(void) { return count > 0; }

static bool note_is(const char* note, const char* end, const char* id) {
  while (end - note >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
    const ElfW(Nhdr)* head = (const ElfW(Nhdr)*)note;
    const char* name = note + sizeof *head;
    const unsigned char* bytes = (const unsigned char*)name + (head->n_namesz + 3) / 4 * 4;
    if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 && head->n_descsz <= RULE_MOST_ID) {
      char hex[2 * RULE_MOST_ID + 1] = "";
      for (unsigned i = 0; i < head->n_descsz; i++) snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
      if (strcmp(hex, id) == 0) return true;
    }
    note = (const char*)bytes + (head->n_descsz + 3) / 4 * 4;
  }
  return false;
}

static int look_at(struct dl_phdr_info* module, size_t size, void* data) {
  struct wanted* wanted = data;
  (void)size;
  for (int i = 0; i < module->dlpi_phnum && !wanted->found; i++) {
    const ElfW(Phdr)* part = &module->dlpi_phdr[i];
    if (part->p_type != PT_NOTE) continue;
    const char* note = (const char*)(module->dlpi_addr + part->p_vaddr);
    wanted->found = note_is(note, note + part->p_memsz, wanted->id);
    wanted->bias = module->dlpi_addr;
  }
  return wanted->found;
}

// A site of a module that is not loaded is no fault: a policy may be of several programs.
static bool add_rule(const struct rule* rule, void* data) {
  struct wanted* wanted = data;
  if (strcmp(rule->module, wanted->id) != 0) {
    *wanted = (struct wanted){.found = false};
    strcpy(wanted->id, rule->module);
    dl_iterate_phdr(look_at, wanted);
  }
  if (!wanted->found) return true;
  struct policy_site* site = slot_of(wanted->bias + rule->offset);
  if (site->address == 0) {
    if (count == MOST_SITES) return false;
    *site = (struct policy_site){.address = wanted->bias + rule->offset, .rule = rule_none()};
    count++;
  }
  rule_add(&site->rule, rule);
  return true;
}

static void refuse(const char* path, int line, const char* why) {
  fprintf(stderr, "stallscope: the policy %s is not used\n  line %d: %s\n", path, line, why);
  memset(sites, 0, sizeof sites);
  count = 0;
}

static void parse(const char* path, char* text) {
  struct wanted wanted = {.found = false};
  struct rule_fault fault = rules_read(text, add_rule, &wanted);
  if (fault.line) refuse(path, fault.line, fault.why);
}

void policy_read(const char* path) {
  static char text[MOST_BYTES];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = 0, got = 0;
  if (file >= 0) {
    while (length < MOST_BYTES - 1 &&
           (got = read(file, text + length, MOST_BYTES - 1 - (size_t)length)) > 0)
      length += got;
    close(file);
  }
  text[length] = '\0';
  if (file < 0 || got < 0)
    refuse(path, 0, "it cannot be read");
  else if (length == MOST_BYTES - 1)
    refuse(path, 0, "it is longer than 256 KiB");
  else
    parse(path, text);
}
