# SPDX-License-Identifier: Apache-2.0
"""Stallscope shows where programs lose time in the memory system."""

__version__ = "0.1.0"
