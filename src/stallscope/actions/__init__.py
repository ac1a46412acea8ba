# SPDX-License-Identifier: Apache-2.0
"""What carries results back into the world, and can undo it."""
