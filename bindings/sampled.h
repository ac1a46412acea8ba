// SPDX-License-Identifier: Apache-2.0
// A process image of a recording at native speed, as Python sees it: its facts and its tables.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "sources/sampled.h"

namespace stallscope {

// Once for each image. `started` is when the recording began, for images that do not know better.
nanobind::dict sampled_image(sources::SampledImage& image, std::uint64_t started,
                             bool watched = false);

}  // namespace stallscope
