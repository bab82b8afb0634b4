// SPDX-License-Identifier: MIT
#include "kernels/repeated_work.h"

namespace dragonn::kernels {

constinit decltype(make_work_recorder) make_work_recorder("record work",
                                                          [](const Device&) -> std::unique_ptr<WorkRecorder> {
                                                            return nullptr;
                                                          });
constinit decltype(set_recording) set_recording("set_recording", [](const Device&, bool) {});

}  // namespace dragonn::kernels
