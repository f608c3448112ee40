# Part of tools/server: --secure.
# shellcheck shell=bash
secure_files() { die "--secure is not there yet"; }
