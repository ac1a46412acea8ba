// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

NB_MODULE(_engine, m) {
  m.doc() = "Stallscope's native engine.";
  stallscope::bind_errors(m);
  stallscope::bind_columns(m);
  stallscope::bind_machine(m);
  stallscope::bind_session(m);
  stallscope::bind_sharing(m);
  stallscope::bind_sources(m);
  stallscope::bind_replay(m);
  stallscope::bind_reuse(m);
  stallscope::bind_stream(m);
  stallscope::bind_stack(m);
  stallscope::bind_allocation(m);
  stallscope::bind_code(m);
  stallscope::bind_symbols(m);
  stallscope::bind_touched(m);
  stallscope::bind_types(m);
  stallscope::bind_heap_log(m);
  stallscope::bind_live(m);
  stallscope::bind_loops(m);
  stallscope::bind_watch(m);
  stallscope::bind_system(m);
  stallscope::bind_monitor(m);
  stallscope::bind_pipeline(m);
  stallscope::bind_ahead(m);
}
