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
