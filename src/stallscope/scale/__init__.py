# SPDX-License-Identifier: Apache-2.0
"""Many machines, many recordings, many hosts: sweeps, shards, the agent, fleets."""
