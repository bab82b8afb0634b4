# What bash offers when a user presses the tabulator behind a line.
# Usage: bash complete.bash LINE [FILE]     FILE: a script of completions; if not given, bash-completion finds that of the program
. /usr/share/bash-completion/bash_completion
if [ -n "${2:-}" ]; then . "$2"; else _completion_loader "${1%% *}"; fi
COMP_LINE=$1 COMP_POINT=${#1}
read -ra COMP_WORDS <<<"${1//=/ = }" # readline takes '=' for a word of its own
[[ $1 != *" " ]] || COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
specification=$(complete -p "${1%% *}")
function=${specification##* -F }
"${function%% *}" 2>/dev/null # compopt works for readline alone
echo "${COMPREPLY[@]}"
