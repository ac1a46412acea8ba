# SPDX-License-Identifier: Apache-2.0
"""stallscope lines"""

from stallscope.cli.places import places_command

command = places_command("lines", by_line=True)
