#!/bin/sh
# Starts the Holdfast of the project: its own, that of the main checkout of a worktree, or the one on the PATH.
# A hook does nothing where the project does not use Holdfast, or where `holdfast init` has wired it already.
root=${CLAUDE_PROJECT_DIR:-${CURSOR_PROJECT_DIR:-${GEMINI_PROJECT_DIR:-}}}
[ -n "$root" ] || root=$(git rev-parse --show-toplevel 2>/dev/null || pwd)
common=$(git -C "$root" rev-parse --path-format=absolute --git-common-dir 2>/dev/null)
main=${common%/.git}

quiet() {
  case $2 in cursor | gemini) echo '{}' ;; esac
  exit 0
}

if [ "$1" = hook ]; then
  [ -e "$root/.holdfast" ] || [ -e "$root/.planning" ] || [ -e "$main/.holdfast" ] || quiet "$@"
  for file in .claude/settings.json .codex/hooks.json .cursor/hooks.json .gemini/settings.json; do
    if grep -qs " hook $2 " "$root/$file"; then quiet "$@"; fi
  done
fi
for place in "$root" "$main"; do
  if [ -x "$place/node_modules/.bin/holdfast" ]; then exec "$place/node_modules/.bin/holdfast" "$@"; fi
done
if command -v holdfast >/dev/null; then exec holdfast "$@"; fi
[ "$1" = hook ] && quiet "$@"
echo "holdfast is not installed. Install it: npm install --save-dev holdfast" >&2
exit 1
