# dragonn_add_folder(NAME DEPENDS folder... [PUBLIC library...] [PRIVATE library...] [CUDA library...])
#
# Declares the library of one folder from the .cpp files in it: dragonn_NAME, alias dragonn::NAME. Those below a folder
# cuda/, and .cu files, belong to it with DRAGONN_CUDA only, as do the libraries after CUDA.
# Files register what they offer (methods, models, data sets) in static objects. The linker drops an object file that
# nothing refers to, also through a second static library, so the folder's archive is linked whole by an interface target.
set(DRAGONN_INSTALLED_HEADERS $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/dragonn/detail>)
function(dragonn_add_folder NAME)
  cmake_parse_arguments(ARG "" "" "DEPENDS;PUBLIC;PRIVATE;CUDA;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE SOURCES CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp" "${CMAKE_CURRENT_SOURCE_DIR}/*.cu")
  if(DRAGONN_CUDA)
    list(APPEND ARG_PRIVATE ${ARG_CUDA})
  else()
    list(FILTER SOURCES EXCLUDE REGEX "/cuda/")
  endif()
  foreach(PATTERN IN LISTS ARG_EXCLUDE)
    list(FILTER SOURCES EXCLUDE REGEX "${PATTERN}")
  endforeach()
  set(ARCHIVE dragonn_${NAME}_archive)
  add_library(${ARCHIVE} STATIC ${SOURCES})
  set_target_properties(${ARCHIVE} PROPERTIES OUTPUT_NAME dragonn_${NAME} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${ARCHIVE} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> ${DRAGONN_INSTALLED_HEADERS})
  target_link_libraries(${ARCHIVE} PUBLIC dragonn_options ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  if("OpenMP::OpenMP_CXX" IN_LIST ARG_PRIVATE)
    set(OPENMP OPENMP)
  endif()
  dragonn_precompile(${ARCHIVE} ${OPENMP})
  foreach(FOLDER IN LISTS ARG_DEPENDS)
    target_link_libraries(${ARCHIVE} PUBLIC dragonn_${FOLDER})
  endforeach()
  add_library(dragonn_${NAME} INTERFACE)
  add_library(dragonn::${NAME} ALIAS dragonn_${NAME})
  # TARGET_NAME is what the export rewrites: an installed package names the archive dragonn::NAME_archive.
  target_link_libraries(dragonn_${NAME} INTERFACE "$<LINK_LIBRARY:WHOLE_ARCHIVE,$<TARGET_NAME:${ARCHIVE}>>")
  set_target_properties(${ARCHIVE} PROPERTIES EXPORT_NAME ${NAME}_archive)
  set_target_properties(dragonn_${NAME} PROPERTIES EXPORT_NAME ${NAME})
  set_property(GLOBAL APPEND PROPERTY DRAGONN_INSTALL_TARGETS ${ARCHIVE} dragonn_${NAME})
endfunction()
