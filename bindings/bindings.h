// SPDX-License-Identifier: Apache-2.0
// One bind function per subject, each in a file of its own. No logic here: arguments in, engine
// call, columns out. Long calls release the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include "base/result.h"

namespace stallscope {

void bind_ahead(nanobind::module_& m);
void bind_allocation(nanobind::module_& m);
void bind_columns(nanobind::module_& m);
void bind_errors(nanobind::module_& m);
void bind_machine(nanobind::module_& m);
void bind_replay(nanobind::module_& m);
void bind_reuse(nanobind::module_& m);
void bind_session(nanobind::module_& m);
void bind_sharing(nanobind::module_& m);
void bind_sources(nanobind::module_& m);
void bind_stack(nanobind::module_& m);
void bind_stream(nanobind::module_& m);
void bind_code(nanobind::module_& m);
void bind_symbols(nanobind::module_& m);
void bind_touched(nanobind::module_& m);
void bind_types(nanobind::module_& m);
void bind_heap_log(nanobind::module_& m);
void bind_live(nanobind::module_& m);
void bind_loops(nanobind::module_& m);
void bind_watch(nanobind::module_& m);
void bind_system(nanobind::module_& m);
void bind_monitor(nanobind::module_& m);
void bind_pipeline(nanobind::module_& m);

// Raises stallscope._engine.EngineError(what, why, now).
[[noreturn]] void raise(const Error& error);

template <typename T>
T unwrap(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}

}  // namespace stallscope
