# SPDX-License-Identifier: Apache-2.0
# The man page and the completions, where a prefix has them; they are data files of the wheel.
file(GLOB VERBS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/stallscope/cli/*.py)
add_custom_command(
  OUTPUT manual.stamp
  COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/manual.py ${PROJECT_SOURCE_DIR}/src
          $<TARGET_FILE_DIR:_engine> ${CMAKE_CURRENT_BINARY_DIR}/manual
  COMMAND ${CMAKE_COMMAND} -E touch manual.stamp
  DEPENDS _engine ${VERBS} ${PROJECT_SOURCE_DIR}/cmake/manual.py
  COMMENT "Writing the man page and the completions")
add_custom_target(stallscope_manual ALL DEPENDS manual.stamp)
install(DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/manual/share DESTINATION ${SKBUILD_DATA_DIR} COMPONENT stallscope)
