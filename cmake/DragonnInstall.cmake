# cmake --install: programs, libraries, headers under include/dragonn/, and the package that find_package(dragonn)
# finds, with one target per folder (dragonn::core ... dragonn::report). Included last, when all folders are declared.
include(CMakePackageConfigHelpers)

get_property(DRAGONN_LIBRARIES GLOBAL PROPERTY DRAGONN_INSTALL_TARGETS)
get_property(DRAGONN_PROGRAMS GLOBAL PROPERTY DRAGONN_INSTALL_PROGRAMS)
get_property(DRAGONN_FOLDERS GLOBAL PROPERTY DRAGONN_INSTALL_FOLDERS)

if(DRAGONN_CUDA)
  list(APPEND DRAGONN_LIBRARIES dragonn_cuda dragonn_nccl)
endif()
install(TARGETS dragonn_options dragonn_onednn ${DRAGONN_LIBRARIES} EXPORT dragonnTargets)
install(TARGETS ${DRAGONN_PROGRAMS} COMPONENT runtime)
foreach(FOLDER IN LISTS DRAGONN_FOLDERS)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/${FOLDER}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/dragonn"
    FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "*-inl.h" EXCLUDE PATTERN "cuda" EXCLUDE)
endforeach()

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
