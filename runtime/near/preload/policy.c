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

enum { SLOTS = 4096, MOST_SITES = SLOTS / 2, MOST_BYTES = 1 << 18, MOST_ID = 64 };

static struct policy_site sites[SLOTS];
static unsigned count;

struct wanted {
  char id[2 * MOST_ID + 1];
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

unsigned policy_next_line(struct policy_site* site) {
  uint32_t made = __atomic_fetch_add(&site->made, 1, __ATOMIC_RELAXED);
  return (site->line + made * site->step) % POLICY_NO_LINE;
}

static bool note_is(const char* note, const char* end, const char* id) {
  while (end - note >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
    const ElfW(Nhdr)* head = (const ElfW(Nhdr)*)note;
    const char* name = note + sizeof *head;
    const unsigned char* bytes = (const unsigned char*)name + (head->n_namesz + 3) / 4 * 4;
    if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 && head->n_descsz <= MOST_ID) {
      char hex[2 * MOST_ID + 1] = "";
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
static bool add_site(const char* line) {
  static struct wanted wanted;
  unsigned long offset, number = POLICY_NO_LINE, step = 0;
  char id[sizeof wanted.id], what[8];
  int used = 0;
  if (sscanf(line, "site %128[0-9a-f]+0x%lx %7s%n", id, &offset, what, &used) != 3) return false;
  bool packed = strcmp(what, "packed") == 0;
  if (!packed && strcmp(what, "line") != 0) return false;
  if (!packed) {
    int more = 0;
    if (sscanf(line + used, " %2lu step %2lu%n", &number, &step, &more) != 2) return false;
    if (number >= POLICY_NO_LINE || step >= POLICY_NO_LINE) return false;
    used += more;
  }
  if (line[used] != '\0') return false;
  if (strcmp(id, wanted.id) != 0) {
    wanted = (struct wanted){.found = false};
    strcpy(wanted.id, id);
    dl_iterate_phdr(look_at, &wanted);
  }
  if (!wanted.found) return true;
  struct policy_site* site = slot_of(wanted.bias + offset);
  if (site->address == 0) {
    if (count == MOST_SITES) return false;
    *site = (struct policy_site){.address = wanted.bias + offset, .line = POLICY_NO_LINE};
    count++;
  }
  if (packed) {
    site->packed = 1;
  } else {
    site->line = (uint8_t)number;
    site->step = (uint8_t)step;
  }
  return true;
}

static void refuse(const char* path, int line, const char* why) {
  fprintf(stderr, "stallscope: the policy %s is not used\n  line %d: %s\n", path, line, why);
  memset(sites, 0, sizeof sites);
  count = 0;
}

static void parse(const char* path, char* text) {
  char* rest = text;
  // The first line is looked at even when there is none.
  for (int number = 1; number == 1 || (rest != NULL && *rest != '\0'); number++) {
    char* line = strsep(&rest, "\n");
    if (number == 1) {
      if (strcmp(line, "stallscope-near-policy 1") != 0) {
        refuse(path, number, "expected: stallscope-near-policy 1");
        return;
      }
    } else if (*line != '\0' && *line != '#' && !add_site(line)) {
      refuse(path, number,
             "expected: site BUILD_ID+0xOFFSET, then packed, or line N step M (0 to 63)");
      return;
    }
  }
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
