// SPDX-License-Identifier: Apache-2.0
/* What a program can tell the recorder about itself. Include this file; there is nothing to link.
 *
 *   STALLSCOPE_START();                      measure from here on
 *   STALLSCOPE_STOP();                       and no further
 *   STALLSCOPE_NAME(pointer, bytes, "name"); call this memory by a name
 *   STALLSCOPE_REGION_BEGIN("name");         code up to the matching end belongs to the region;
 *   STALLSCOPE_REGION_END("name");           regions nest, and each thread has its own
 *   STALLSCOPE_WHEN(condition, "name", v);   when the condition holds, monitors hear of it, with a
 *                                            number
 *   STALLSCOPE_RECORDED()                    1 in a recording, otherwise 0
 *   stallscope::Region region("name");       in C++: a region that ends with the scope
 *
 * Outside a recording each of them is a handful of instructions that change nothing the program can
 * see. They are nothing at all with -DSTALLSCOPE_DISABLED, and on machines other than x86-64 Linux.
 * Arguments are evaluated once in every case. Names are read during the call and need not live
 * longer. Any thread may call any of them.
 */
#ifndef STALLSCOPE_H
#define STALLSCOPE_H

#if !defined(STALLSCOPE_DISABLED) && defined(__x86_64__) && !defined(__ILP32__) && \
    defined(__linux__) && defined(__GNUC__)
#define STALLSCOPE_ACTIVE 1
#else
#define STALLSCOPE_ACTIVE 0
#endif

#if STALLSCOPE_ACTIVE

#include <stddef.h>
#include <stdint.h>

/* Valgrind gives each tool the requests that begin with two letters of its own. */
#define STALLSCOPE_REQUEST_BASE (((uint64_t)'S' << 24) | ((uint64_t)'C' << 16))
#define STALLSCOPE_REQUEST_START (STALLSCOPE_REQUEST_BASE + 0x100)
#define STALLSCOPE_REQUEST_STOP (STALLSCOPE_REQUEST_BASE + 0x101)
#define STALLSCOPE_REQUEST_NAME_BLOCK (STALLSCOPE_REQUEST_BASE + 0x102)
#define STALLSCOPE_REQUEST_REGION_BEGIN (STALLSCOPE_REQUEST_BASE + 0x103)
#define STALLSCOPE_REQUEST_REGION_END (STALLSCOPE_REQUEST_BASE + 0x104)
#define STALLSCOPE_REQUEST_IS_RECORDED (STALLSCOPE_REQUEST_BASE + 0x105)
#define STALLSCOPE_REQUEST_CALLER (STALLSCOPE_REQUEST_BASE + 0x106)
#define STALLSCOPE_REQUEST_WHEN (STALLSCOPE_REQUEST_BASE + 0x107)

/* The instructions below are how a program speaks to Valgrind on x86-64. A processor turns rdi
 * around by 128 bits, so not at all, and exchanges rbx with itself. Valgrind knows the sequence: it
 * finds six words (the request and five arguments) at rax and puts its answer into rdx. */
static inline uint64_t stallscope_request(uint64_t request, uint64_t first, uint64_t second,
                                          uint64_t third) {
  volatile uint64_t message[6];
  uint64_t answer = 0;
  message[0] = request;
  message[1] = first;
  message[2] = second;
  message[3] = third;
  message[4] = 0;
  message[5] = 0;
  __asm__ volatile(
      "rolq $3, %%rdi\n\t"
      "rolq $13, %%rdi\n\t"
      "rolq $61, %%rdi\n\t"
      "rolq $51, %%rdi\n\t"
      "xchgq %%rbx, %%rbx"
      : "+d"(answer)
      : "a"(&message[0])
      : "cc", "memory");
  return answer;
}

/* Through functions with types, so that a wrong argument is the compiler's error. */
static inline void stallscope_name_block(const volatile void* pointer, size_t bytes,
                                         const char* name) {
  (void)stallscope_request(STALLSCOPE_REQUEST_NAME_BLOCK, (uint64_t)(uintptr_t)pointer, bytes,
                           (uint64_t)(uintptr_t)name);
}
static inline void stallscope_region(uint64_t request, const char* name) {
  (void)stallscope_request(request, (uint64_t)(uintptr_t)name, 0, 0);
}

static inline void stallscope_when(int holds, const char* name, uint64_t value) {
  if (holds) (void)stallscope_request(STALLSCOPE_REQUEST_WHEN, (uint64_t)(uintptr_t)name, value, 0);
}

#define STALLSCOPE_START() ((void)stallscope_request(STALLSCOPE_REQUEST_START, 0, 0, 0))
#define STALLSCOPE_STOP() ((void)stallscope_request(STALLSCOPE_REQUEST_STOP, 0, 0, 0))
#define STALLSCOPE_NAME(pointer, bytes, name) stallscope_name_block((pointer), (bytes), (name))
#define STALLSCOPE_REGION_BEGIN(name) stallscope_region(STALLSCOPE_REQUEST_REGION_BEGIN, (name))
#define STALLSCOPE_REGION_END(name) stallscope_region(STALLSCOPE_REQUEST_REGION_END, (name))
#define STALLSCOPE_WHEN(condition, name, value) \
  stallscope_when((condition) ? 1 : 0, (name), (uint64_t)(value))
#define STALLSCOPE_RECORDED() \
  ((int)(stallscope_request(STALLSCOPE_REQUEST_IS_RECORDED, 0, 0, 0) == 1))

#else

#define STALLSCOPE_START() ((void)0)
#define STALLSCOPE_STOP() ((void)0)
#define STALLSCOPE_NAME(pointer, bytes, name) ((void)(pointer), (void)(bytes), (void)(name))
#define STALLSCOPE_REGION_BEGIN(name) ((void)(name))
#define STALLSCOPE_REGION_END(name) ((void)(name))
#define STALLSCOPE_WHEN(condition, name, value) ((void)(condition), (void)(name), (void)(value))
#define STALLSCOPE_RECORDED() (0)

#endif

#ifdef __cplusplus
namespace stallscope {

/* A region of code from here to the end of the scope. The name must live as long as the Region. */
class Region {
 public:
  explicit Region(const char* name) : name_(name) { STALLSCOPE_REGION_BEGIN(name_); }
  ~Region() { STALLSCOPE_REGION_END(name_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  const char* name_;
};

}  // namespace stallscope
#endif

#endif
