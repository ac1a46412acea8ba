# SPDX-License-Identifier: Apache-2.0
"""Speed and size side by side with native runs and peers, as ratios within one run."""
