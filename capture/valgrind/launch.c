/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Starts the capture tool that lies beside this program, with the same arguments. Valgrind starts
   the children of a target through it as well (VALGRIND_LAUNCHER), so it also meets programs that
   the tool cannot run: those are started as they are, and a file in the session folder says so. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOOL "stallscope-amd64-linux"

/* True for scripts too: the tool follows their interpreter. */
static int can_run(const char* program) {
  unsigned char head[20] = {0};
  int fd = open(program, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 1; /* let the tool say what is wrong */
  ssize_t got = read(fd, head, sizeof head);
  close(fd);
  if (got < (ssize_t)sizeof head || memcmp(head, ELFMAG, SELFMAG) != 0) return 1;
  return head[EI_CLASS] == ELFCLASS64 && head[18] == EM_X86_64 && head[19] == 0;
}

static void note_unrecorded(const char* folder, const char* program) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/unrecorded-%d", folder, (int)getpid()) >= PATH_MAX) return;
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return;
  ssize_t ignored = write(fd, program, strlen(program));
  (void)ignored;
  close(fd);
}

/* The recorder holds a lock while it lives, and takes the folder along when it goes. */
static int recorder_listens(const char* folder) {
  char path[PATH_MAX];
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (snprintf(path, sizeof path, "%s/recorder.lock", folder) >= PATH_MAX) return 0;
  int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return 0;
  int listens = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(fd);
  return listens;
}

static int run_unrecorded(char** argv) {
  unsetenv("VALGRIND_LIB");
  unsetenv("VALGRIND_LAUNCHER");
  execv(argv[0], argv);
  fprintf(stderr, "stallscope: cannot run %s: %s\n", argv[0], strerror(errno));
  return 126;
}

int main(int argc, char** argv) {
  char self[PATH_MAX], tool[PATH_MAX + 32];
  const char* folder = NULL;
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length < 0) {
    perror("stallscope: /proc/self/exe");
    return 125;
  }
  self[length] = 0;
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--ss-folder=", 12) == 0) folder = argv[i] + 12;
    if (argv[i][0] == '-') continue;
    if (folder && !recorder_listens(folder)) return run_unrecorded(argv + i);
    if (folder && !can_run(argv[i])) {
      note_unrecorded(folder, argv[i]);
      return run_unrecorded(argv + i);
    }
    break;
  }
  setenv("VALGRIND_LAUNCHER", self, 1);
  *strrchr(self, 47) = 0;
  setenv("VALGRIND_LIB", self, 1);
  snprintf(tool, sizeof tool, "%s/%s", self, TOOL);
  execv(tool, argv);
  fprintf(stderr, "stallscope: cannot start %s: %s\n", tool, strerror(errno));
  return 125;
}
