// SPDX-License-Identifier: Apache-2.0
// The threads of a process that runs.
#pragma once

#include <sys/types.h>

#include <vector>

namespace stallscope::sources {

// Empty when there is no such process, or it has ended.
std::vector<pid_t> tasks_of(pid_t process);

}  // namespace stallscope::sources
