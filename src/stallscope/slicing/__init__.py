# SPDX-License-Identifier: Apache-2.0
"""From machine code to prefetch slices: steps, loops and traces around a load, slices of them.

Knows neither recordings nor processes: code comes as bytes with how often they ran.
"""
