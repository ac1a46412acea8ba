// SPDX-License-Identifier: Apache-2.0
// A monitor as Python has it, and what became of it.
#pragma once

#include <nanobind/nanobind.h>

#include "monitor/group.h"

namespace stallscope {

monitor::Image monitor_image_of(const nanobind::dict& from);
monitor::Config monitor_config_of(const nanobind::dict& from);
nanobind::dict monitor_state_of(const monitor::Monitor& from);
// The words of its scratch-pad.
nanobind::list monitor_scratch_of(const monitor::Monitor& from);
nanobind::list monitor_acts_of(const monitor::Group& from, std::size_t first = 0);

}  // namespace stallscope
