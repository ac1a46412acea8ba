# SPDX-License-Identifier: Apache-2.0
"""What pictures are drawn with. A medium has `draw(picture, suffix) -> bytes`."""
