# dragonn_precompile(TARGET [PROGRAM | TEST] [OPENMP]): with DRAGONN_PCH the headers that most files include are read once
# for all targets of one kind, and not in each file.
#
# They stand before every file, so a missing #include goes unseen: presets without DRAGONN_PCH (tsan, debug) show it. A
# compiler takes such headers only with the options that they were precompiled with, hence the kinds: a folder's archive, a
# PROGRAM or a TEST, which has doctest, each with OPENMP or without. Headers of this project do not belong here: a change of
# one would compile everything anew.
set(DRAGONN_PRECOMPILED_HEADERS <algorithm> <array> <cmath> <cstddef> <cstdint> <filesystem> <functional> <limits> <map>
  <memory> <numeric> <optional> <span> <string> <string_view> <utility> <variant> <vector> <fmt/format.h>)

function(dragonn_precompile TARGET)
  if(NOT DRAGONN_PCH)
    return()
  endif()
  cmake_parse_arguments(ARG "PROGRAM;TEST;OPENMP" "" "" ${ARGN})
  set(NAME dragonn_precompiled)
  set(HEADERS ${DRAGONN_PRECOMPILED_HEADERS})
  set(LIBRARIES dragonn_options fmt::fmt)
  set(POSITION_INDEPENDENT ON)
  if(ARG_TEST)
    string(APPEND NAME "_test")
    list(APPEND HEADERS <doctest/doctest.h>)
    list(APPEND LIBRARIES doctest::doctest)
    set(POSITION_INDEPENDENT OFF)
  elseif(ARG_PROGRAM)
    string(APPEND NAME "_program")
    set(POSITION_INDEPENDENT OFF)
  endif()
  if(ARG_OPENMP)
    string(APPEND NAME "_openmp")
    list(APPEND LIBRARIES OpenMP::OpenMP_CXX)
  endif()
  if(NOT TARGET ${NAME})
    dragonn_add_precompiled(${NAME} ${POSITION_INDEPENDENT} "${HEADERS}" "${LIBRARIES}")
  endif()
  target_precompile_headers(${TARGET} REUSE_FROM ${NAME})
  dragonn_name_precompiled(${TARGET})
endfunction()

# Declares the target that precompiles HEADERS for all targets of a kind. It has to have a source.
function(dragonn_add_precompiled NAME POSITION_INDEPENDENT HEADERS LIBRARIES)
  set(SOURCE "${PROJECT_BINARY_DIR}/precompiled/${NAME}.cpp")
  file(CONFIGURE OUTPUT "${SOURCE}" CONTENT "// Nothing but precompiled headers.\n")
  add_library(${NAME} OBJECT "${SOURCE}")
  set_target_properties(${NAME} PROPERTIES POSITION_INDEPENDENT_CODE ${POSITION_INDEPENDENT})
  target_link_libraries(${NAME} PRIVATE ${LIBRARIES})
  target_precompile_headers(${NAME} PRIVATE ${HEADERS})
  dragonn_name_precompiled(${NAME})
endfunction()

# Preprocessed code then names the precompiled headers: else ccache, which asks for such code, would not notice them.
function(dragonn_name_precompiled TARGET)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${TARGET} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endfunction()
