#!/bin/sh
# Called by CRIU at every stage, in the directory it works in. Says there which stage it is, and
# waits for permission. If whoever gives it has gone, the answer is no: the pipe of answers is open
# before anything is said, so its end is seen.
exec 3<answer 4<>stage || exit 1
echo "$CRTOOLS_SCRIPT_ACTION ${CRTOOLS_INIT_PID:-0}" >&4 || exit 1
exec 4>&-
read -r answer <&3 || exit 1
[ "$answer" = go ]
