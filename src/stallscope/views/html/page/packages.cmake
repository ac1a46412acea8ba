# SPDX-License-Identifier: Apache-2.0
# Installs what package-lock.json names, nothing else, and runs no scripts of packages.
configure_file(${SOURCE}/package.json ${TO}/package.json COPYONLY)
configure_file(${SOURCE}/package-lock.json ${TO}/package-lock.json COPYONLY)
execute_process(
  COMMAND ${NPM} ci --ignore-scripts --no-audit --no-fund --loglevel=error
  WORKING_DIRECTORY ${TO}
  RESULT_VARIABLE FAILED
  OUTPUT_QUIET)
if(FAILED)
  message(FATAL_ERROR "npm could not fetch the packages of the page, which src/stallscope/views/html/page/package-lock.json names")
endif()
