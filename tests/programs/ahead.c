// SPDX-License-Identifier: Apache-2.0
// Waits for memory in a list or in a gather, while something happens that prefetch code must
// survive. Prints only what does not depend on time.
//
// ahead plain|fork|exec|signals|threads|longjmp|garbage|divide|exit|kill|library [milliseconds]
//   [gather]
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NODES 400000
#define NOINLINE __attribute__((noinline))

struct node {
  struct node* next;
  uint64_t value, room[6];
};

static struct node* nodes;
static uint32_t* order;
static uint64_t milliseconds = 1800;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void make(void) {
  nodes = calloc(NODES, sizeof *nodes);
  order = calloc(NODES, sizeof *order);
  uint64_t state = 1;
  for (uint32_t i = 0; i < NODES; i++) order[i] = i;
  for (uint32_t i = NODES - 1; i > 0; i--) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint32_t j = (uint32_t)((state >> 33) % (i + 1)), held = order[i];
    order[i] = order[j];
    order[j] = held;
  }
  for (uint32_t i = 0; i < NODES; i++) {
    nodes[order[i]].value = i;
    nodes[order[i]].next = i + 1 < NODES ? &nodes[order[i + 1]] : NULL;
  }
}

NOINLINE static uint64_t walk(const struct node* node) {
  uint64_t sum = 0;
  for (; node != NULL; node = node->next) sum += node->value;
  return sum;
}

NOINLINE static uint64_t gather(const uint32_t* which, const struct node* from, uint64_t count) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; i++) sum += from[which[i]].value;
  return sum;
}

static uint64_t expected(void) { return (uint64_t)NODES * (NODES - 1) / 2; }

static int gathers;  // else it walks

// One of the loops until the time is over; whether every sum was right.
static int work(uint64_t time) {
  int right = 1;
  for (double end = now() + (double)time; now() < end;)
    right = right && (gathers ? gather(order, nodes, NODES) : walk(&nodes[order[0]])) == expected();
  return right;
}

static volatile sig_atomic_t ticks;
static sigjmp_buf away;
static int jumping;

static void on_tick(int number) {
  (void)number;
  ticks = ticks + 1;
  if (jumping && ticks % 8 == 0) siglongjmp(away, 1);
}

static void on_fault(int number) {
  (void)number;
  siglongjmp(away, 2);
}

static void tick_every(long microseconds) {
  struct itimerval often = {{0, microseconds}, {0, microseconds}};
  signal(SIGALRM, on_tick);
  setitimer(ITIMER_REAL, &often, NULL);
}

static volatile int* volatile wrong = (int*)8;

static int signals(void) {
  tick_every(2000);
  int right = work(milliseconds), caught = 0;
  struct sigaction action = {.sa_handler = on_fault}, before;
  sigaction(SIGSEGV, &action, &before);
  if (sigsetjmp(away, 1) == 0)
    *wrong = 1;
  else
    caught = 1;
  printf("signals right=%d ticked=%d caught=%d default=%d\n", right, ticks > 0, caught,
         before.sa_handler == SIG_DFL);
  return 0;
}

static int jumps(void) {
  double end = now() + (double)milliseconds;
  jumping = 1;
  sigsetjmp(away, 1);
  tick_every(3000);
  while (now() < end) work(50);
  jumping = 0;
  printf("longjmp right=%d\n", work(100));
  return 0;
}

static void* worker(void* unused) {
  (void)unused;
  for (;;) {
    gather(order, nodes, NODES);
    pthread_testcancel();
    walk(nodes);
  }
  return NULL;
}

static int threads(void) {
  for (double end = now() + (double)milliseconds; now() < end;) {
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    work(100);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
  }
  printf("threads right=%d\n", work(50));
  return 0;
}

static int forks(void) {
  int right = work(milliseconds / 2);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(work(300) ? 42 : 1);
  right = right && work(400);
  int status = 0;
  pid_t ended = waitpid(-1, &status, 0), more = waitpid(-1, NULL, 0);
  printf("fork right=%d child=%d status=%d others=%d\n", right, ended == child, WEXITSTATUS(status),
         (int)more);
  return 0;
}

static int executes(char** argv) {
  work(milliseconds);
  execl("/proc/self/exe", argv[0], "plain", "200", (char*)NULL);
  return 1;
}

// What is stored just before is not seen by a slice of the machine code: it reads what was there
// earlier, and goes to places that are not there.
static volatile uint64_t keys[64];
NOINLINE static uint64_t hidden_walk(const struct node* start) {
  uint64_t sum = 0, turn = 1;
  for (const struct node* node = start; node != NULL; turn++) {
    sum += node->value;
    keys[turn & 63] = turn << 40;
    uint64_t hidden = (uint64_t)node->next ^ (turn << 40);
    node = (const struct node*)(hidden ^ keys[turn & 63]);
  }
  return sum;
}

static int garbage(void) {
  int right = 1;
  for (double end = now() + (double)milliseconds; now() < end;)
    right = right && hidden_walk(&nodes[order[0]]) == expected();
  printf("garbage right=%d\n", right);
  return 0;
}

// Behind the last size there is none: computed ahead, the remainder divides by zero.
NOINLINE static uint64_t remainders(const uint32_t* which, const uint32_t* sizes, uint64_t count) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; i++) sum += nodes[which[i] % sizes[i]].value;
  return sum;
}

static volatile int zero;

static int divide(void) {
  uint32_t* sizes = calloc(NODES + 4096, sizeof *sizes);
  for (uint32_t i = 0; i < NODES; i++) sizes[i] = NODES;
  volatile int right = 1, caught = 0;
  for (double end = now() + (double)milliseconds; now() < end;)
    right = right && remainders(order, sizes, NODES) == expected();
  signal(SIGFPE, on_fault);
  if (sigsetjmp(away, 1) == 0)
    right += 7 / zero;
  else
    caught = 1;
  printf("divide right=%d caught=%d\n", right, caught);
  free(sizes);
  return 0;
}

typedef uint64_t (*walk_fn)(const void*);

static int library(void) {
  int right = 1;
  for (int turn = 0; turn < 3; turn++) {
    void* plugin = dlopen("ahead_plugin.so", RTLD_NOW);
    if (plugin == NULL) return 3;
    walk_fn far_walk = (walk_fn)dlsym(plugin, "plugin_walk");
    for (double end = now() + (double)milliseconds / 2; now() < end;)
      right = right && far_walk(&nodes[order[0]]) == expected();
    dlclose(plugin);
  }
  printf("library right=%d\n", right);
  return 0;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "plain";
  if (argc > 2) milliseconds = strtoull(argv[2], NULL, 10);
  gathers = argc > 3;
  make();
  if (strcmp(mode, "fork") == 0) return forks();
  if (strcmp(mode, "exec") == 0) return executes(argv);
  if (strcmp(mode, "signals") == 0) return signals();
  if (strcmp(mode, "threads") == 0) return threads();
  if (strcmp(mode, "longjmp") == 0) return jumps();
  if (strcmp(mode, "garbage") == 0) return garbage();
  if (strcmp(mode, "divide") == 0) return divide();
  if (strcmp(mode, "library") == 0) return library();
  int right = work(milliseconds);
  printf("%s right=%d\n", mode, right);
  fflush(stdout);
  if (strcmp(mode, "kill") == 0) raise(SIGKILL);
  if (strcmp(mode, "abort") == 0) abort();
  exit(strcmp(mode, "exit") == 0 ? 7 : 0);
}
