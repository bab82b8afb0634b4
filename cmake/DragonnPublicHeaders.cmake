# The public headers: what plug-ins and other projects include, as <dragonn/core/error.h>. They keep their places in the
# sources. Installed, a header of that name leads to the header itself in dragonn/detail/, where those lie that it includes.
cmake_policy(VERSION 3.24)  # in scripts, too
set(DRAGONN_PUBLIC_HEADERS
  core/archive.h core/buffer.h core/error.h core/plugin.h core/registry.h core/rng.h core/settings.h core/shape.h
  core/sparse_vector.h kernels/devices.h kernels/gradient/select.h layers/graph.h layers/layers.h layers/network.h
  optim/optimizer.h optim/schedule.h codec/indices/index_codec.h codec/values/value_codec.h
  compress/density_schedule.h compress/memory.h compress/sparsifier.h comm/sparse/sparse_collective.h data/dataset.h)

# dragonn_with_included(RESULT SOURCE_DIR HEADER...): the headers and all of this project's that they include, sorted.
function(dragonn_with_included RESULT SOURCE_DIR)
  set(FOUND "")
  set(LEFT ${ARGN})
  while(LEFT)
    list(POP_FRONT LEFT HEADER)
    if(HEADER IN_LIST FOUND OR HEADER STREQUAL "core/plugin_headers.h")  # which is generated
      continue()
    endif()
    list(APPEND FOUND "${HEADER}")
    file(STRINGS "${SOURCE_DIR}/${HEADER}" LINES REGEX "^#include \"")
    list(TRANSFORM LINES REPLACE "^#include \"([^\"]+)\".*" "\\1")
    list(APPEND LEFT ${LINES})
  endwhile()
  list(SORT FOUND)
  set(${RESULT} ${FOUND} PARENT_SCOPE)
endfunction()
