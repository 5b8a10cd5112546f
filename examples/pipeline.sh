#!/bin/sh
# What an image's text tools are made of: silk run examples/pipeline.sh
set -eu
echo "the five largest programs in /usr/bin:"
find /usr/bin -type f -printf '%s %f\n' | sort -rn | head -n 5 | awk '{ printf "%8.1f KiB  %s\n", $1 / 1024, $2 }'
echo "and as JSON:"
find /usr/bin -type f -printf '%s\n' | sort -n | jq -cs '{programs: length, bytes: add, median: .[length / 2 | floor]}'
