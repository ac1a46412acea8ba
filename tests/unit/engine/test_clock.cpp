// SPDX-License-Identifier: Apache-2.0
// What a person is told when the kernel refuses.
#include <doctest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>

#include "sources/clock.h"

using stallscope::Error;
using stallscope::sources::explain;

namespace {

struct Setting {
  explicit Setting(const std::string& level) {
    close(mkstemp(path.data()));
    std::ofstream(path) << level << "\n";
  }
  ~Setting() { unlink(path.c_str()); }
  std::string path = "/tmp/stallscope-paranoid-XXXXXX";
};

}  // namespace

TEST_CASE("clock: a kernel that lets nobody sample names its setting and the command") {
  const Setting setting("3");
  for (const int error : {EACCES, EPERM}) {
    const Error said = explain(error, 4711, setting.path);
    CHECK(said.what == "the kernel lets nobody sample process 4711");
    CHECK(said.why == "kernel.perf_event_paranoid is 3, and 2 or less is needed");
    CHECK(said.now == "sudo sysctl kernel.perf_event_paranoid=2");
  }
}

TEST_CASE("clock: a kernel that lets others sample points at the user or the container") {
  const Setting setting("2");
  const Error said = explain(EACCES, 4711, setting.path);
  CHECK(said.why.find("another user") != std::string::npos);
  CHECK(said.now.find("--cap-add PERFMON") != std::string::npos);
}

TEST_CASE("clock: other answers have sentences of their own") {
  CHECK(explain(ESRCH, 4711).what == "there is no process 4711");
  CHECK(explain(EMFILE, 4711).now.find("ulimit -n") != std::string::npos);
  CHECK(explain(EOPNOTSUPP, 4711).now == "stallscope doctor");
}

TEST_CASE("clock: an event joins the group of its leader") {
  using stallscope::sources::Descriptor;
  using stallscope::sources::open_event;
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_TASK_CLOCK;
  attributes.exclude_kernel = attributes.exclude_hv = 1;
  const Descriptor leader(open_event(attributes, 0, -1));
  if (leader.get() < 0) return;  // the kernel lets nobody count here
  const Descriptor member(open_event(attributes, 0, -1, leader.get()));
  CHECK(member.get() >= 0);
  CHECK(open_event(attributes, 0, -1, member.get()) == -EINVAL);  // a member leads nobody
  CHECK(open_event(attributes, 0, -1, 0x7fffffff) == -EBADF);
}
