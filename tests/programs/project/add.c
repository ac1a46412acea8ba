// SPDX-License-Identifier: Apache-2.0
#include "project.h"

int add(int left, int right) { return left + right; }
