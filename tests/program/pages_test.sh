#!/usr/bin/env bash
# The manual pages have every option and no fault, and the completions know options, keys and values. Without man or
# bash-completion that half is left out, which is said.
. "$(dirname "$0")/lib.sh" "$1"

for program in dragonn dragonn-train dragonn-bench dragonn-compare; do
  for kind in man bash zsh; do "$BIN/$program" --generate $kind >$program.$kind || fail "$program --generate $kind"; done
  bash -n $program.bash || fail "the completion of $program is no bash"
  "$BIN/$program" --help | grep -oE -e '--[a-z-]+' | sort -u | while read -r option; do
    grep -qF -e "${option//-/\\-}" $program.man || echo "$option"
  done >missing.txt
  [ ! -s missing.txt ] || fail "the page of $program lacks $(tr '\n' ' ' <missing.txt)"
done
"$BIN/dragonn-train" --generate config >config.man || fail "the page of the config"
"$BIN/dragonn-train" --print-config=all | sed -nE 's/^(#  )? ?([a-z_0-9]+) = .*/\2/p' | sort -u >keys.txt
[ "$(wc -l <keys.txt)" -gt 100 ] || fail "only $(wc -l <keys.txt) keys"
while read -r key; do grep -qxF "\\fB$key\\fR" config.man || fail "the page of the config lacks $key"; done <keys.txt

if command -v man >/dev/null && command -v groff >/dev/null; then
  for page in *.man; do
    warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=100 man --warnings -E UTF-8 -l -Tutf8 -Z $page 2>&1 >/dev/null)
    [ -z "$warnings" ] || fail "man warns of $page: $warnings"
  done
else
  echo "left out: there is no man and groff here to read the pages"
fi

# offers LINE WORDS: what bash completes after LINE.
offers() {
  local words
  words=$(bash "$HERE/complete.bash" "$1" "${1%% *}.bash")
  [ "$words" = "$2" ] || fail "after '$1' bash offers '$words', not '$2'"
}
if [ -r /usr/share/bash-completion/bash_completion ]; then
  touch only.toml.json && mkdir runs
  cat dragonn-*.bash >>dragonn.bash
  offers "dragonn-train --set compression.me" "compression.memory= compression.method="
  offers "dragonn-train --set compression.method=gt" "gtopk"
  offers "dragonn-train --set train.nosuch" ""
  offers "dragonn-train --d" "--dry-run"
  offers "dragonn-train --list meth" "methods"
  offers "dragonn-train --resume au" "auto"
  offers "dragonn-train --output ru" "runs"
  offers "dragonn-train only" "only.toml.json"
  offers "dragonn-bench netw" "network"
  offers "dragonn-bench step --device-m" "--device-math"
  offers "dragonn-bench step --device c" "cpu cuda"
  offers "dragonn-compare --sv" "--svg"
  offers "dragonn ev" "evaluate"
  offers "dragonn train --d" "--dry-run"
  offers "dragonn bench netw" "network"
  offers "dragonn list meth" "methods"
  offers "dragonn evaluate ru" "runs"
  offers "dragonn export --set compression.method=gt" "gtopk"
else
  echo "left out: there is no bash-completion here"
fi
finish
