# dragonn_add_plugin(NAME SOURCE...): the shared object NAME.so with the components that the sources register, for
# `dragonn-train --plugin`. It is linked with no library of dragonn's: the program that loads it has them.
function(dragonn_add_plugin NAME)
  add_library(${NAME} MODULE ${ARGN})
  set_target_properties(${NAME} PROPERTIES PREFIX "" SUFFIX ".so")
  target_link_libraries(${NAME} PRIVATE dragonn::plugin)
  set(SOURCE "${CMAKE_CURRENT_BINARY_DIR}/${NAME}_plugin.cpp")
  file(CONFIGURE OUTPUT "${SOURCE}" CONTENT "#include <dragonn/core/plugin.h>\nDRAGONN_PLUGIN;\n")
  target_sources(${NAME} PRIVATE "${SOURCE}")
  if(TARGET dragonn_plugin_headers)  # in dragonn's own build
    add_dependencies(${NAME} dragonn_plugin_headers)
  endif()
endfunction()
