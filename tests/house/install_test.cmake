# Installs the build into a folder of its own, builds a five-line project against it through find_package(dragonn), and
# checks that the program lists every sparsifier: nothing that registers itself was dropped by the linker. Then builds the
# plug-ins of the examples, and trains with them.
# In: BUILD_DIR, CONSUMER_DIR (the project's sources), EXAMPLES_DIR, WORK_DIR (emptied), GENERATOR, COMPILER, LAUNCHER.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE RESULT OUTPUT_VARIABLE OUTPUT ERROR_VARIABLE OUTPUT)
  if(NOT RESULT EQUAL 0)
    list(JOIN ARGN " " COMMAND_LINE)
    message(FATAL_ERROR "${COMMAND_LINE}: ${RESULT}\n${OUTPUT}")
  endif()
  set(OUTPUT "${OUTPUT}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK_DIR}")
run(${CMAKE_COMMAND} --install "${BUILD_DIR}" --prefix "${WORK_DIR}/prefix")
# Builds a project against what is installed, in build/NAME.
function(build SOURCE NAME)
  run(${CMAKE_COMMAND} -S "${SOURCE}" -B "${WORK_DIR}/build/${NAME}" -G "${GENERATOR}"
    -D "CMAKE_PREFIX_PATH=${WORK_DIR}/prefix" -D "CMAKE_CXX_COMPILER=${COMPILER}"
    -D "CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}")
  run(${CMAKE_COMMAND} --build "${WORK_DIR}/build/${NAME}")
endfunction()

build("${CONSUMER_DIR}" consumer)
run("${WORK_DIR}/build/consumer/consumer")
foreach(NAME topk randomk dgc dragonn)
  if(NOT OUTPUT MATCHES "(^|\n)${NAME}\n")
    message(FATAL_ERROR "the consumer does not list ${NAME}; it printed:\n${OUTPUT}")
  endif()
endforeach()

# A C program finds the shared library by pkg-config, wherever the package lies.
file(GLOB PKGCONFIG_DIR "${WORK_DIR}/prefix/lib*/pkgconfig" "${WORK_DIR}/prefix/lib/*/pkgconfig")
run(sh -c "cc -std=c11 '${CONSUMER_DIR}/../../library/exchange.c' -o '${WORK_DIR}/exchange' -lm \
  $(PKG_CONFIG_PATH='${PKGCONFIG_DIR}' pkg-config --cflags --libs dragonn)")
run(${CMAKE_COMMAND} -E env "LD_LIBRARY_PATH=${PKGCONFIG_DIR}/.." "${WORK_DIR}/exchange")

# The installed program trains with the plug-ins of the examples: two thirds of four classes are far from chance.
foreach(PLUGIN own_model/shortcuts own_sparsifier/every_nth)
  get_filename_component(EXAMPLE ${PLUGIN} DIRECTORY)
  build("${EXAMPLES_DIR}/${EXAMPLE}" ${EXAMPLE})
  run("${WORK_DIR}/prefix/bin/dragonn-train" "${EXAMPLES_DIR}/${PLUGIN}.toml"
    --set "plugins=[\"${WORK_DIR}/build/${PLUGIN}.so\"]" --output "${WORK_DIR}/run/${EXAMPLE}")
  file(READ "${WORK_DIR}/run/${EXAMPLE}/summary.json" SUMMARY)
  string(JSON ACCURACY GET "${SUMMARY}" final test accuracy)
  if(ACCURACY LESS 0.66)
    message(FATAL_ERROR "${EXAMPLE} ends with an accuracy of ${ACCURACY}")
  endif()
endforeach()

# The installed programs run from where they are.
run("${WORK_DIR}/prefix/bin/dragonn-train" --list)
file(REMOVE_RECURSE "${WORK_DIR}")
