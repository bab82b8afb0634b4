// SPDX-License-Identifier: MIT
#include "kernels/repeated_work.h"

#include "kernels/nn/elementwise.h"
#include "tests/support/devices.h"

namespace dragonn::kernels {
namespace {

using test::on_device;
using test::to_host;
using Values = std::vector<float>;

struct Counter {
  explicit Counter(const Device& device, bool records = true)
      : work(device, records), sum(on_device(Values{0, 0}, device)) {}

  /// Adds `addend` to the sum. Returns the sum's first value.
  float add(const Buffer<float>& addend) {
    work.run([&] {
      ++asked;
      kernels::add(sum.view(), addend.view(), sum.view());
    });
    return to_host(sum.view())[0];
  }

  RepeatedWork work;
  Buffer<float> sum;
  int asked = 0;
};

}  // namespace

TEST_SUITE("kernels") {
  DRAGONN_DEVICE_TEST("work that is repeated is done every time, and a GPU is asked for it twice") {
    Counter counter(device);
    const Buffer<float> one = on_device(Values{1, 2}, device);
    for (int run = 1; run <= 5; ++run) CHECK(counter.add(one) == static_cast<float>(run));
    CHECK(counter.asked == (device.is_cpu() ? 5 : 2));
    CHECK(counter.work.obstacle().empty());
  }

  DRAGONN_DEVICE_TEST("repeated work sees the values of now, and moves where it is told that it has moved") {
    Counter counter(device);
    Buffer<float> addend = on_device(Values{1, 1}, device);
    counter.add(addend);
    counter.add(addend);
    fill(10, addend.view());
    CHECK(counter.add(addend) == 12.0f);
    const Buffer<float> other = on_device(Values{100, 100}, device);
    counter.work.forget();
    CHECK(counter.add(other) == 112.0f);
    CHECK(counter.add(other) == 212.0f);
    CHECK(counter.asked == (device.is_cpu() ? 5 : 3));
  }

  DRAGONN_DEVICE_TEST("work that waits cannot be recorded: it says so and is done all the same") {
    RepeatedWork work(device);
    Buffer<float> target = on_device(Values{0}, device);
    const Buffer<float> one = on_device(Values{1}, device);
    Values seen;
    for (int run = 0; run < 3; ++run)
      work.run([&] {
        add(target.view(), one.view(), target.view());
        seen.push_back(to_host(target.view())[0]);
      });
    CHECK(seen == Values{1, 2, 3});
    CHECK(work.obstacle().empty() == device.is_cpu());
  }

  DRAGONN_DEVICE_TEST("an error of the work itself reaches the caller, and work goes on after it") {
    RepeatedWork work(device);
    Buffer<float> target = on_device(Values{0}, device);
    const Buffer<float> one = on_device(Values{1}, device);
    bool fails = false;
    const auto run = [&] {
      work.run([&] {
        if (fails) throw DataError("a bad batch");
        add(target.view(), one.view(), target.view());
      });
    };
    run();
    fails = true;
    CHECK_THROWS_AS(run(), DataError);
    fails = false;
    run();
    run();
    CHECK(to_host(target.view()) == Values{3});
    CHECK(work.obstacle().empty());
  }

  DRAGONN_DEVICE_TEST("nothing is recorded where recording is off") {
    Counter counter(device, false);
    const Buffer<float> one = on_device(Values{1, 1}, device);
    for (int run = 1; run <= 4; ++run) CHECK(counter.add(one) == static_cast<float>(run));
    CHECK(counter.asked == 4);
  }
}

}  // namespace dragonn::kernels
