# Every dependency comes from the distribution (scripts/install_deps.sh); nothing is downloaded at configure time.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
# The C interface, found through the C++ compiler: neither this project nor one that uses it has to enable C.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(doctest REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)

# The distribution's oneDNN package configuration asks for OpenCL headers that the CPU engine does not need.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(dragonn_onednn INTERFACE)
add_library(dragonn::onednn ALIAS dragonn_onednn)
target_include_directories(dragonn_onednn SYSTEM INTERFACE $<BUILD_INTERFACE:${DNNL_INCLUDE_DIR}>)
target_link_libraries(dragonn_onednn INTERFACE dnnl)
