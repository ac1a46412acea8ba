// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

namespace nb = nanobind;

namespace stallscope {
namespace {
nb::handle engine_error;
}

void bind_errors(nb::module_& m) {
  engine_error = PyErr_NewExceptionWithDoc("stallscope._engine.EngineError",
                                           "An error of the engine; args are (what, why, now).",
                                           PyExc_RuntimeError, nullptr);
  m.attr("EngineError") = engine_error;
}

void raise(const Error& error) {
  nb::object args = nb::make_tuple(nb::str(error.what.c_str(), error.what.size()),
                                   nb::str(error.why.c_str(), error.why.size()),
                                   nb::str(error.now.c_str(), error.now.size()));
  PyErr_SetObject(engine_error.ptr(), args.ptr());
  throw nb::python_error();
}

}  // namespace stallscope
