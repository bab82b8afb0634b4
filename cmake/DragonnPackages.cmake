# Packages of Debian, by `cpack -G DEB` in the build folder: dragonn (programs, manual pages, completions, configs, documents) and
# dragonn-dev (libraries, headers, find_package). scripts/package_test.sh installs them in an empty system.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_CONTACT "The dragonn authors <dragonn@localhost>")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL runtime dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Distributed sparsified SGD trainer
 Trains neural networks data-parallel over networks that are too slow for
 dense gradients: dragonn, dragonn-train, dragonn-bench and dragonn-compare.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME dragonn)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "openmpi-bin")

set(CPACK_COMPONENT_DEV_DESCRIPTION "Distributed sparsified SGD trainer, libraries and headers
 For projects that add models or methods: find_package(dragonn) in CMake.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME dragonn-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS ON)  # of shared libraries, where there are some
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
# The libraries that the build uses, as scripts/install_deps.sh names them.
file(READ "${PROJECT_SOURCE_DIR}/scripts/install_deps.sh" DEV_PACKAGES)
string(REGEX MATCHALL "[a-z0-9.+-]+-dev=" DEV_PACKAGES "${DEV_PACKAGES}")
list(TRANSFORM DEV_PACKAGES REPLACE "=" "")
list(FILTER DEV_PACKAGES EXCLUDE REGEX "^(libcli11|doctest|libomp|libfuzzer)")
list(JOIN DEV_PACKAGES ", " DEV_PACKAGES)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "cmake (>= 3.24), pkg-config, ${DEV_PACKAGES}")
include(CPack)
