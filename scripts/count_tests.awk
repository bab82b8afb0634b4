# SPDX-License-Identifier: MIT
# Counts tests and prints "PASSED FAILED SKIPPED". Reads what ctest printed, which has the verdict on every test, and then
# its log (Testing/Temporary/LastTest.log), which has what every test printed.
# A doctest program counts with its test cases, any other test as one. A case that prints "skipped: ..." passed for
# doctest and counts here as skipped. A program that several MPI ranks run counts once.
function column(line, number,   parts) { split(line, parts, "|"); return parts[number] + 0 }
function largest(a, b) { return a > b ? a : b }

# "3/9 Test #3: data ......   Passed    1.00 sec", or "...***Timeout", "***Not Run (Disabled)", "***Skipped".
FNR == NR && /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
  name = $0
  sub(/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: /, "", name)
  sub(/ .*/, "", name)
  if ($0 ~ /\*\*\*(Skipped|Not Run \(Disabled\))/) verdict[name] = "skipped"
  else verdict[name] = $0 ~ /\*\*\*/ ? "failed" : "passed"
}
FNR == NR { next }

/^[0-9]+\/[0-9]+ Test: / { name = $3 }
/^\[doctest\] test cases:/ {
  is_doctest[name] = 1
  cases_passed[name] = largest(cases_passed[name], column($0, 2))
  cases_failed[name] = largest(cases_failed[name], column($0, 3))
}
/MESSAGE: .*skipped: / { ++messages[name] }

END {
  for (name in verdict) {
    if (verdict[name] == "skipped") { ++skipped; continue }
    if (!(name in is_doctest)) { if (verdict[name] == "passed") ++passed; else ++failed; continue }
    said_skipped = messages[name] < cases_passed[name] ? messages[name] : cases_passed[name]
    passed += cases_passed[name] - said_skipped
    skipped += said_skipped
    # A program that crashed or ran out of time failed, whatever it printed before.
    failed += verdict[name] == "passed" ? cases_failed[name] : largest(cases_failed[name], 1)
  }
  print passed + 0, failed + 0, skipped + 0
}
