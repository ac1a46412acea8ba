// SPDX-License-Identifier: Apache-2.0
// A machine as Python describes it (stallscope.machines.Machine.to_engine) as the engine takes it.
#pragma once

#include <nanobind/nanobind.h>

#include "machine/config.h"

namespace stallscope {

// Raises EngineError for a choice that the engine does not know; values are checked by
// make_machine.
machine::MachineConfig machine_config_of(const nanobind::dict& machine);

}  // namespace stallscope
