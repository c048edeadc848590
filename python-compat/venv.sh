# Defines `make_venv`, for the scripts of this folder to read with `. ./venv.sh`.

# Usage: make_venv FOLDER REQUIREMENTS. Creates the virtual environment if it is missing or was made
# from another file, and returns 1 if it exists already. Requires CPython 3.11: the interpreter in
# the variable PYTHON, else `python3.11` or `python3`.
make_venv() {
    python=${PYTHON:-}
    for candidate in python3.11 python3; do
        if [ -z "$python" ] &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
                2>/dev/null; then
            python=$candidate
        fi
    done
    if [ -z "$python" ]; then
        echo "python-compat: the wheels in $2 require CPython 3.11." \
            "Set PYTHON to such an interpreter." >&2
        exit 1
    fi
    if [ -f "$1/installed" ] && cmp -s "$2" "$1/installed"; then
        return 1
    fi
    rm -rf "$1"
    "$python" -m venv "$1" || exit
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
        --only-binary :all: --no-compile --no-deps -r "$2" || exit
}
