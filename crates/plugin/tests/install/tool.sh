#!/bin/sh
# Stands in for python3, pip3 and uv. Each test links it into a folder of its own under the names
# it wants, and writes what the tools do there into a file beside the links.
folder=${0%/*}
name=${0##*/}
. "$folder/behaviour"
