# cmake --install: programs, libraries, public headers under include/dragonn/ (cmake/DragonnPublicHeaders.cmake), and the
# package that find_package(dragonn) finds, with one target per folder (dragonn::core ... dragonn::report). Included last, when
# all folders are declared.
include(CMakePackageConfigHelpers)

get_property(DRAGONN_LIBRARIES GLOBAL PROPERTY DRAGONN_INSTALL_TARGETS)
get_property(DRAGONN_PROGRAMS GLOBAL PROPERTY DRAGONN_INSTALL_PROGRAMS)

if(DRAGONN_CUDA)
  list(APPEND DRAGONN_LIBRARIES dragonn_cuda dragonn_nccl)
endif()
install(TARGETS dragonn_options dragonn_onednn ${DRAGONN_LIBRARIES} EXPORT dragonnTargets)
install(TARGETS ${DRAGONN_PROGRAMS} COMPONENT runtime)
foreach(HEADER IN LISTS DRAGONN_PUBLIC_HEADERS)
  cmake_path(GET HEADER PARENT_PATH FOLDER)
  set(PUBLIC_HEADER "${PROJECT_BINARY_DIR}/public/dragonn/${HEADER}")
  file(CONFIGURE OUTPUT "${PUBLIC_HEADER}" CONTENT "#pragma once\n#include \"${HEADER}\"\n")
  install(FILES "${PUBLIC_HEADER}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/dragonn/${FOLDER}")
endforeach()
# Which headers these include is found when they are installed.
install(CODE "
  include(\"${PROJECT_SOURCE_DIR}/cmake/DragonnPublicHeaders.cmake\")
  dragonn_with_included(HEADERS \"${PROJECT_SOURCE_DIR}\" \${DRAGONN_PUBLIC_HEADERS})
  foreach(HEADER IN LISTS HEADERS)
    cmake_path(GET HEADER PARENT_PATH FOLDER)
    file(INSTALL \"${PROJECT_SOURCE_DIR}/\${HEADER}\"
      DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/dragonn/detail/\${FOLDER}\")
  endforeach()")

if(DRAGONN_FAULT_POINTS)
  install(CODE "message(NOTICE \"These programs have fault points, for tests: DRAGONN_FAULT_POINTS=OFF builds them without\")"
    ALL_COMPONENTS)
endif()

set(PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/dragonn")
install(EXPORT dragonnTargets NAMESPACE dragonn:: DESTINATION "${PACKAGE_DIR}")
configure_package_config_file(cmake/dragonnConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/dragonnConfig.cmake"
  INSTALL_DESTINATION "${PACKAGE_DIR}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/dragonnConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/dragonnConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/dragonnConfigVersion.cmake" cmake/DragonnPlugin.cmake DESTINATION "${PACKAGE_DIR}")
install(FILES LICENSE README.md CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT runtime)
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT runtime)
install(DIRECTORY configs DESTINATION "${CMAKE_INSTALL_DATADIR}/dragonn" COMPONENT runtime)
include(DragonnPages)
include(DragonnPackages)
