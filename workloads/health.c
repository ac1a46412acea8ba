// SPDX-License-Identifier: Apache-2.0
// Linked lists of lists: villages in a list, each with a list of patients. A day is one walk over
// all of them; a patient whose stay is over moves to the next village, so that neighbours in a list
// are soon anywhere in memory.
//
// health [villages] [patients] [days]
#include "random.h"

struct patient {
  struct patient* next;
  uint64_t days_left, visits, number;
  uint64_t history[4];
};

struct village {
  struct village* next;
  struct patient* patients;
};

NOINLINE static struct patient* make_patient(uint64_t number) {
  struct patient* patient = must(malloc(sizeof *patient));
  *patient = (struct patient){NULL, 1 + scatter(number) % 64, 0, number, {0, 0, 0, 0}};
  return patient;
}

NOINLINE static struct village* make_village(struct village* next) {
  struct village* village = must(malloc(sizeof *village));
  village->next = next;
  village->patients = NULL;
  return village;
}

NOINLINE static struct village* populate(uint64_t villages, uint64_t patients) {
  struct village* first = NULL;
  for (uint64_t i = 0; i < villages; i++) first = make_village(first);
  struct village** all = must(malloc(villages * sizeof *all));
  uint64_t count = 0, state = 7;
  for (struct village* at = first; at != NULL; at = at->next) all[count++] = at;
  for (uint64_t i = 0; i < patients; i++) {
    struct patient* patient = make_patient(i);
    struct village* home = all[next_random(&state) % villages];
    patient->next = home->patients;
    home->patients = patient;
  }
  free(all);
  return first;
}

// One day: everybody is looked at, and those whose stay is over go on to the next village.
NOINLINE static uint64_t day(struct village* first, uint64_t sum) {
  for (struct village* village = first; village != NULL; village = village->next) {
    struct village* onward = village->next != NULL ? village->next : first;
    struct patient** link = &village->patients;
    while (*link != NULL) {
      struct patient* patient = *link;
      sum = sum * 3 + patient->number;
      if (--patient->days_left > 0) {
        link = &patient->next;
        continue;
      }
      patient->days_left = 16 + (patient->number + ++patient->visits) % 64;
      *link = patient->next;
      patient->next = onward->patients;
      onward->patients = patient;
    }
  }
  return sum;
}

NOINLINE static void free_all(struct village* village) {
  while (village != NULL) {
    struct village* next_village = village->next;
    for (struct patient *patient = village->patients, *next; patient != NULL; patient = next) {
      next = patient->next;
      free(patient);
    }
    free(village);
    village = next_village;
  }
}

int main(int argc, char** argv) {
  uint64_t villages = argument(argc, argv, 1, 200), patients = argument(argc, argv, 2, 20000);
  uint64_t days = argument(argc, argv, 3, 20), checksum = 0;
  struct village* first = populate(villages, patients);
  for (uint64_t i = 0; i < days; i++) checksum = day(first, checksum);
  free_all(first);
  printf("health checksum=%llu\n", (unsigned long long)checksum);
  return 0;
}
