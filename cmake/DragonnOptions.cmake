# dragonn_options: the language level, warnings and sanitizers that every target shares.
# SIMD is dispatched at run time (Highway, oneDNN), so nothing here names a processor.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

add_library(dragonn_options INTERFACE)
add_library(dragonn::options ALIAS dragonn_options)
set_target_properties(dragonn_options PROPERTIES EXPORT_NAME options)
target_compile_features(dragonn_options INTERFACE cxx_std_20)
target_compile_options(dragonn_options INTERFACE
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wno-psabi>>
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow,-Wno-psabi>>
  # Results must not depend on the compiler's choice to fuse a multiply with an add.
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>>
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false>>
  # Functions that are constexpr run on both sides: hashes, keys, random numbers.
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>>
  # fmt takes nvcc for a compiler without constexpr.
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-DFMT_USE_CONSTEXPR=1>>)
# Options for code that runs once, as parsing a command line (CLI11) or writing a page. Optimizing it takes longer than it
# saves; sums are the same at every level.
set(DRAGONN_RUNS_ONCE $<$<CONFIG:Release>:-O1>)
if(DRAGONN_WERROR)
  target_compile_options(dragonn_options INTERFACE
    $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Werror>>
    $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings>>)
endif()
if(DRAGONN_SANITIZE)
  target_compile_options(dragonn_options INTERFACE
    $<BUILD_INTERFACE:-fsanitize=${DRAGONN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>
    # AddressSanitizer stops at what is read or written there, and a fifth of the time to compile goes into these checks.
    $<BUILD_INTERFACE:-fno-sanitize=null,object-size>
    # GCC warns falsely of the standard library (std::regex) in instrumented code.
    $<BUILD_INTERFACE:-Wno-maybe-uninitialized>)
  target_link_options(dragonn_options INTERFACE $<BUILD_INTERFACE:-fsanitize=${DRAGONN_SANITIZE}>)
endif()
