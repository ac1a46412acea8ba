// SPDX-License-Identifier: Apache-2.0
// Which memory operations push or take a return address, by decoding the code.
#pragma once

#include <vector>

#include "probes/frames.h"
#include "stream/code_table.h"

namespace stallscope::session {

// Appends what is missing at the end of `steps`, which has one for each operation of whole blocks.
void learn_stack_steps(const stream::CodeTable& code, std::vector<probes::Frames::Step>& steps);

}  // namespace stallscope::session
