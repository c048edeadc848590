#!/bin/sh
# Stands in for python3, pip3 and uv. Each test links this script into a temporary folder under the
# names that it needs, and writes the tools' behaviour to a file next to the links.
folder=${0%/*}
name=${0##*/}
. "$folder/behaviour"
