# SPDX-License-Identifier: Apache-2.0
"""stallscope functions"""

from stallscope.cli.places import places_command

command = places_command("functions", by_line=False)
