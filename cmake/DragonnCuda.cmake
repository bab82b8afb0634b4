# With DRAGONN_CUDA: the CUDA language, and dragonn_cuda, what the files of the folders cuda/ are built and linked with.
# The toolkit (nvcc 13, cuBLAS) finds itself through nvcc on the PATH; cuDNN 9 and NCCL are looked for beside it.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90 CACHE STRING "GPU architectures to build for")
endif()
enable_language(CUDA)
# CMake 3.25 does not know yet that nvcc speaks C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
find_package(CUDAToolkit 13 REQUIRED)

find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
foreach(PART CUDNN NCCL)
  if(NOT ${PART}_INCLUDE_DIR OR NOT ${PART}_LIBRARY)
    message(FATAL_ERROR "DRAGONN_CUDA=ON needs ${PART}: install it with the CUDA toolkit, or set ${PART}_INCLUDE_DIR and "
      "${PART}_LIBRARY, or build without CUDA (-DDRAGONN_CUDA=OFF)")
  endif()
endforeach()

# Fused attention needs the headers of cudnn-frontend 1.x (pip install nvidia-cudnn-frontend), and these need NVRTC. It is
# off unless asked for, because programs with it do not start where NVRTC is missing.
set(CUDNN_FRONTEND_INCLUDE_DIR "" CACHE PATH "Folder of cudnn_frontend.h, to build fused attention for GPUs; empty: none")

add_library(dragonn_cuda INTERFACE)
add_library(dragonn::cuda ALIAS dragonn_cuda)
set_target_properties(dragonn_cuda PROPERTIES EXPORT_NAME cuda)
target_include_directories(dragonn_cuda SYSTEM INTERFACE
  $<BUILD_INTERFACE:${CUDAToolkit_INCLUDE_DIRS}> $<BUILD_INTERFACE:${CUDNN_INCLUDE_DIR}>)
target_link_libraries(dragonn_cuda INTERFACE CUDA::cudart CUDA::cublas CUDA::cublasLt ${CUDNN_LIBRARY}
  $<$<BOOL:${CUDNN_FRONTEND_INCLUDE_DIR}>:CUDA::nvrtc>)
add_library(dragonn_nccl INTERFACE)
add_library(dragonn::nccl ALIAS dragonn_nccl)
set_target_properties(dragonn_nccl PROPERTIES EXPORT_NAME nccl)
target_include_directories(dragonn_nccl SYSTEM INTERFACE $<BUILD_INTERFACE:${NCCL_INCLUDE_DIR}>)
target_link_libraries(dragonn_nccl INTERFACE dragonn_cuda ${NCCL_LIBRARY})
