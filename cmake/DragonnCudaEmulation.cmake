# With DRAGONN_CUDA_EMULATION: dragonn_emulate_cuda(TARGET [SOURCE...]), which adds the files of the folders cuda/ to a folder's archive,
# .cu files as C++, and other sources as they are. DRAGONN_CUDA_STAND_INS are those that stand in for CUDA's libraries
# (tests/cuda_emulation/README.md). Of CUDA only headers are used.
find_path(CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS /usr/local/cuda/include REQUIRED)
find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${CUDA_INCLUDE_DIR} REQUIRED)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDA_INCLUDE_DIR} REQUIRED)

file(GLOB DRAGONN_CUDA_STAND_INS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/cuda_emulation/*.cpp")
set(DRAGONN_CUDA_INCLUDES ${CUDA_INCLUDE_DIR} ${CUDNN_INCLUDE_DIR} ${NCCL_INCLUDE_DIR})

function(dragonn_emulate_cuda TARGET)
  file(GLOB_RECURSE KERNELS CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cu")
  file(GLOB_RECURSE SOURCES CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  list(FILTER SOURCES INCLUDE REGEX "/cuda/")
  list(FILTER SOURCES EXCLUDE REGEX "/(fused_attention|fused_recurrent|convolution_graph)\\.cpp$")  # need cuDNN itself; they have stand-ins
  # Kernels are where the tests' time goes: optimized beyond what the preset asks for.
  set_source_files_properties(${KERNELS} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS
    "-xc++;-O1;-include;${PROJECT_SOURCE_DIR}/tests/cuda_emulation/device_code.h;-Wno-unknown-pragmas"
    SKIP_PRECOMPILE_HEADERS ON)  # they would stand behind the other header
  # The stand-ins for libraries are fast, as these are, and check their operands as a whole; so does the code that switches
  # threads.
  set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/cuda_emulation/cublas.cpp"
    "${PROJECT_SOURCE_DIR}/tests/cuda_emulation/cudnn.cpp" "${PROJECT_SOURCE_DIR}/tests/cuda_emulation/blocks.cpp"
    PROPERTIES COMPILE_OPTIONS "-fno-sanitize=all;-O3" SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${TARGET} PRIVATE ${KERNELS} ${SOURCES} ${ARGN})
  target_include_directories(${TARGET} SYSTEM PRIVATE ${DRAGONN_CUDA_INCLUDES})
endfunction()
